"""Desired state of nodes, without a server: which node shall hold what."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest

from gm.api.core import Pod
from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import (
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    INCREMENTAL_LEARNING_JOBS,
    JOINT_INFERENCE_SERVICES,
    MODELS,
    PODS,
)
from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
    Model,
)
from gm.api.worker_names import worker_name
from gm.controllers.downstream import Downstream, Sources
from gm.errors import ApiUnreachable, NotFound
from gm.messagelayer import Desired, WireKey
from tests.controllers.fake_informer import FakeInformer
from tests.controllers.support import golden, template
from tests.kube.virtual_time import virtual_time

ALL = {
    "dataset",
    "model",
    "federatedlearningjob",
    "jointinferenceservice",
    "incrementallearningjob",
}


class FakeHub:
    """Notes what it is told, as the hub does."""

    def __init__(self) -> None:
        self.held: dict[str, dict[WireKey, Desired]] = {}
        self.order: list[tuple[str, str]] = []
        self.expected: set[str] = set()
        self.complete_kinds: set[str] = set()
        self.held_back: set[str] = set()

    def expect(self, kinds: Iterable[str]) -> None:
        """See Hub."""
        self.expected |= set(kinds)

    def put(self, node: str, desired: Desired) -> None:
        """See Hub."""
        self.held.setdefault(node, {})[desired.key] = desired
        self.order.append((node, str(desired.key)))

    def remove(self, node: str, key: WireKey) -> None:
        """See Hub."""
        self.held.get(node, {}).pop(key, None)

    def complete(self, kind: str) -> None:
        """See Hub."""
        self.complete_kinds.add(kind)
        self.held_back.discard(kind)

    def hold_back(self, kind: str) -> None:
        """See Hub."""
        self.held_back.add(kind)

    def names(self, node: str) -> set[str]:
        """What a node shall hold."""
        return {str(key) for key in self.held.get(node, {})}


class FakeSecrets:
    """A client that only reads Secrets."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}
        self.is_down = False
        self.reads = 0

    async def get(self, resource: ResourceType, key: ObjectKey) -> bytes:
        """See Client."""
        assert resource.kind == "Secret"
        self.reads += 1
        if self.is_down:
            raise ApiUnreachable("down")
        if key.name not in self.secrets:
            raise NotFound("get secrets", code=404, reason="NotFound")
        return msgspec.json.encode(self.secrets[key.name])


