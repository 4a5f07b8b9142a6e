"""The recordings of a Sedna GM, replayed step by step against API servers and scripted edges.

What differs on purpose is taken out as in ``test_golden``; of frames, by ``told_once`` below.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest

from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    MODELS,
    PODS,
    SECRETS,
    SERVICES,
)
from gm.config import WebsocketConfig
from tests.controllers.conftest import Site
from tests.controllers.federatedlearning.test_golden import by_dataset, normal, told
from tests.controllers.support import golden
from tests.fakes.edge import Edge

NAMES = pytest.mark.parametrize("name", ["fl-hostpath", "fl-s3"])
NODES_OF_RECORDING = ("cloud", "edge1", "edge2")
KINDS = {r.kind: r for r in (DATASETS, FEDERATED_LEARNING_JOBS, MODELS, SECRETS, SERVICES, PODS)}
REPORT = {
    "phase": "train",
    "status": "running",
    "output": {
        "models": [
            {
                "format": "pb",
                "url": "/m",
                "metrics": {"note": "x", "accuracy": 0.91, "loss": [0.5, 0.25]},
            }
        ],
        "ownerInfo": {"currentRound": 1, "updateTime": "2026-11-30 01:00:00"},
    },
}


class Replay:
    """One recording, and how to compare what happens with it."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.name = site, name
        self.recording = golden(name)
        self.steps = {step["step"]: step for step in self.recording["steps"]}
        site.settings = msgspec.structs.replace(site.settings, aggregation_service="clusterDNS")
        # as Sedna does; the default gives credentials to authenticated nodes only
        websocket = WebsocketConfig(address="127.0.0.1", port=0, credentials="always")
        site.config = msgspec.structs.replace(site.config, websocket=websocket)

    def here(self, value: Any) -> Any:
        """Something recorded, with this test's nodes and namespace."""
        text = json.dumps(value).replace(self.recording["namespace"], self.site.namespace)
        for node in NODES_OF_RECORDING:
            text = text.replace(f'"nodeName": "{node}"', f'"nodeName": "{self.site.node(node)}"')
        return json.loads(text)

    def there(self, value: Any) -> Any:
        """Something of this test, with the recording's nodes and namespace."""
        text = json.dumps(value)
        for node in NODES_OF_RECORDING:
            text = text.replace(self.site.node(node), node)
        return json.loads(text.replace(self.site.namespace, self.recording["namespace"]))

    async def apply(self) -> dict[str, Any]:
        """Create what the recording begins with; the job."""
        await self.site.nodes(*NODES_OF_RECORDING)
        job: dict[str, Any] = {}
        for item in self.recording["input"]:
            job = await self.site.create(KINDS[item["kind"]], self.here(item))
        return job

    async def status(self) -> dict[str, Any]:
        """What the job's status tells in Sedna's fields."""
        return told(self.there(await self.site.status(self.name)))

    def recorded_status(self, step: str) -> dict[str, Any]:
        """The same, as recorded."""
        return told(self.steps[step]["statuses"][f"FederatedLearningJob/{self.name}"])

    async def wait_like(self, step: str, **ours: Any) -> None:
        """Wait until the status says what was recorded, but for ``ours``."""
        expected = self.recorded_status(step) | ours

        async def is_alike() -> bool:
            return await self.status() == expected

        with contextlib.suppress(AssertionError):
            await self.site.cluster.wait_for(is_alike, timeout_seconds=20)
        assert await self.status() == expected


def bare(value: Any) -> Any:
    """``value`` without the empty fields that Go writes."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: bare(item) for key, item in value.items()}
    return {key: item for key, item in fields.items() if item not in (None, "", {}, [])}


def content(obj: dict[str, Any]) -> dict[str, Any]:
    """What of a frame's object is compared: its status is the edge's own, or GM's for people."""
    annotations = obj["metadata"].get("annotations") or {}
    credential = json.loads(annotations.get("sedna.io/credential", "{}"))
    credential.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    meta = obj["metadata"]
    return {
        "kind": obj["kind"],
        "name": (meta["namespace"], meta["name"]),
        "spec": bare(obj["spec"]),
        "credential": credential,
    }


def told_once(frames: list[dict[str, Any]], node: str) -> list[tuple[str, str, str, Any]]:
    """The frames of ``node``, each content once.

    docs/compatibility.md, "status changes": Sedna sends the whole object again with each.
    """
    seen: list[tuple[str, str, str, Any]] = []
    for frame in frames:
        header = frame["header"]
        obj = frame.get("object")
        is_delete = header["operation"] == "delete"
        entry = (
            header["operation"],
            header["resourceKind"],
            f"{header['namespace']}/{header['resourceName']}",
            content(obj) if obj and not is_delete else None,
        )
        if frame["node"] == node and entry not in seen:
            seen.append(entry)
    return sorted(seen, key=str)


def ours(replay: Replay, edge: Edge, node: str) -> list[tuple[str, str, str, Any]]:
    """What came to the edge that plays ``node``."""
    frames = [
        replay.there({"header": f["header"], "object": f["content"], "node": node})
        for f in edge.frames
    ]
    assert len(frames) == len(told_once(frames, node)), "nothing comes twice"
    return told_once(frames, node)


