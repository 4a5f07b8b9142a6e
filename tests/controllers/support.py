"""Objects for the controllers' tests: jobs, pods and worlds, written as short as they can be."""

from __future__ import annotations

import copy
import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gm.api.core import Node, Pod, Secret, Service
from gm.api.sedna import Dataset, FederatedLearningJob, Model
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import Child, Plan, plan
from gm.controllers.federatedlearning.world import JobSettings, World
from gm.controllers.stored import stored
from gm.kube.lister import Stored

GOLDEN = Path(__file__).parent.parent / "golden"
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
NAMESPACE = "ns"
UID = "job-uid"

V = TypeVar("V", Pod, Service)

_serial = itertools.count(1)


def golden(name: str) -> dict[str, Any]:
    """A recording of a Sedna GM."""
    loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return loaded


def template(image: str = "example:v1", **spec: Any) -> dict[str, Any]:
    """A pod template with one container."""
    return {"spec": {"containers": [{"name": "worker", "image": image}], **spec}}


def job_json(
    name: str = "job",
    *,
    trainers: int = 2,
    status: dict[str, Any] | None = None,
    generation: int = 1,
    **spec: Any,
) -> dict[str, Any]:
    """A job with an aggregator on ``cloud`` and trainers on ``edge0``, ``edge1``, ..."""
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "FederatedLearningJob",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": UID,
            "resourceVersion": "1",
            "generation": generation,
            "creationTimestamp": timestamp(NOW - timedelta(minutes=5)),
        },
        "spec": {
            "aggregationWorker": {"model": {"name": "m"}, "template": template(nodeName="cloud")},
            "trainingWorkers": [
                {"dataset": {"name": f"d{i}"}, "template": template(nodeName=f"edge{i}")}
                for i in range(trainers)
            ],
            **spec,
        },
        **({"status": status} if status is not None else {}),
    }


def view(obj: dict[str, Any], kind: type[Any]) -> Stored[Any]:
    """``obj`` as a lister would hold it."""
    return stored(msgspec.json.encode(obj), kind)


def node(name: str, address: str, **status: Any) -> Node:
    """A Node that is Ready."""
    body = {
        "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
            **status,
        },
    }
    return msgspec.convert(body, Node)


def model(name: str = "m", url: str = "/model/m1", **spec: Any) -> Model:
    """A Model."""
    body = {"metadata": {"name": name}, "spec": {"url": url, "format": "pb", **spec}}
    return msgspec.convert(body, Model)


def dataset(
    name: str, url: str = "/data/train.txt", node_name: str = "edge0", **spec: Any
) -> Dataset:
    """A Dataset."""
    fields = {"url": url, "format": "txt", "nodeName": node_name, **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": fields}, Dataset)


def secret(name: str, data: dict[str, str], **annotations: str) -> Secret:
    """A Secret; ``data`` in base64."""
    body = {"metadata": {"name": name, "annotations": annotations}, "data": data}
    return msgspec.convert(body, Secret)


def world(job: dict[str, Any] | None = None, **fields: Any) -> World:
    """A world in which nothing is missing and nothing was made yet."""
    job = job or job_json()
    count = len(job["spec"]["trainingWorkers"])
    known: dict[str, Any] = {
        "now": NOW,
        "models": {"m": model()},
        "datasets": {f"d{i}": dataset(f"d{i}", f"/data/{i}/train.txt") for i in range(count)},
        "nodes": {
            "cloud": node("cloud", "10.0.0.1"),
            **{f"edge{i}": node(f"edge{i}", f"10.0.1.{i}") for i in range(count)},
        },
        "settings": JobSettings(),
    }
    return World(job=view(job, FederatedLearningJob), **{**known, **fields})


def as_stored(child: Child, **changes: Any) -> Stored[Any]:
    """A child as the API server would store it."""
    body = copy.deepcopy(child.body)
    number = next(_serial)
    body["metadata"] |= {
        "uid": f"uid-{number}",
        "resourceVersion": str(number),
        "creationTimestamp": timestamp(NOW),
    }
    if child.resource.kind == "Service":
        for port in body["spec"]["ports"]:
            if body["spec"]["type"] == "NodePort":
                port.setdefault("nodePort", 30000 + number)
        return view(_merged(body, changes), Service)
    body.setdefault("status", {})["phase"] = "Pending"
    return view(_merged(body, changes), Pod)


def _merged(body: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for key, value in changes.items():
        body[key] = {**body.get(key, {}), **value} if isinstance(value, dict) else value
    return body


def changed(pod: Stored[Any], **changes: Any) -> Stored[Any]:
    """``pod`` with fields of its status, metadata or spec changed."""
    return view(_merged(msgspec.json.decode(pod.raw), changes), type(pod.view))


def with_status(seen: World, status: dict[str, Any] | None) -> World:
    """``seen`` after ``status`` was written."""
    body = msgspec.json.decode(seen.job.raw)
    body["status"] = status
    return msgspec.structs.replace(seen, job=view(body, FederatedLearningJob))


def later(seen: World, seconds: float) -> World:
    """``seen``, some time after."""
    return msgspec.structs.replace(seen, now=seen.now + timedelta(seconds=seconds))


def settle(seen: World, *, rounds: int = 8) -> tuple[World, Plan]:
    """Carry plans out, as an API server that always obeys, until nothing is left to do."""
    last = Plan()
    for _ in range(rounds):
        decided = plan(seen)
        gone = {deletion.uid for deletion in decided.delete}
        made = [as_stored(child) for child in decided.create]
        seen = msgspec.structs.replace(
            seen,
            pods=(
                *(p for p in seen.pods if p.uid not in gone),
                *(m for m in made if isinstance(m.view, Pod)),
            ),
            services=(
                *(s for s in seen.services if s.uid not in gone),
                *(m for m in made if isinstance(m.view, Service)),
            ),
        )
        before = seen.job.raw
        if decided.status is not None:
            seen = with_status(seen, decided.status)
            last = decided  # a finished job's plan has no status: the test looks at the last one
        if not made and not gone and seen.job.raw == before:
            return seen, last
    raise AssertionError(f"no end after {rounds} rounds")


def by_name(seen: World) -> dict[str, Stored[Pod]]:
    """The pods of a world."""
    return {pod.key.name: pod for pod in seen.pods}


def set_pods(seen: World, phase: str | dict[str, Any], *names: str) -> World:
    """``seen`` with pods ``names`` (or all) in ``phase``, or with these fields of status."""
    status = {"phase": phase} if isinstance(phase, str) else phase
    pods = tuple(
        changed(pod, status=status) if not names or pod.key.name in names else pod
        for pod in seen.pods
    )
    return msgspec.structs.replace(seen, pods=pods)


def running(job: dict[str, Any] | None = None, **fields: Any) -> World:
    """A world in which the job runs."""
    seen, _ = settle(world(job, **fields))
    seen, _ = settle(set_pods(seen, "Running"))
    return seen


def conditions(decided: Plan) -> dict[str, dict[str, Any]]:
    """The conditions of a plan's status, by type."""
    assert decided.status is not None
    listed = decided.status.get("conditions") or []
    assert len({c["type"] for c in listed}) == len(listed), "one per type"
    return {condition["type"]: condition for condition in listed}


def env_of(pod: dict[str, Any], container: int = 0) -> dict[str, Any]:
    """Environment of a container, by name; fails on duplicates."""
    entries = pod["spec"]["containers"][container]["env"]
    names = [entry["name"] for entry in entries]
    assert len(set(names)) == len(names), f"duplicates in {names}"
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}
