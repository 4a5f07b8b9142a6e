"""GM while the API server is away, watches break, rights are missing, or a part of GM crashes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from gm.api.resources import DATASETS, PODS
from gm.cli import EXIT_BUG
from gm.controllers.base import Controller
from gm.controllers.downstream import Downstream
from gm.controllers.edgenodes import EdgeNodes
from gm.controllers.upstream import Upstream
from gm.kube.informer import Informer
from gm.kube.recorder import EventRecorder
from gm.kube.workqueue import Workqueue
from gm.messagelayer import Server, v2
from tests.cluster.cluster import Cluster
from tests.cluster.servers import server
from tests.controllers.conftest import Site
from tests.controllers.support import env_of
from tests.fakes.proxy import Proxy


async def test_what_no_watch_told_is_found_by_the_next_list_P0_009_P0_010(site: Site) -> None:
    """The version has expired meanwhile: one delete at the edge, one new pod, and news as well."""
    await site.references()
    key = f"dataset {site.namespace}/d0"
    async with site.gm(), site.edge("edge0") as old, site.edge_v2("edge1") as new:
        await site.dataset("extra", "edge1")
        extra = f"dataset {site.namespace}/extra"
        pods = await site.run_job()
        await old.wait_for(lambda: key in old.held)
        await new.wait_for(lambda: extra in new.held)
        async with site.faults.blind("Dataset"), site.faults.blind("Pod"):
            await site.delete(DATASETS, "d0")
            await site.delete(DATASETS, "extra")
            await site.dataset("later", "edge1")
            await site.delete(PODS, "job-train-1")
            await site.cluster.finish_delete("job-train-1")
        await old.wait_for(lambda: key not in old.held)
        await new.wait_for(lambda: f"dataset {site.namespace}/later" in new.held)
        await site.wait_pods(3)
        await site.settled()
        deletes = [f["key"] for f in old.frames if f["header"]["operation"] == "delete"]
        assert deletes == [key]
        assert [frame.name for frame in new.came(v2.Delete)] == ["extra"]
        after = await site.pods()
        changed = {n for n in pods if after[n]["metadata"]["uid"] != pods[n]["metadata"]["uid"]}
        assert changed == {"job-train-1"}
        assert len(site.faults.creates()) == 4 + 1


@contextlib.asynccontextmanager
async def through_proxy(site: Site, directory: Path) -> AsyncIterator[Proxy]:
    """From here on GM talks to the API server through a proxy that can go bad."""
    config = site.cluster.read_kubeconfig()
    url = urlsplit(config["clusters"][0]["cluster"]["server"])
    assert url.port is not None
    proxy = Proxy(url.port)
    proxy.host = url.hostname or ""
    async with proxy.running():
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        path = directory / "through-proxy"
        path.write_text(json.dumps(config))
        site.config = msgspec.structs.replace(site.config, kube_config=str(path))
        yield proxy


@pytest.mark.parametrize("is_elected", [False, True])
async def test_an_outage_of_the_api_server_ends_no_lone_replica_P1_078(
    site: Site, tmp_path: Path, is_elected: bool
) -> None:
    """Refused connections, as long as it takes every part to notice; then all goes on."""
    election = msgspec.structs.replace(site.config.leader_election, enabled=is_elected)
    site.config = msgspec.structs.replace(site.config, leader_election=election)
    await site.references()
    async with through_proxy(site, tmp_path) as proxy, site.gm() as manager:
        before = await site.run_job()
        target, proxy.target = proxy.target, 1  # nobody listens there
        proxy.cut()
        informers = manager._informers
        assert informers is not None
        await site.cluster.wait_for(lambda: all(i.problem for i in informers.all()))
        assert manager.problems()
        await site.submit("meanwhile")
        await site.delete(PODS, "job-train-0")
        await site.cluster.finish_delete("job-train-0")
        proxy.target = target
        await site.wait_pods(3, "meanwhile")
        await site.wait_pods(3)
        await site.cluster.wait_for(lambda: not manager.problems())
        after = await site.pods()
    uid = {name: pod["metadata"]["uid"] for name, pod in after.items()}
    assert {n for n in before if uid[n] != before[n]["metadata"]["uid"]} == {"job-train-0"}


ROLE = [
    (["sedna.io"], ["*"], ["get", "list", "watch", "patch", "create", "delete"]),
    ([""], ["services"], ["list", "watch", "get", "create", "patch", "delete"]),
    ([""], ["secrets"], ["get"]),
    ([""], ["configmaps"], ["get", "create", "update"]),
    ([""], ["events"], ["create", "patch", "get"]),
    ([""], ["pods"], ["get", "watch", "create", "patch", "delete"]),
]


async def grant(
    cluster: Cluster, name: str, rules: list[tuple[list[str], list[str], list[str]]]
) -> None:
    """Give user ``limited`` rights in the test's namespace."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": groups, "resources": resources, "verbs": verbs}
            for groups, resources, verbs in rules
        ],
    }
    await cluster.kubectl("apply", "-f", "-", stdin=json.dumps(role))
    await cluster.kubectl("create", "rolebinding", name, f"--role={name}", "--user=limited")


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_a_right_that_is_missing_is_named_and_may_come_later_P1_079(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A GM of one namespace with a Role that lacks "list pods": not ready, and why."""
    await site.references()
    await grant(site.cluster, "gm", ROLE)
    limited = site.cluster.limited_kubeconfig
    site.config = msgspec.structs.replace(site.config, kube_config=limited)
    async with site.gm(is_ready=False) as manager:
        missing = f"forbidden: list pods {site.namespace}"
        await site.cluster.wait_for(lambda: manager.problems() == [missing])
        assert missing in [getattr(record, "reason", "") for record in caplog.records]
        await site.submit()
        await grant(site.cluster, "more", [([""], ["pods"], ["list"])])
        async with asyncio.timeout(30):
            await manager.wait_ready()
        # without Nodes the aggregator's address is known when its kubelet has told it
        await site.wait_pods(1)
        await site.set_phase("Running", "job-aggregation", hostIP="10.9.0.1")
        pods = await site.wait_pods(3)
        assert env_of(pods["job-train-0"])["AGG_IP"] == "10.9.0.1"
        await site.set_phase("Running")
        await site.wait_phase("Running")
        assert manager.problems() == []


PARTS = [
    (Informer, "_relist"),
    (Controller, "_work"),
    (Workqueue, "get"),
    (Server, "run"),
    (Downstream, "_consume"),
    (Upstream, "_take_reports"),
    (EdgeNodes, "run"),
    (EventRecorder, "run"),
]

BROKEN = """
import sys
from gm import cli
from {module} import {part}

async def crash(self, *args, **kwargs):
    raise ZeroDivisionError("{part} breaks")

assert hasattr({part}, "{method}")
{part}.{method} = crash
sys.exit(cli.main(["run", "--config", sys.argv[1]]))
"""


@pytest.mark.parametrize(("part", "method"), PARTS, ids=lambda v: getattr(v, "__name__", v))
async def test_a_crash_of_any_part_ends_the_program_P0_012(
    part: type[Any], method: str, tmp_path: Path
) -> None:
    """With an exit code that no supervisor takes for success, and the reason in the log."""
    settings = {
        "kubeConfig": (await asyncio.to_thread(server, "embedded"))["kubeconfig"],
        "namespace": "nobody-uses-this",
        "stateNamespace": "default",
        "websocket": {"address": "127.0.0.1", "port": 0},
        "health": {"address": "127.0.0.1", "port": 0},
        "log": {"level": "error"},
    }
    config = tmp_path / "gm.yaml"
    config.write_text(json.dumps(settings))
    script = BROKEN.format(module=part.__module__, part=part.__name__, method=method)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(config)), stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        _, told = await process.communicate()
    assert process.returncode == EXIT_BUG
    assert f"{part.__name__} breaks" in told.decode()
