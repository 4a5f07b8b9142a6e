"""What a plan is made from: a snapshot of everything that matters to one job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from gm.api.core import Node, Pod, Secret, Service
from gm.api.meta import ObjectKey
from gm.api.sedna import Dataset, FederatedLearningJob, Model
from gm.config import Config
from gm.kube.lister import Stored

__all__ = ["JobSettings", "World"]


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of GM that children and their lives depend on."""

    aggregation_service: str = "nodePort"
    external_ips: bool = False
    inline_credentials: bool = False
    storage_initializer_image: str = "kubeedge/sedna-storage-initializer:v0.3.0"
    completion_grace_seconds: float = 30.0
    lc_server: str = "http://localhost:9100"
    remake_first_seconds: float = 10.0
    """Back-off before a Failed pod is made again: this, doubling with each time ..."""
    remake_max_seconds: float = 360.0
    """... up to this."""
    removal_patience_seconds: float = 15.0
    """A removal that takes longer is worth a condition."""
    node_grace_seconds: float = 30.0
    """How long a node may be not Ready before the job says so."""
    endpoint_grace_seconds: float = 60.0
    """How long the aggregator's Service may be without a ready endpoint before the job says so."""
    creating_grace_seconds: float = 30.0
    """How long a node may prepare a pod (images, volumes) before the job says so."""
    retry_first_seconds: float = 10.0
    """Back-off of a job that failed to be reconciled: this, doubling with each time ..."""
    retry_max_seconds: float = 360.0
    """... up to this. Events of the job and its children are looked at at once all the same."""

    @classmethod
    def of(cls, config: Config) -> JobSettings:
        """The part of ``config`` that matters to jobs."""
        return cls(
            aggregation_service=config.aggregation_service,
            external_ips=config.external_ips,
            inline_credentials=config.inline_credentials,
            storage_initializer_image=config.storage_initializer_image,
            completion_grace_seconds=config.completion_grace_seconds,
            lc_server=config.local_controller.server,
        )


class World(msgspec.Struct, frozen=True, kw_only=True):
    """The job and all that surrounds it, at one moment.

    ``pods`` and ``services`` are those whose controller is the job. ``departed`` are the last
    known states of pods that are gone and may have ended before they went. ``endings`` tells of
    pods, by uid, whether they ended before their removal was asked for, where that was seen (see
    :class:`~gm.controllers.federatedlearning.memory.Endings`). ``secrets`` holds
    those that were read, None for one that does not exist. ``nodes`` is None where GM may not
    list nodes. ``neighbours`` are, by node, other jobs' pods that take ports of it.
    ``rival`` is an older unfinished job that trains the same model.
    """

    now: datetime
    job: Stored[FederatedLearningJob]
    settings: JobSettings = JobSettings()
    pods: tuple[Stored[Pod], ...] = ()
    departed: tuple[Stored[Pod], ...] = ()
    endings: Mapping[str, bool] = {}
    services: tuple[Stored[Service], ...] = ()
    models: Mapping[str, Model] = {}
    datasets: Mapping[str, Dataset] = {}
    secrets: Mapping[str, Secret | None] = {}
    nodes: Mapping[str, Node] | None = {}
    neighbours: Mapping[str, tuple[Stored[Pod], ...]] = {}
    rival: ObjectKey | None = None
