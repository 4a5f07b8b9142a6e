"""The roles in deploy/: all that GM asks, and nothing that would make it a way to take over."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from gm.api.resources import EDGE_NODES, FEDERATED_LEARNING_JOBS, SECRETS
from gm.controllers.edgenodes import EdgeNodeSettings
from tests.cluster.cluster import Cluster
from tests.controllers.conftest import Site
from tests.controllers.rights import DEPLOY, Asked, Right, documents, granted, right_of
from tests.fakes.edge import EdgeV2

FILES = ("rbac.yaml", "rbac-namespaced.yaml")
REAL = pytest.mark.parametrize("cluster", ["real"], indirect=True)  # the embedded one has no RBAC
JOBS = "/apis/sedna.io/v1alpha1/namespaces/ns/federatedlearningjobs"


@pytest.mark.parametrize(
    ("method", "target", "asked"),
    [
        ("GET", "/api/v1/namespaces/ns/pods/p", Asked(Right("", "pods", "get"), "ns")),
        ("GET", "/api/v1/pods?limit=500", Asked(Right("", "pods", "list"), "")),
        ("GET", "/api/v1/pods?watch=true", Asked(Right("", "pods", "watch"), "")),
        ("POST", "/api/v1/namespaces", Asked(Right("", "namespaces", "create"), "")),
        ("GET", "/api/v1/namespaces/ns", Asked(Right("", "namespaces", "get"), "")),
        (
            "PATCH",
            f"{JOBS}/j/status",
            Asked(Right("sedna.io", "federatedlearningjobs/status", "patch"), "ns"),
        ),
        ("DELETE", f"{JOBS}/j", Asked(Right("sedna.io", "federatedlearningjobs", "delete"), "ns")),
    ],
)
def test_requests_are_read_as_rights(method: str, target: str, asked: Asked) -> None:
    """What the check of all other tests rests on."""
    assert right_of(method, target) == asked


def test_secrets_are_got_by_name_and_nothing_else_P2_094() -> None:
    """Neither listed, nor watched, nor written; no wildcards, no ways to more rights."""
    for file in FILES:
        for document in documents(file):
            for rule in document.get("rules", ()):
                assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
                assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
                assert "rbac.authorization.k8s.io" not in rule["apiGroups"]
                if "secrets" in rule["resources"]:
                    assert (rule["resources"], rule["verbs"]) == (["secrets"], ["get"])
                assert not {"pods/exec", "serviceaccounts/token"} & set(rule["resources"])


def test_namespaced_install_differs_in_its_scope_only_P2_094() -> None:
    """A Role where the other has a ClusterRole, but for what has no namespace."""
    whole = granted("rbac.yaml", role="gm")
    namespaced = granted("rbac-namespaced.yaml", role="gm")
    nodes = granted("rbac-namespaced.yaml", role="gm-nodes")
    assert {right.resource.partition("/")[0] for right in nodes} == {"nodes", "edgenodes"}
    assert {right.verb for right in whole - namespaced - nodes} == {"list"}, "told at the start"
    assert namespaced | nodes <= whole
    kinds = {
        (d["kind"], d["metadata"]["name"])
        for d in documents("rbac-namespaced.yaml")
        if "rules" in d
    }
    assert kinds == {("Role", "gm"), ("Role", "gm-state"), ("ClusterRole", "gm-nodes")}
    for state in FILES:
        assert granted(state, role="gm-state") == granted("rbac.yaml", role="gm-state")


async def install(cluster: Cluster, file: str, directory: Path) -> str:
    """Apply ``file``, all in the test's namespace; the kubeconfig of its ServiceAccount."""
    text = (DEPLOY / file).read_text()
    adapted = []
    for document in yaml.safe_load_all(text):
        if document["kind"] == "Namespace":
            continue
        in_cluster = document["kind"].startswith("ClusterRole")
        if in_cluster:  # names that other tests do not use
            document["metadata"]["name"] += f"-{cluster.namespace}"
            if "roleRef" in document:
                document["roleRef"]["name"] += f"-{cluster.namespace}"
        else:
            document["metadata"]["namespace"] = cluster.namespace
        for subject in document.get("subjects", ()):
            subject["namespace"] = cluster.namespace
        adapted.append(document)
    await cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(adapted))
    token = (await cluster.kubectl("create", "token", "gm")).strip()
    config = cluster.read_kubeconfig()
    config["users"][0]["user"] = {"token": token}
    path = directory / "gm.kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


