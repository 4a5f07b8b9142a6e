"""GM as a whole: API server, controllers, websocket and scripted edges."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gm.api.crd import crds
from gm.api.meta import ResourceType
from gm.api.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DATASETS,
    FEDERATED_LEARNING_JOBS,
    MODELS,
)
from gm.config import Config, WebsocketConfig
from gm.controllers.conditions import now, timestamp
from gm.controllers.manager import Manager
from gm.devcluster.apiserver import running
from gm.errors import ConfigError
from gm.kube.client import Client
from gm.messagelayer import Report
from tests.controllers.conftest import FAST, Site


async def test_a_job_runs_from_submission_to_the_end(site: Site) -> None:
    """Children, frames, report, metrics, phases, events: the whole way once."""
    await site.references()
    async with site.gm(), site.edge("edge0") as edge0, site.edge("edge1") as edge1:
        pods = await site.run_job()
        key = f"federatedlearningjob {site.namespace}/job"
        for edge, data in ((edge0, "d0"), (edge1, "d1")):
            dataset = f"dataset {site.namespace}/{data}"
            await edge.wait_for(lambda e=edge, d=dataset: key in e.held and d in e.held)
        assert set(pods) == {"job-aggregation", "job-train-0", "job-train-1"}
        await edge0.report(
            "federatedlearningjob",
            site.namespace,
            "job",
            {
                "phase": "train",
                "status": "running",
                "output": {
                    "models": [{"format": "pb", "url": "/m", "metrics": {"accuracy": 0.91}}],
                    "ownerInfo": {"currentRound": 1, "updateTime": "2026-11-30 01:00:00"},
                },
            },
        )
        status = await site.wait_status(lambda s: s.get("round") == 1)
        training = next(c for c in status["conditions"] if c["type"] == "Training")
        assert training["message"] == "Round 1 reaches at 2026-11-30 01:00:00"
        assert status["workers"][1]["metrics"] == [{"key": "accuracy", "value": "0.91"}]
        model = await site.cluster.get(MODELS, "m")
        assert model is not None
        assert model["status"]["metrics"] == [{"key": "accuracy", "value": "0.91"}]
        await site.set_phase("Succeeded")
        status = await site.wait_phase("Succeeded")
        assert (status["active"], status["succeeded"], status["failed"]) == (0, 3, 0)
        assert status["completionTime"]
        await site.cluster.wait_for(lambda: site.events("Completed"))

        async def no_service() -> bool:
            return not await site.services()

        await site.cluster.wait_for(no_service)
        await site.delete(FEDERATED_LEARNING_JOBS, "job")
        await edge0.wait_for(lambda: key not in edge0.held)
        await edge1.wait_for(lambda: key not in edge1.held)


async def test_sample_counts_are_written_once_and_not_echoed_P0_025(site: Site) -> None:
    """Each repetition costs nothing; a change is exactly one write."""
    await site.references()
    async with site.gm(), site.edge("edge0") as edge:
        await edge.wait_for(lambda: bool(edge.held))
        frames = len(edge.frames)

        async def count() -> int | None:
            found = await site.cluster.get(DATASETS, "d0")
            assert found is not None
            number: int | None = (found.get("status") or {}).get("numberOfSamples")
            return number

        await edge.report("Dataset", site.namespace, "d0", {"numberOfSamples": 100})

        async def is_hundred() -> bool:
            return await count() == 100

        await site.cluster.wait_for(is_hundred)
        first = await site.cluster.get(DATASETS, "d0")
        for _ in range(20):
            await edge.report("dataset", site.namespace, "d0", {"numberOfSamples": 100})
        await edge.report("dataset", site.namespace, "d0", {"numberOfSamples": 101})

        async def is_more() -> bool:
            return await count() == 101

        await site.cluster.wait_for(is_more)
        assert first is not None
        assert len(edge.frames) == frames, "a status is not sent back"


async def test_the_time_of_a_count_is_stored_whatever_a_node_sends(site: Site) -> None:
    """The node's, in UTC and as the API server takes it; GM's own when it is no time."""
    await site.references()
    times = [
        ("2026-11-30T01:00:00Z", "2026-11-30T01:00:00Z"),
        ("2026-11-30T01:00:00.5+05:30", "2026-11-29T19:30:00Z"),
        ("0099-01-01T00:00:00Z", "0099-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+01:00", None),
        ("2026-11-30 01:00:00", None),
        (5, None),
        (None, None),
    ]
    async with site.gm(), site.edge("edge0") as edge:
        await edge.wait_for(lambda: bool(edge.held))
        for count, (sent, stored) in enumerate(times):
            report = {"numberOfSamples": count, "updateTime": sent}
            begun = now()
            await edge.report("dataset", site.namespace, "d0", report)

            async def told(count: int = count) -> dict[str, Any] | None:
                found = await site.cluster.get(DATASETS, "d0")
                status: dict[str, Any] = (found or {}).get("status") or {}
                return status if status.get("numberOfSamples") == count else None

            status = await site.cluster.wait_for(told, what=f"the count sent at {sent}")
            assert status is not None
            if stored is not None:
                assert status["updateTime"] == stored
            else:
                assert timestamp(begun) <= status["updateTime"] <= timestamp(now())


async def test_a_node_may_report_only_on_what_it_holds_P0_033(site: Site) -> None:
    """Another node's report changes nothing, and its session stays."""
    await site.references()
    async with site.gm(), site.edge("edge0") as edge0, site.edge("edge1") as edge1:
        await edge0.wait_for(lambda: bool(edge0.held))
        await edge1.report("dataset", site.namespace, "d0", {"numberOfSamples": 666})
        await edge0.report("dataset", site.namespace, "d0", {"numberOfSamples": 5})

        async def count() -> int | None:
            found = await site.cluster.get(DATASETS, "d0")
            assert found is not None
            number: int | None = (found.get("status") or {}).get("numberOfSamples")
            return number

        assert await site.cluster.wait_for(count) == 5
        await edge1.report("dataset", site.namespace, "d1", {"numberOfSamples": 7})

        async def other() -> int | None:
            found = await site.cluster.get(DATASETS, "d1")
            assert found is not None
            number: int | None = (found.get("status") or {}).get("numberOfSamples")
            return number

        assert await site.cluster.wait_for(other) == 7
        assert edge1.closed is None