class Rig:
    """Downstream with fakes around it."""

    def __init__(self, *, sends_credentials: bool = False) -> None:
        self.hub = FakeHub()
        self.client = FakeSecrets()
        self.datasets = FakeInformer(DATASETS, Dataset)
        self.models = FakeInformer(MODELS, Model)
        self.federated = FakeInformer(FEDERATED_LEARNING_JOBS, FederatedLearningJob)
        self.inference = FakeInformer(JOINT_INFERENCE_SERVICES, JointInferenceService)
        self.incremental = FakeInformer(INCREMENTAL_LEARNING_JOBS, IncrementalLearningJob)
        self.inference_pods = FakeInformer(PODS, Pod)
        self.incremental_pods = FakeInformer(PODS, Pod)
        self.all = [
            self.datasets,
            self.models,
            self.federated,
            self.inference,
            self.incremental,
            self.inference_pods,
            self.incremental_pods,
        ]
        sources: Any = {
            name: getattr(self, name)
            for name in (
                "datasets",
                "models",
                "federated",
                "inference",
                "incremental",
                "inference_pods",
                "incremental_pods",
            )
        }
        hub: Any = self.hub
        client: Any = self.client
        self.downstream = Downstream(
            hub,
            client,
            Sources(**sources),
            channel_size=4,
            sends_credentials=sends_credentials,
            resync_seconds=0.05,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Rig]:
        """Downstream runs as long as the body."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.downstream.run())
            yield self
            task.cancel()

    async def settle(self) -> None:
        """All events are applied."""
        while self.downstream.waiting_events:
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def sync_all(self) -> None:
        """All first lists are complete."""
        for informer in self.all:
            await informer.sync()
        await self.settle()

    async def until(self, condition: Any) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.01)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """A running downstream controller."""
    async with Rig().running() as found:
        yield found


def dataset(name: str = "d", node: str = "edge1", **spec: Any) -> dict[str, Any]:
    """A Dataset."""
    fields = {"url": "/a", "format": "txt", "nodeName": node, **spec}
    return {"metadata": {"name": name}, "spec": fields}


def job(*nodes: str | None, **more: Any) -> dict[str, Any]:
    """A job with trainers on ``nodes``; None: placed by the scheduler."""
    trainers = [
        {"dataset": {"name": "d"}, "template": template(**({"nodeName": n} if n else {}))}
        for n in nodes
    ]
    return {"metadata": {"name": "j"}, "spec": {"trainingWorkers": trainers}, **more}


async def test_a_job_goes_to_each_distinct_node_of_its_trainers(rig: Rig) -> None:
    """Two trainers on one node: one copy, one instance for all."""
    await rig.federated.put(job("edge1", "edge2", "edge2"))
    await rig.settle()
    key = "federatedlearningjob ns/j"
    assert rig.hub.names("edge1") == rig.hub.names("edge2") == {key}
    copies = [next(iter(rig.hub.held[node].values())) for node in ("edge1", "edge2")]
    assert copies[0] is copies[1]


async def test_the_older_form_of_node_name_is_understood(rig: Rig) -> None:
    """nodeName on the worker itself."""
    body = job(None)
    body["spec"]["trainingWorkers"][0]["nodeName"] = "edge5"
    await rig.federated.put(body)
    await rig.settle()
    assert rig.hub.names("edge5")


async def test_a_scheduled_trainer_is_followed_from_node_to_node_P1_069(rig: Rig) -> None:
    """By status.workers: where its pod is bound, also when the pod has gone."""
    name = worker_name("uid-j", "train", 0)
    await rig.federated.put(job(None))
    await rig.settle()
    assert rig.hub.held == {}
    for node in ("edge1", "edge2"):
        worker = {"name": name, "role": "train", "node": node}
        await rig.federated.put(job(None, status={"workers": [worker]}))
        await rig.settle()
        assert [n for n in rig.hub.held if rig.hub.names(n)] == [node]


async def test_a_moved_and_a_deleted_dataset_leave_their_node(rig: Rig) -> None:
    """The old node is told."""
    await rig.datasets.put(dataset(node="edge1"))
    await rig.datasets.put(dataset(node="edge2"))
    await rig.settle()
    assert rig.hub.names("edge1") == set()
    assert rig.hub.names("edge2") == {"dataset ns/d"}
    await rig.datasets.remove("d")
    await rig.settle()
    assert rig.hub.names("edge2") == set()


async def test_an_object_without_a_node_is_not_sent_and_no_error(rig: Rig) -> None:
    """It may get one later."""
    await rig.datasets.put(dataset(node=""))
    await rig.settle()
    assert rig.hub.held == {}


async def test_a_status_change_makes_no_new_version_P0_025(rig: Rig) -> None:
    """The very same copy stays."""
    await rig.datasets.put(dataset())
    await rig.settle()
    first = rig.hub.held["edge1"][WireKey("dataset", "ns", "d")]
    await rig.datasets.put({**dataset(), "status": {"numberOfSamples": 5}})
    await rig.settle()
    assert rig.hub.held["edge1"][WireKey("dataset", "ns", "d")] is first


def recorded(name: str, kind: str) -> dict[str, Any]:
    """An object of a recording's input."""
    found: dict[str, Any] = next(i for i in golden(name)["input"] if i["kind"] == kind)
    return {"metadata": found["metadata"], "spec": found["spec"]}


async def test_an_inference_service_goes_to_its_edge_workers_node(rig: Rig) -> None:
    """As recorded: neither to the cloud, nor with its models."""
    await rig.models.put(recorded("ji-basic", "Model"))
    await rig.inference.put(recorded("ji-basic", "JointInferenceService"))
    await rig.settle()
    assert rig.hub.names("edge1") == {"jointinferenceservice ns/ji-basic"}
    assert set(rig.hub.held) == {"edge1"}


