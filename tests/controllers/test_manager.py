"""GM as a whole: API server, controllers, websocket and scripted edges."""

from __future__ import annotations

import asyncio

from gm.api.resources import DATASETS, FEDERATED_LEARNING_JOBS, MODELS
from tests.controllers.conftest import Site


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
