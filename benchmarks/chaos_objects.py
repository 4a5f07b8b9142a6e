"""Objects that a chaos run changes, and where each belongs, told from the API server alone."""

from __future__ import annotations

import collections
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from gm.api.meta import Json, ResourceType
from gm.api.resources import (
    DATASETS,
    INCREMENTAL_LEARNING_JOBS,
    JOINT_INFERENCE_SERVICES,
    MODELS,
)
from gm.kube.client import Client
from tests.api.samples import incremental, joint

__all__ = ["Holdings", "Thing", "Version", "expected", "things"]

_KINDS = (DATASETS, JOINT_INFERENCE_SERVICES, INCREMENTAL_LEARNING_JOBS, MODELS)


class Version(msgspec.Struct, frozen=True):
    """What of an object must be the same on the node and in the API server."""

    uid: str
    counts: Any  # labels and spec

    @classmethod
    def of(cls, found: Json) -> Version:
        """That of a decoded object."""
        metadata = found["metadata"]
        return cls(metadata["uid"], (metadata.get("labels"), found["spec"]))


Holdings = dict[str, Version]
"""By ``kind namespace/name``."""


async def expected(client: Client, namespace: str) -> dict[str, Holdings]:
    """What each node should hold, told from the API server alone."""
    by_kind: dict[str, dict[str, Json]] = {}
    for kind in _KINDS:
        listed = await client.list(kind, namespace=namespace)
        decoded = [msgspec.json.decode(item) for item in listed.items]
        by_kind[kind.plural] = {found["metadata"]["name"]: found for found in decoded}
    wanted: dict[str, Holdings] = collections.defaultdict(dict)

    def want(node: str, kind: ResourceType, found: Json) -> None:
        key = f"{kind.kind.lower()} {namespace}/{found['metadata']['name']}"
        wanted[node][key] = Version.of(found)

    datasets, models = by_kind[DATASETS.plural], by_kind[MODELS.plural]
    for found in datasets.values():
        want(found["spec"]["nodeName"], DATASETS, found)
    for found in by_kind[JOINT_INFERENCE_SERVICES.plural].values():
        want(
            found["spec"]["edgeWorker"]["template"]["spec"]["nodeName"],
            JOINT_INFERENCE_SERVICES,
            found,
        )
    for found in by_kind[INCREMENTAL_LEARNING_JOBS.plural].values():
        spec = found["spec"]
        dataset = datasets.get(spec["dataset"]["name"])
        if dataset is None:
            continue  # it names no node itself
        node = dataset["spec"]["nodeName"]
        want(node, INCREMENTAL_LEARNING_JOBS, found)
        for name in {spec["initialModel"]["name"], spec["deploySpec"]["model"]["name"]}:
            if name in models:
                want(node, MODELS, models[name])
    return wanted


class Thing(msgspec.Struct):
    """One object that comes and goes."""

    kind: ResourceType
    name: str
    body: Callable[[str, random.Random], Json]
    exists: bool = False


def dataset_body(node: str, rng: random.Random) -> Json:
    """Spec of a Dataset."""
    return {"url": f"/data/{rng.randrange(100)}.csv", "format": "csv", "nodeName": node}


def joint_body(node: str, rng: random.Random) -> Json:
    """Spec of a JointInferenceService whose small model runs on ``node``."""
    spec: Json = joint()["spec"]
    spec["edgeWorker"]["template"]["spec"]["nodeName"] = node
    return spec


def model_body(node: str, rng: random.Random) -> Json:
    """Spec of a Model; its nodes are those of the jobs that name it."""
    return {"url": f"/models/{rng.randrange(100)}", "format": "pb"}


def incremental_body(dataset: str, model: str) -> Callable[[str, random.Random], Json]:
    """Makes specs of an IncrementalLearningJob that goes where its data is."""

    def body(node: str, rng: random.Random) -> Json:
        spec: Json = incremental()["spec"]
        for stage in ("trainSpec", "evalSpec", "deploySpec"):
            spec[stage]["template"]["spec"].pop("nodeName", None)
        spec["dataset"]["name"] = dataset
        spec["initialModel"]["name"] = model
        spec["deploySpec"]["model"]["name"] = model
        return spec

    return body


def things(nodes: int) -> list[Thing]:
    """All objects that there may be."""
    found = [Thing(DATASETS, f"d{number}", dataset_body) for number in range(3 * nodes)]
    found += [Thing(JOINT_INFERENCE_SERVICES, f"j{n}", joint_body) for n in range(nodes // 2)]
    models = max(2, nodes // 10)
    found += [Thing(MODELS, f"m{number}", model_body) for number in range(models)]
    for number in range(nodes // 2):
        body = incremental_body(f"d{number}", f"m{number % models}")
        found.append(Thing(INCREMENTAL_LEARNING_JOBS, f"i{number}", body))
    return found