async def test_an_inference_service_follows_its_bound_pods(rig: Rig) -> None:
    """With a nodeSelector."""
    body = recorded("ji-basic", "JointInferenceService")
    del body["spec"]["edgeWorker"]["template"]["spec"]["nodeName"]
    await rig.inference.put(body)
    prefix = "jointinferenceservice.sedna.io"

    def pod(worker: str, node: str | None) -> dict[str, Any]:
        labels = {f"{prefix}/uid": "uid-ji-basic", f"{prefix}/worker-type": worker}
        return {
            "metadata": {"name": f"p-{worker}", "labels": labels},
            "spec": {"nodeName": node} if node else {},
        }

    await rig.inference_pods.put(pod("cloud", "cloud1"))
    await rig.inference_pods.put(pod("edge", None))
    await rig.settle()
    assert rig.hub.held == {}
    await rig.inference_pods.put(pod("edge", "edge7"))
    await rig.settle()
    assert set(rig.hub.held) == {"edge7"}
    await rig.inference_pods.remove("p-edge")
    await rig.settle()
    assert rig.hub.names("edge7") == set()


async def test_an_incremental_job_goes_with_its_models_before_it(rig: Rig) -> None:
    """To the node of the data and those of its stages, also if the data comes last."""
    for item in golden("il")["input"]:
        if item["kind"] == "Model":
            await rig.models.put({"metadata": item["metadata"], "spec": item["spec"]})
    body = recorded("il", "IncrementalLearningJob")
    body["metadata"]["annotations"] = {"sedna.io/Eval": "edge9"}
    await rig.incremental.put(body)
    await rig.datasets.put({**dataset("ds1", "edge8")})
    await rig.settle()
    job_key = "incrementallearningjob ns/il-basic"
    for node in ("edge1", "edge9", "edge8"):
        assert rig.hub.names(node) >= {job_key, "model ns/initial-model", "model ns/deploy-model"}
        order = [what for where, what in rig.hub.order if where == node]
        assert order.index("model ns/initial-model") < order.index(job_key)
    await rig.incremental.remove("il-basic")
    await rig.settle()
    assert rig.hub.names("edge1") == set()
    assert rig.hub.names("edge8") == {"dataset ns/ds1"}


async def test_a_model_that_no_incremental_job_names_goes_nowhere(rig: Rig) -> None:
    """Federated jobs name models by themselves."""
    await rig.models.put(recorded("il", "Model"))
    await rig.federated.put(job("edge1"))
    await rig.settle()
    assert rig.hub.names("edge1") == {"federatedlearningjob ns/j"}


async def test_a_kind_is_complete_when_all_that_it_depends_on_was_applied(rig: Rig) -> None:
    """An empty desired state must never look like delete everything."""
    assert rig.hub.expected == ALL
    await rig.datasets.sync()
    await rig.federated.sync()
    await rig.settle()
    assert rig.hub.complete_kinds == {"dataset", "federatedlearningjob"}
    await rig.models.sync()
    await rig.incremental.sync()
    await rig.settle()
    assert "model" not in rig.hub.complete_kinds, "pods of incremental jobs may say where to"
    assert rig.downstream.problems()
    await rig.incremental_pods.sync()
    await rig.inference.sync()
    await rig.inference_pods.sync()
    await rig.settle()
    assert rig.hub.complete_kinds == ALL
    assert rig.downstream.problems() == []


async def test_completeness_passes_through_the_channel_behind_the_objects(rig: Rig) -> None:
    """A synced cache is not enough: events still wait."""
    for number in range(4):
        await rig.datasets.put(dataset(f"d{number}"))
    await rig.datasets.sync()
    assert "dataset" not in rig.hub.complete_kinds
    await rig.settle()
    assert "dataset" in rig.hub.complete_kinds
    assert len(rig.hub.names("edge1")) == 4