async def may(cluster: Cluster, verb: str, resource: str, *scope: str) -> str:
    """What `kubectl auth can-i` says of GM's ServiceAccount."""
    account = f"--as=system:serviceaccount:{cluster.namespace}:gm"
    answer = await cluster.kubectl("auth", "can-i", verb, resource, account, *scope, check=False)
    return answer.split()[-1]


@REAL
@pytest.mark.parametrize("file", FILES)
async def test_gm_does_all_its_work_with_the_roles_that_we_ship_P1_079_P2_094(
    site: Site, tmp_path: Path, file: str
) -> None:
    """A job with credentials, nodes of both wires, a lease; nothing is refused."""
    cluster = site.cluster
    refused: set[Asked] = set()
    observe = site._observe

    def note(method: str, target: str, status: int) -> None:
        observe(method, target, status)
        if status in (401, 403):
            refused.add(right_of(method, target))

    site._observe = note  # type: ignore[method-assign]
    election = msgspec.structs.replace(site.config.leader_election, enabled=True)
    site.config = msgspec.structs.replace(
        site.config,
        kube_config=await install(cluster, file, tmp_path),
        leader_election=election,
    )
    site.edge_nodes = EdgeNodeSettings(settle_seconds=0.05)
    await site.nodes("cloud", "edge0", "edge1")
    await site.create(
        SECRETS,
        {
            "metadata": {"name": "s3", "annotations": {"s3-endpoint": "h:9000"}},
            "stringData": {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"},
        },
    )
    await site.model()
    for number in range(2):
        url = f"s3://b/{number}"
        await site.dataset(f"d{number}", f"edge{number}", url=url, credentialName="s3")
    async with (
        site.gm() as manager,
        site.edge("edge0") as edge0,
        EdgeV2.connected(manager.websocket_port, site.node("edge1")) as edge1,
    ):
        pods = await site.run_job()
        assert len(pods) == 3
        key = f"federatedlearningjob {site.namespace}/job"
        await edge0.wait_for(lambda: key in edge0.held)
        await edge1.wait_for(lambda: key in edge1.held)
        await edge0.report("dataset", site.namespace, "d0", {"numberOfSamples": 7})

        async def is_counted() -> bool:
            found = await cluster.get(FEDERATED_LEARNING_JOBS, "job")
            held = await cluster.get(EDGE_NODES, site.node("edge0"))
            return bool(found) and bool(((held or {}).get("status") or {}).get("held"))

        await cluster.wait_for(is_counted)
        await site.set_phase("Succeeded")
        await site.wait_phase("Succeeded")
        await site.delete(FEDERATED_LEARNING_JOBS, "job")
        await edge0.wait_for(lambda: key not in edge0.held)
        assert manager.problems() == []
    optional = {Right("", "namespaces", "create")}
    if file == "rbac-namespaced.yaml":  # what a GM of one namespace can not tell at its start
        optional.add(Right("apiextensions.k8s.io", "customresourcedefinitions", "list"))
    assert {asked.right for asked in refused} <= optional


@REAL
@pytest.mark.parametrize("file", FILES)
async def test_nobody_takes_the_cluster_over_through_gm_P2_094(
    cluster: Cluster, tmp_path: Path, file: str
) -> None:
    """As the API server itself judges it."""
    await install(cluster, file, tmp_path)
    elsewhere = "yes" if file == "rbac.yaml" else "no"
    for verb, resource, scope, answer in (
        ("list", "secrets", ("-A",), "no"),
        ("watch", "secrets", (), "no"),
        ("create", "secrets", (), "no"),
        ("get", "secrets/s3", (), "yes"),
        ("get", "secrets/s3", ("-n", "kube-system"), elsewhere),
        ("create", "pods", ("-n", "kube-system"), elsewhere),
        ("create", "pods", ("--subresource=exec",), "no"),
        ("create", "clusterrolebindings", (), "no"),
        ("update", "nodes", (), "no"),
        ("update", "configmaps", ("-n", "kube-system"), "no"),
    ):
        asked = (verb, resource, *scope)
        assert await may(cluster, *asked) == answer, asked