async def test_a_dataset_that_moves_is_taken_from_its_old_node(site: Site) -> None:
    """Sedna leaves it there for ever."""
    await site.references()
    async with site.gm(), site.edge("edge0") as edge0, site.edge("edge1") as edge1:
        key = f"dataset {site.namespace}/d0"
        await edge0.wait_for(lambda: key in edge0.held)
        await site.patch(DATASETS, "d0", {"spec": {"nodeName": site.node("edge1")}})
        await edge1.wait_for(lambda: key in edge1.held)
        await edge0.wait_for(lambda: key not in edge0.held)


async def test_stopping_closes_sessions_and_ends_in_order(site: Site) -> None:
    """1001, and nothing left."""
    before = asyncio.all_tasks()
    async with site.gm() as manager, site.edge("edge0") as edge:
        assert manager.problems() == []
        await edge.connection.ping()
        site.stopping.set()
        code, _ = await edge.wait_closed()
        assert code == 1001
    assert asyncio.all_tasks() == before


@contextlib.asynccontextmanager
async def bare_server(directory: Path) -> AsyncIterator[str]:
    """An embedded API server without any CRD; its kubeconfig."""
    async with running(directory=directory) as server:
        yield str(server.kubeconfig)


def manager_for(kubeconfig: str) -> Manager:
    """A GM with small times."""
    config = Config(kube_config=kubeconfig, websocket=WebsocketConfig(address="127.0.0.1", port=0))
    return Manager(config, informer_settings=FAST)