async def test_a_full_channel_makes_the_informer_wait() -> None:
    """Back-pressure instead of loss."""
    rig = Rig()
    for number in range(4):
        await rig.datasets.put(dataset(f"d{number}"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await rig.datasets.put(dataset("one-more"))


async def test_an_absent_kind_holds_back_itself_only(rig: Rig) -> None:
    """And what depends on it; when it comes, it is complete like the others."""
    rig.incremental.problem = "incrementallearningjobs.sedna.io: the CRD is not installed"
    await rig.until(lambda: rig.hub.held_back == {"incrementallearningjob", "model"})
    await rig.sync_all()
    assert rig.hub.held_back == set()
    assert rig.hub.complete_kinds == ALL


def s3_secret(key: str) -> dict[str, Any]:
    """A Secret."""
    data = {"ACCESS_KEY_ID": base64.b64encode(key.encode()).decode()}
    annotations = {"s3-endpoint": "store:9000"}
    return {"metadata": {"name": "s3", "annotations": annotations}, "data": data}


def credential(rig: Rig, node: str = "edge1") -> dict[str, str] | None:
    """The credential in a node's copy of the dataset."""
    desired = rig.hub.held.get(node, {}).get(WireKey("dataset", "ns", "d"))
    if desired is None:
        return None
    annotations = json.loads(desired.content)["metadata"].get("annotations", {})
    found: dict[str, str] = json.loads(annotations.get("sedna.io/credential", "{}"))
    return found


async def test_credentials_are_sent_only_where_the_setting_allows(rig: Rig) -> None:
    """And Secrets are not even read otherwise."""
    rig.client.secrets["s3"] = s3_secret("one")
    await rig.datasets.put(dataset(credentialName="s3"))
    await rig.settle()
    assert credential(rig) == {}
    assert rig.client.reads == 0


@virtual_time
async def test_a_copy_carries_the_secret_and_follows_its_changes() -> None:
    """Read when needed, and compared again while an edge holds a copy."""
    async with Rig(sends_credentials=True).running() as rig:
        rig.client.secrets["s3"] = s3_secret("one")
        await rig.datasets.put(dataset(credentialName="s3"))
        await rig.until(lambda: credential(rig))
        assert credential(rig) == {"ACCESS_KEY_ID": "one", "s3-endpoint": "store:9000"}
        rig.client.secrets["s3"] = s3_secret("two")
        await rig.until(lambda: (credential(rig) or {}).get("ACCESS_KEY_ID") == "two")
        await rig.datasets.remove("d")
        await rig.settle()
        reads = rig.client.reads
        await asyncio.sleep(3600)
        assert rig.client.reads <= reads + 1, "nobody needs it any more"


async def test_nothing_is_complete_before_the_secrets_were_looked_for() -> None:
    """A copy that is not made yet must not look like a deletion."""
    async with Rig(sends_credentials=True).running() as rig:
        rig.client.is_down = True
        await rig.datasets.put(dataset(credentialName="s3"))
        await rig.sync_all()
        await rig.until(lambda: rig.client.reads)
        assert "dataset" not in rig.hub.complete_kinds
        rig.client.is_down = False
        await rig.until(lambda: "dataset" in rig.hub.complete_kinds)
        assert credential(rig) == {}, "a missing Secret does not keep the object back"
        rig.client.secrets["s3"] = s3_secret("late")
        await rig.until(lambda: credential(rig))


async def test_another_credential_name_reads_another_secret() -> None:
    """The old one is forgotten."""
    async with Rig(sends_credentials=True).running() as rig:
        rig.client.secrets = {"s3": s3_secret("one"), "other": s3_secret("three")}
        await rig.datasets.put(dataset(credentialName="s3"))
        await rig.until(lambda: credential(rig))
        await rig.datasets.put(dataset(credentialName="other"))
        await rig.until(lambda: (credential(rig) or {}).get("ACCESS_KEY_ID") == "three")
        await rig.datasets.put(dataset())
        await rig.settle()
        assert credential(rig) == {}
