"""``gm demo --kubeconfig``: a guest that finds its own place and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gm.api.crd import crds
from gm.api.meta import Json, ObjectKey
from gm.api.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DATASETS,
    EDGE_NODES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
)
from gm.devcluster.apiserver import running
from gm.errors import ConfigError, NotFound
from gm.kube import Client
from gm.local import guest
from gm.local.guest import LABEL, relocate, visiting
from tests.cluster.cluster import Cluster
from tests.local.test_demo import fast_manifest, gm, output_until, processes_of

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("whole-systems")]

DATASET = {
    "apiVersion": "sedna.io/v1alpha1",
    "kind": "Dataset",
    "metadata": {"name": "d"},
    "spec": {"url": "/data/a.txt", "format": "txt", "nodeName": "edge1"},
}


async def names(client: Client, resource: Any) -> set[str]:
    """Names of all objects of a kind."""
    listed = await client.list(resource)
    return {msgspec.json.decode(item)["metadata"]["name"] for item in listed.items}


async def definitions(client: Client) -> dict[str, tuple[str, int, Json]]:
    """Uid, generation and spec of our CRDs."""
    listed = await client.list(CUSTOM_RESOURCE_DEFINITIONS)
    found = [msgspec.json.decode(item) for item in listed.items]
    return {
        crd["metadata"]["name"]: (
            crd["metadata"]["uid"],
            crd["metadata"]["generation"],
            crd["spec"],
        )
        for crd in found
    }


@contextlib.asynccontextmanager
async def bare(directory: Path) -> AsyncIterator[Client]:
    """A client of an embedded API server without our CRDs."""
    async with (
        running(directory=directory) as server,
        await Client.connect(kubeconfig=str(server.kubeconfig)) as client,
    ):
        yield client


async def assert_nothing_left(client: Client, text: str) -> None:
    """No trace of the demo that said ``text``."""
    found = re.search(r"namespace (gm-demo-\w+) created", text)
    assert found is not None, text
    name = found[1]
    for resource in (NAMESPACES, NODES, EDGE_NODES):
        assert not [each for each in await names(client, resource) if each.startswith(name)], text
    leases = await client.list(LEASES, namespace="kube-node-lease")
    assert name.encode() not in b"".join(leases.items)


async def test_the_demo_runs_in_a_cluster_and_leaves_nothing_there(
    cluster: Cluster, tmp_path: Path
) -> None:
    """To Succeeded and to the model; the CRDs that were there are as they were."""
    await cluster.start_controllers()
    job = fast_manifest(tmp_path / "job.yaml")
    async with cluster.client() as client:
        before = await definitions(client)
        async with gm(
            *("demo", "--kubeconfig", cluster.kubeconfig, "--job", str(job)), cwd=tmp_path
        ) as process:
            out, _ = await process.communicate()
        text = out.decode()
        assert process.returncode == 0, text
        assert "job fl-digits is Succeeded" in text
        assert re.search(r"federated 0\.\d+, gm-demo-\w+-edge1 alone", text), text
        (model,) = re.findall(r"the model: (\S+)", text)
        assert Path(model).is_file()
        assert await definitions(client) == before
        await assert_nothing_left(client, text)
    assert processes_of(tmp_path) == []


async def test_ctrl_c_amid_the_training_leaves_nothing_there(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Exit code 130, and everything is removed before."""
    await cluster.start_controllers()
    async with gm("demo", "--kubeconfig", cluster.kubeconfig, cwd=tmp_path) as process:
        text = await output_until(process, "job fl-digits is Running")
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()
    assert process.returncode == 130, out.decode()
    async with cluster.client() as client:
        await assert_nothing_left(client, text)
    assert processes_of(tmp_path) == []