@NAMES
async def test_a_recording_is_replayed_from_the_first_object_to_the_last_frame(
    site: Site, name: str
) -> None:
    """Children, statuses, events and the frames of each node are what Sedna's GM made."""
    replay = Replay(site, name)
    async with site.gm(), site.edge("edge1") as edge1, site.edge("edge2") as edge2:
        await replay.apply()
        pods = await site.wait_pods(3, name)
        # docs/compatibility.md, "phase": Pending until every worker runs
        await replay.wait_like("applied", phase="Pending")
        recorded = replay.steps["applied"]["children"]
        theirs = by_dataset([child for child in recorded if child["kind"] == "Pod"])
        as_read = {"apiVersion": "v1", "kind": "Pod"}  # which items of a list lack
        made = by_dataset([as_read | replay.there(pod) for pod in pods.values()])
        assert made.keys() == theirs.keys()
        for which, pod in theirs.items():
            assert normal(made[which]) == normal(pod), which
        (service,) = await site.services()
        (their_service,) = [child for child in recorded if child["kind"] == "Service"]
        for field in ("type", "ports", "sessionAffinity"):
            assert service["spec"].get(field, "None") == their_service["spec"].get(field), field
        assert "externalIPs" not in service["spec"]
        first = replay.steps["applied"]["frames"]
        for node, edge in (("edge1", edge1), ("edge2", edge2)):
            expected = told_once(first, node)
            assert len(expected) == 2, "its dataset and the job"
            await edge.wait_for(lambda edge=edge: len(edge.frames) >= 2)
            assert ours(replay, edge, node) == expected

        await site.set_phase("Running", *sorted(pods, reverse=True))
        await replay.wait_like("pods running")

        await edge1.report("federatedlearningjob", site.namespace, name, REPORT)
        await replay.wait_like("round 1 reported")
        model = await site.cluster.get(MODELS, "m1")
        assert model is not None
        theirs_told = replay.steps["round 1 reported"]["statuses"]["Model/m1"]["metrics"]
        told_metrics = {m["key"]: m["value"] for m in model["status"]["metrics"]}
        assert told_metrics == {m["key"]: m["value"] for m in theirs_told}

        await site.set_phase("Succeeded", *sorted(pods, reverse=True))
        await replay.wait_like("pods succeeded")
        (event,) = await site.cluster.wait_for(lambda: site.events("Completed"))
        (their_event,) = replay.steps["pods succeeded"]["events"]
        assert (event["type"], event["reason"]) == (their_event["type"], their_event["reason"])

        await site.settled()
        before = len(edge1.frames), len(edge2.frames)
        assert before == (2, 2), "no status was sent to an edge"
        await site.delete(FEDERATED_LEARNING_JOBS, name)
        for node, edge in (("edge1", edge1), ("edge2", edge2)):
            key = f"federatedlearningjob {site.namespace}/{name}"
            await edge.wait_for(lambda edge=edge, key=key: key not in edge.held)
            assert ours(replay, edge, node) == sorted(
                [*told_once(first, node), *told_once(replay.steps["deleted"]["frames"], node)],
                key=str,
            )


@NAMES
async def test_the_children_that_sedna_left_are_taken_over_and_nothing_starts_twice(
    site: Site, name: str
) -> None:
    """The recording's own pods and Service, with a GM whose setting is another one."""
    replay = Replay(site, name)
    site.settings = msgspec.structs.replace(site.settings, aggregation_service="nodePort")
    job = await replay.apply()
    uid = job["metadata"]["uid"]
    left = set()
    for child in replay.here(replay.steps["applied"]["children"]):
        meta = {k: child["metadata"][k] for k in ("name", "labels", "ownerReferences")}
        meta["labels"]["federatedlearningjob.sedna.io/uid"] = uid
        meta["ownerReferences"][0]["uid"] = uid
        spec = {k: v for k, v in child["spec"].items() if k not in ("clusterIP", "clusterIPs")}
        if "selector" in spec:
            spec["selector"]["federatedlearningjob.sedna.io/uid"] = uid
        await site.create(KINDS[child["kind"]], {"metadata": meta, "spec": spec})
        left.add(meta["name"])
    async with site.gm():
        await site.wait_status(lambda status: status.get("active") == 3, name)
        await site.settled()
        pods = await site.pods(name)
        assert pods.keys() | {f"{name}-aggregation"} == left
        assert site.faults.creates() == []
        assert [call for call in site.faults.calls if call.verb == "delete"] == []
        workers = {pod["metadata"]["annotations"]["sedna.io/worker"] for pod in pods.values()}
        assert workers == {"aggregation-0", "train-0", "train-1"}
        (service,) = await site.services()
        assert service["spec"]["type"] == "ClusterIP", "a job keeps the way that it was made with"
        # one that is lost is made again as ours, and told the old way to the aggregator
        trainer = next(n for n, p in pods.items() if "train-0" in str(p["metadata"]["annotations"]))
        await site.delete(PODS, trainer)
        await site.cluster.finish_delete(trainer)
        await site.wait_pods(3, name)
        new = (await site.pods(name))[f"{name}-train-0"]
        env = {e["name"]: e.get("value") for e in new["spec"]["containers"][0]["env"]}
        assert env["AGG_IP"] == f"{name}-aggregation.{site.namespace}"
        assert len(site.faults.creates()) == 1