async def test_gm_waits_for_crds_that_come_later_P1_080(tmp_path: Path) -> None:
    """It names what is missing, and starts by itself; an optional kind keeps nobody waiting."""
    async with bare_server(tmp_path) as kubeconfig, asyncio.TaskGroup() as group:
        manager = manager_for(kubeconfig)
        stopping = asyncio.Event()
        group.create_task(manager.run(stopping))
        missing = (
            "federatedlearningjobs.sedna.io: the CRD is not installed;"
            " apply deploy/crds, or run `gm crds | kubectl apply -f -`"
        )
        async with asyncio.timeout(20):
            while missing not in manager.problems():
                await asyncio.sleep(0.02)
        optional = "incrementallearningjobs"
        async with await Client.connect(kubeconfig=kubeconfig) as client:
            for crd in crds():
                if crd["spec"]["names"]["plural"] != optional:
                    await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
        async with asyncio.timeout(20):
            await manager.wait_ready()
        assert manager.problems() == []
        async with asyncio.timeout(5):
            while not manager.hub.is_open:
                await asyncio.sleep(0.02)
        stopping.set()


async def test_an_api_server_that_is_down_is_told_once_P1_080(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by each informer; the probe names all that is missing."""
    async with bare_server(tmp_path) as kubeconfig:
        pass
    manager = manager_for(kubeconfig)
    stopping = asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(manager.run(stopping))
        while [problem for problem in manager.problems() if "no answer" not in problem]:
            await asyncio.sleep(0.02)
        problems = manager.problems()
        stopping.set()
    assert len({problem.partition(" failed")[0] for problem in problems}) == 5, problems
    told = [r for r in caplog.records if r.message == "list or watch fails, trying on"]
    assert len([record for record in told if record.levelname == "WARNING"]) == 1


async def test_gm_stops_while_it_waits(tmp_path: Path) -> None:
    """For CRDs that never come."""
    async with bare_server(tmp_path) as kubeconfig, asyncio.timeout(20):
        manager = manager_for(kubeconfig)
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run(stopping))
            while "the CRD is not installed" not in "".join(manager.problems()):
                await asyncio.sleep(0.02)
            stopping.set()


async def test_objects_of_kinds_that_are_not_served_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """LifelongLearningJob and Sedna's other kinds are out of scope for now."""
    names = {
        "kind": "LifelongLearningJob",
        "listKind": "LifelongLearningJobList",
        "plural": "lifelonglearningjobs",
        "singular": "lifelonglearningjob",
    }
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "lifelonglearningjobs.sedna.io"},
        "spec": {"group": "sedna.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    lifelong = ResourceType(
        group="sedna.io", version="v1alpha1", kind=names["kind"], plural=names["plural"]
    )
    body = {"apiVersion": "sedna.io/v1alpha1", "kind": names["kind"], "metadata": {"name": "l"}}
    async with bare_server(tmp_path) as kubeconfig, asyncio.timeout(30):
        async with await Client.connect(kubeconfig=kubeconfig) as client:
            for definition in (*crds(), crd):
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
            await client.create(lifelong, "default", body)
        manager = manager_for(kubeconfig)
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run(stopping))
            await manager.wait_ready()
            while "does not serve" not in caplog.text:
                await asyncio.sleep(0.02)
            stopping.set()
    assert caplog.text.count("does not serve") == 1


async def test_a_crashing_part_ends_gm_with_its_reason_P0_012(tmp_path: Path) -> None:
    """Never half alive."""
    async with bare_server(tmp_path) as kubeconfig, asyncio.timeout(20):
        async with await Client.connect(kubeconfig=kubeconfig) as client:
            for definition in crds():
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        manager = manager_for(kubeconfig)

        async def crash() -> Report:
            raise RuntimeError("a part breaks")

        manager.hub.next_report = crash  # type: ignore[method-assign]
        with pytest.raises(ExceptionGroup) as caught:
            await manager.run(asyncio.Event())
    assert "a part breaks" in str(_leaves(caught.value))


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]


async def test_a_taken_port_is_said_plainly(site: Site) -> None:
    """With what to do."""
    async with site.gm() as first:
        websocket = WebsocketConfig(address="127.0.0.1", port=first.websocket_port)
        second = Manager(msgspec.structs.replace(site.config, websocket=websocket))
        with pytest.raises(ExceptionGroup) as caught:
            await second.run(asyncio.Event())
    assert any(isinstance(leaf, ConfigError) for leaf in _leaves(caught.value))