async def test_its_nodes_are_closed_to_others(cluster: Cluster, tmp_path: Path) -> None:
    """They carry the taint; pods of other namespaces are not run there."""
    await cluster.start_controllers()
    async with gm("demo", "--kubeconfig", cluster.kubeconfig, cwd=tmp_path) as process:
        text = await output_until(process, "job fl-digits is Running")
        (name,) = re.findall(r"namespace (gm-demo-\w+) created", text)
        node = await cluster.get(NODES, f"{name}-edge1")
        assert node is not None
        taint = {"key": "sedna.io/runner", "effect": "NoSchedule"}
        assert taint in node["spec"]["taints"]
        await cluster.kubectl(
            *("run", "stranger", "--image=busybox", "--restart=Never"),
            f'--overrides={{"spec":{{"nodeName":"{name}-edge1"}}}}',
        )

        async def is_refused() -> bool:
            pod = await cluster.get(PODS, "stranger")
            assert pod is not None
            conditions = pod["status"].get("conditions") or ()
            return any(c.get("reason") == "NotForThisNode" for c in conditions)

        await cluster.wait_for(is_refused)
        await cluster.finish_delete("stranger")
        process.send_signal(signal.SIGINT)
        out, _ = await process.communicate()
    async with cluster.client() as client:
        await assert_nothing_left(client, text + out.decode())


async def test_definitions_that_are_ours_are_recognised(cluster: Cluster) -> None:
    """Whatever the server filled in."""
    async with cluster.client() as client:
        assert await guest._missing_definitions(client) == []


async def test_definitions_that_are_missing_come_and_go(tmp_path: Path) -> None:
    """They are served as long as the visit; one that was there stays, unchanged."""
    async with bare(tmp_path) as client:
        (datasets,) = [c for c in crds() if c["metadata"]["name"] == DATASETS.qualified]
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", datasets)
        before = await definitions(client)
        said: list[str] = []
        async with visiting(client, ["edge1"], say=said.append) as visit:
            assert {*await definitions(client)} == {crd["metadata"]["name"] for crd in crds()}
            made = relocate([DATASET], namespace=visit.namespace, nodes=visit.nodes)
            await client.create(DATASETS, visit.namespace, made[0])
            await client.create(
                EDGE_NODES,
                "",
                {
                    "apiVersion": "sedna.io/v1alpha1",
                    "kind": "EdgeNode",
                    "metadata": {"name": visit.nodes["edge1"]},
                },
            )
        assert await definitions(client) == before
        assert not [line for line in said if "not removed" in line]


@pytest.mark.parametrize("change", ["column", "scope", "going"])
async def test_a_definition_that_differs_stops_the_demo_before_anything_is_made(
    tmp_path: Path, change: str
) -> None:
    """It is named, with what to do; it stays as it is."""
    (other,) = [c for c in crds() if c["metadata"]["name"] == DATASETS.qualified]
    expected = "another version of the CRD datasets.sedna.io.*kubectl diff -f -"
    if change == "column":
        del other["spec"]["versions"][0]["additionalPrinterColumns"]
    elif change == "scope":
        other["spec"]["scope"] = "Cluster"
    else:
        other["metadata"]["finalizers"] = ["example.com/wait"]
        expected = "just removing its CRD datasets.sedna.io"
    async with bare(tmp_path) as client:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", other)
        if change == "going":
            key = ObjectKey("", DATASETS.qualified)
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, key)
        before, spaces = await definitions(client), await names(client, NAMESPACES)

        async def visit() -> None:
            async with visiting(client, ["edge1"], say=print):
                raise AssertionError("there is nothing to visit")

        with pytest.raises(ConfigError, match=expected):
            await visit()
        assert await definitions(client) == before
        assert await names(client, NAMESPACES) == spaces


