"""The informers of GM: made once, shared by all controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from gm.api.core import Node, Pod, Service
from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    IF_ABSENT,
    INCREMENTAL_LEARNING_JOBS,
    JOINT_INFERENCE_SERVICES,
    MODELS,
    NODES,
    PODS,
    SERVICES,
)
from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
    Model,
)
from gm.controllers.worker import uid_label
from gm.kube.causes import Causes
from gm.kube.client import Client
from gm.kube.informer import Informer, InformerSettings

__all__ = ["Informers"]


class Informers(msgspec.Struct, frozen=True, kw_only=True):
    """One for each kind that GM reads; of pods and Services only those that belong to our kinds."""

    datasets: Informer[Dataset]
    models: Informer[Model]
    federated: Informer[FederatedLearningJob]
    inference: Informer[JointInferenceService]
    incremental: Informer[IncrementalLearningJob]
    federated_pods: Informer[Pod]
    federated_services: Informer[Service]
    inference_pods: Informer[Pod]
    incremental_pods: Informer[Pod]
    nodes: Informer[Node]

    @classmethod
    def make(
        cls, client: Client, *, namespace: str = "", settings: InformerSettings | None = None
    ) -> Informers:
        """Informers on ``namespace``, or on all; they do nothing until they run."""
        options: dict[str, Any] = {
            "namespace": namespace,
            "if_absent": IF_ABSENT,
            "causes": Causes(),
        }
        if settings is not None:
            options["settings"] = settings
        federated = {**options, "label_selector": uid_label(FEDERATED_LEARNING_JOBS)}
        inference = {**options, "label_selector": uid_label(JOINT_INFERENCE_SERVICES)}
        incremental = {**options, "label_selector": uid_label(INCREMENTAL_LEARNING_JOBS)}
        return cls(
            datasets=Informer(client, DATASETS, Dataset, **options),
            models=Informer(client, MODELS, Model, **options),
            federated=Informer(client, FEDERATED_LEARNING_JOBS, FederatedLearningJob, **options),
            inference=Informer(client, JOINT_INFERENCE_SERVICES, JointInferenceService, **options),
            incremental=Informer(
                client, INCREMENTAL_LEARNING_JOBS, IncrementalLearningJob, **options
            ),
            federated_pods=Informer(client, PODS, Pod, **federated),
            federated_services=Informer(client, SERVICES, Service, **federated),
            inference_pods=Informer(client, PODS, Pod, **inference),
            incremental_pods=Informer(client, PODS, Pod, **incremental),
            nodes=Informer(client, NODES, Node, **{**options, "namespace": ""}),
        )

    def all(self) -> Iterator[Informer[Any]]:
        """Every informer."""
        for name in self.__struct_fields__:
            yield getattr(self, name)

    def required(self) -> Iterator[Informer[Any]]:
        """Those without which GM is not ready: federated learning and what it reads."""
        yield from (
            self.datasets,
            self.models,
            self.federated,
            self.federated_pods,
            self.federated_services,
        )

    def problems(self) -> list[str]:
        """What is wrong with required informers, in words for people."""
        return [
            informer.problem or f"{informer.resource.qualified}: first list has not come yet"
            for informer in self.required()
            if not informer.is_synced or informer.problem
        ]

    async def run(self) -> None:
        """Run all of them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name in self.__struct_fields__:
                group.create_task(getattr(self, name).run(), name=f"informer-{name}")

    async def wait_synced(self) -> None:
        """Return when the required ones have synced, and Nodes have, or can not be had."""
        for informer in self.required():
            await informer.wait_synced()
        while not (self.nodes.is_synced or self.nodes.problem):  # noqa: ASYNC110 # no event for it
            await asyncio.sleep(0.05)
