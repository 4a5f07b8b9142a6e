"""The CRDs in an API server, by way of kubectl."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gm.api import resources, sedna
from gm.api.crd import crds
from gm.api.meta import ObjectKey, ResourceType
from tests.api import samples
from tests.cluster.cluster import Cluster

Json = dict[str, Any]
DIRECTORY = Path(__file__).parent.parent.parent / "deploy" / "crds"
JOBS = resources.FEDERATED_LEARNING_JOBS


async def apply(cluster: Cluster, obj: Json) -> str:
    """What kubectl says to an object that is accepted."""
    return await cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(obj))


async def refusal(cluster: Cluster, obj: Json) -> str:
    """What the API server says to an object that it refuses."""
    async with cluster.client() as client:
        body = msgspec.json.encode(obj)
        answer = await client.raw(
            "POST",
            JOBS.path(cluster.namespace),
            query={"fieldValidation": "Strict"},
            body=body,
        )
    assert answer.status >= 400
    message: str = msgspec.json.decode(answer.body)["message"]
    return message


async def table(cluster: Cluster, *arguments: str) -> list[list[str]]:
    """Rows of what `kubectl get` prints, split at blanks."""
    return [line.split() for line in (await cluster.kubectl("get", *arguments)).splitlines()]


async def set_status(cluster: Cluster, resource: ResourceType, name: str, status: Any) -> None:
    """Write a status, as the controllers do."""
    key = cluster.key(name) if resource.namespaced else ObjectKey("", name)
    body = {"status": msgspec.json.decode(msgspec.json.encode(status))}
    async with cluster.client() as client:
        await client.patch(resource, key, body, subresource="status")


async def test_the_directory_can_be_applied_twice_P1_088(cluster: Cluster) -> None:
    """The second time nothing changes."""
    await cluster.kubectl("apply", "-f", str(DIRECTORY))
    again = await cluster.kubectl("apply", "-f", str(DIRECTORY))
    assert again.splitlines() == [
        f"customresourcedefinition.apiextensions.k8s.io/{name} unchanged"
        for name in sorted(crd["metadata"]["name"] for crd in crds())
    ]


async def test_the_server_finds_nothing_wrong_with_the_schemas(cluster: Cluster) -> None:
    """A schema that is not structural would be accepted, with a condition that says so."""
    for crd in crds():
        stored = await cluster.get(
            resources.CUSTOM_RESOURCE_DEFINITIONS, str(crd["metadata"]["name"])
        )
        assert stored is not None
        conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}


async def test_explain_tells_what_to_write(cluster: Cluster) -> None:
    """Down into the pod template."""
    told = await cluster.kubectl("explain", "fl.spec.trainingWorkers")
    assert "Dataset to train on." in told
    assert "-required-" in told
    assert "status.podIP" in await cluster.kubectl(
        "explain", "fl.spec.trainingWorkers.template.spec.containers.env.valueFrom.fieldRef"
    )


@pytest.mark.parametrize("obj", samples.sample_objects(), ids=lambda obj: str(obj["kind"]))
async def test_each_kind_is_stored_as_it_was_written(cluster: Cluster, obj: Json) -> None:
    """Strictly validated, nothing pruned."""
    assert (await apply(cluster, obj)).endswith("created\n")
    resource = next(
        value
        for value in vars(resources).values()
        if isinstance(value, ResourceType) and value.kind == obj["kind"]
    )
    stored = await cluster.get(resource, obj["metadata"]["name"])
    assert stored is not None
    assert stored["spec"] == obj["spec"]


async def test_an_unknown_field_of_a_template_survives_P1_088(cluster: Cluster) -> None:
    """And one of the job itself is refused, by its name."""
    obj = samples.federated()
    template = obj["spec"]["aggregationWorker"]["template"]
    template["spec"]["newlyInvented"] = {"a": [1]}
    template["spec"]["containers"][0]["alsoNew"] = 7
    await apply(cluster, obj)
    stored = await cluster.get(JOBS, obj["metadata"]["name"])
    assert stored is not None
    assert stored["spec"]["aggregationWorker"]["template"] == template
    obj["spec"]["trainingWorker"] = []
    assert 'unknown field "spec.trainingWorker"' in await refusal(cluster, obj)


async def test_specs_without_controller_keep_unknown_fields(cluster: Cluster) -> None:
    """At the top and below."""
    obj = samples.joint()
    obj["spec"]["toCome"] = {"a": 1}
    obj["spec"]["edgeWorker"]["toCome"] = [2]
    await apply(cluster, obj)
    stored = await cluster.get(resources.JOINT_INFERENCE_SERVICES, obj["metadata"]["name"])
    assert stored is not None
    assert stored["spec"] == obj["spec"]


@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"args": ["-i", 1]}, "args[1]"),
        ({"env": [{"name": "A", "value": 32}]}, "env[0].value"),
    ],
)
async def test_numbers_where_text_belongs_are_refused_P0_024(
    cluster: Cluster, container: Json, path: str
) -> None:
    """The message names the field and the type."""
    obj = samples.federated()
    obj["spec"]["trainingWorkers"][1]["template"]["spec"]["containers"][0] |= container
    told = await refusal(cluster, obj)
    field = f"spec.trainingWorkers[1].template.spec.containers[0].{path}"
    assert f'{field} in body must be of type string: "integer"' in told


async def test_a_template_of_null_is_refused_P0_024(cluster: Cluster) -> None:
    """The server drops nulls, then misses the field."""
    obj = samples.federated()
    obj["spec"]["aggregationWorker"]["template"] = None
    assert "spec.aggregationWorker.template: Required value" in await refusal(cluster, obj)


async def test_jobs_show_how_they_are_doing_P1_070(cluster: Cluster) -> None:
    """No cell is empty after a run, zeros included; `kubectl wait` sees the condition."""
    await apply(cluster, samples.federated())
    await set_status(
        cluster,
        JOBS,
        "surface",
        sedna.FederatedLearningJobStatus(
            phase="Succeeded",
            round=5,
            active=0,
            succeeded=3,
            failed=0,
            conditions=(sedna.JobCondition(type="Complete", status="True"),),
        ),
    )
    head, row = await table(cluster, "fl")
    assert head == ["NAME", "PHASE", "ROUND", "ACTIVE", "SUCCEEDED", "FAILED", "AGE"]
    assert row[:-1] == ["surface", "Succeeded", "5", "0", "3", "0"]
    await cluster.kubectl("wait", "--for=condition=Complete", "fl/surface", "--timeout=10s")


async def test_data_and_models_show_what_is_known_of_them_P1_070(cluster: Cluster) -> None:
    """By their short names."""
    await apply(cluster, samples.dataset())
    await apply(cluster, samples.model())
    now = datetime.now(UTC)
    await set_status(cluster, resources.DATASETS, "ds1", sedna.DatasetStatus(number_of_samples=100))
    await set_status(cluster, resources.MODELS, "m1", sedna.ModelStatus(update_time=now))
    head, row = await table(cluster, "dset")
    assert head == ["NAME", "NODE", "SAMPLES", "FORMAT", "AGE"]
    assert row[:-1] == ["ds1", "edge1", "100", "txt"]
    head, row = await table(cluster, "mdl")
    assert head == ["NAME", "FORMAT", "URL", "UPDATED", "AGE"]
    assert row[:3] == ["m1", "pb", "/model/m1"]
    assert len(row) == len(head)


async def test_services_and_histories_show_where_they_stand_P1_070(cluster: Cluster) -> None:
    """Of a history, the last entry."""
    await apply(cluster, samples.joint())
    await apply(cluster, samples.incremental())
    await set_status(
        cluster,
        resources.JOINT_INFERENCE_SERVICES,
        "helmet",
        sedna.JointInferenceServiceStatus(
            conditions=(
                sedna.ServiceCondition(type="Pending", status="False"),
                sedna.ServiceCondition(type="Running", status="True"),
            )
        ),
    )
    await set_status(
        cluster,
        resources.INCREMENTAL_LEARNING_JOBS,
        "retrain",
        sedna.IncrementalLearningJobStatus(
            conditions=(
                sedna.StageCondition(type="Completed", status="True", stage="Train"),
                sedna.StageCondition(type="Waiting", status="True", stage="Eval"),
            )
        ),
    )
    head, row = await table(cluster, "ji")
    assert (head, row[:-1]) == (["NAME", "READY", "AGE"], ["helmet", "True"])
    head, row = await table(cluster, "il")
    assert head == ["NAME", "STAGE", "STATUS", "AGE"]
    assert row[:-1] == ["retrain", "Eval", "Waiting"]


async def test_edge_nodes_show_their_link(cluster: Cluster) -> None:
    """Cluster-scoped, written by GM alone."""
    name = f"edge-{cluster.namespace}"
    node = {"apiVersion": "sedna.io/v1alpha1", "kind": "EdgeNode", "metadata": {"name": name}}
    await apply(cluster, node)
    try:
        await set_status(
            cluster,
            resources.EDGE_NODES,
            name,
            sedna.EdgeNodeStatus(
                connected=True,
                protocol="v2",
                pending=0,
                held=2,
                held_keys=("dataset/default/a", "model/default/b"),
                last_seen=datetime.now(UTC),
            ),
        )
        head, row = await table(cluster, "en", name)
        assert head == [
            "NAME",
            "NODE",
            "CONNECTED",
            "PROTOCOL",
            "PENDING",
            "HELD",
            "LAST-SEEN",
            "AGE",
        ]
        assert row[:6] == [name, name, "true", "v2", "0", "2"]
        assert len(row) == len(head)
    finally:
        await cluster.kubectl("delete", "en", name)


async def test_all_our_kinds_are_one_category(cluster: Cluster) -> None:
    """`kubectl get sedna` shows what there is."""
    await apply(cluster, samples.dataset())
    await apply(cluster, samples.federated())
    shown = {row[0] for row in await table(cluster, "sedna") if row}
    assert {"dataset.sedna.io/ds1", "federatedlearningjob.sedna.io/surface"} <= shown