@pytest.mark.parametrize("who", ["an object", "a demo"])
async def test_definitions_that_others_have_begun_to_use_stay(tmp_path: Path, who: str) -> None:
    """Deleting them would delete what is not ours."""
    said: list[str] = []
    async with bare(tmp_path) as client:
        async with visiting(client, ["edge1"], say=said.append):
            if who == "an object":
                await client.create(DATASETS, "default", DATASET)
            else:
                other = {"metadata": {"name": "gm-demo-other", "labels": {LABEL: ""}}}
                await client.create(NAMESPACES, "", other)
        assert DATASETS.qualified in await definitions(client)
    (line,) = [line for line in said if "left in the cluster" in line]
    assert ("Dataset d is not of this demo" if who == "an object" else "gm-demo-other") in line


async def test_what_can_not_be_removed_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalizer of somebody else's holds it."""
    monkeypatch.setattr(guest, "_GONE_SECONDS", 0.3)
    said: list[str] = []
    async with bare(tmp_path) as client:
        async with visiting(client, ["edge1"], say=said.append) as visit:
            held = {"metadata": {"name": visit.nodes["edge1"], "finalizers": ["example.com/wait"]}}
            await client.create(NODES, "", held)
        name = visit.nodes["edge1"]
    assert f"Node {name} was not removed: it is still there after 0 s; " in "\n".join(said)
    assert f"try kubectl delete nodes {name}" in "\n".join(said)


async def test_the_namespace_goes_while_the_nodes_still_run(tmp_path: Path) -> None:
    """``staying`` removes it, also when the body fails."""
    async with bare(tmp_path) as client, visiting(client, ["edge1"], say=print) as visit:
        with contextlib.suppress(ZeroDivisionError):
            async with visit.staying():
                await client.get(NAMESPACES, ObjectKey("", visit.namespace))
                raise ZeroDivisionError
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, ObjectKey("", visit.namespace))


def test_objects_are_moved_with_all_that_names_a_node() -> None:
    """At any depth; strangers' node names and everything else stay, and so does the original."""
    template = {"spec": {"nodeName": "cloud", "tolerations": [{"key": "nodeName"}]}}
    job = {
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "elsewhere"},
        "spec": {"workers": [{"nodeName": "far", "template": template}], "nodeName": {"x": 1}},
    }
    (moved,) = relocate([job], namespace="mine", nodes={"cloud": "mine-cloud"})
    worker = moved["spec"]["workers"][0]
    assert moved["metadata"] == {"name": "j", "namespace": "mine"}
    assert worker["template"]["spec"]["nodeName"] == "mine-cloud"
    assert worker["template"]["spec"]["tolerations"] == [{"key": "nodeName"}]
    assert (worker["nodeName"], moved["spec"]["nodeName"]) == ("far", {"x": 1})
    assert template["spec"]["nodeName"] == "cloud"
    assert job["metadata"] == {"name": "j", "namespace": "elsewhere"}


async def test_a_kubeconfig_that_is_none_is_told_before_anything_is_written(
    tmp_path: Path,
) -> None:
    """Exit code 2, one line; what an earlier demo left stays."""
    (tmp_path / "gm-demo").mkdir()
    async with gm("demo", "--kubeconfig", "nowhere", cwd=tmp_path) as process:
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    missing = f"kubeconfig {tmp_path / 'nowhere'} (from --kubeconfig) does not exist"
    assert out.decode() == f"gm: {missing}: name a file that does\n"
    assert list((tmp_path / "gm-demo").iterdir()) == []


async def test_a_cluster_that_does_not_answer_is_told_before_anything_is_written(
    tmp_path: Path,
) -> None:
    """A kubeconfig of a cluster that is gone."""
    taken = socket.socket()  # nobody listens on it, and nobody else can
    taken.bind(("127.0.0.1", 0))
    server = f"http://127.0.0.1:{taken.getsockname()[1]}"
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "old").write_text(json.dumps(config))
    with taken:
        async with gm("demo", "--kubeconfig", "old", cwd=tmp_path) as process:
            out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert out.decode().startswith(f"gm: GET /version failed: no answer from {server}")
    assert not (tmp_path / "gm-demo").exists()
