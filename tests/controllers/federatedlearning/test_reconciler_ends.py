"""Jobs that are deleted, finished or suspended, against API servers."""

from __future__ import annotations

import pytest

from gm.api.resources import FEDERATED_LEARNING_JOBS
from gm.errors import ServiceError, api_error
from tests.controllers.conftest import Site
from tests.controllers.faults import Call


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_nothing_is_made_after_a_job_was_deleted_P0_016(site: Site, propagation: str) -> None:
    """Its pods go first, while the cache still shows the job."""
    await site.references()
    async with site.gm():
        pods = await site.run_job()
        made = len(site.faults.creates())
        with site.faults.held("FederatedLearningJob"):
            await site.delete(FEDERATED_LEARNING_JOBS, "job", propagation_policy=propagation)
            for name in pods:
                await site.cluster.finish_delete(name)
            await site.settled(but=("FederatedLearningJob",))
            assert len(site.faults.creates()) == made
        await site.settled()
        assert len(site.faults.creates()) == made


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
async def test_a_finished_job_never_runs_again_P0_017(site: Site, end: str) -> None:
    """Pods collected, everything listed anew, GM restarted: no create, the same status."""
    await site.references()
    async with site.gm():
        pods = await site.run_job(runPolicy={"backoffLimit": 0})
        await site.set_phase(end)
        await site.wait_phase(end)
        status = await site.status()
        made = len(site.faults.creates())
        for name in pods:
            await site.cluster.finish_delete(name)
        await site.wait_pods(0)
        for kind in ("FederatedLearningJob", "Pod", "Service"):
            async with site.faults.blind(kind):
                await site.patch(
                    FEDERATED_LEARNING_JOBS, "job", {"metadata": {"labels": {kind: ""}}}
                )
            await site.settled()
        assert await site.status() == status
    async with site.gm():
        await site.settled()
        assert await site.status() == status
    assert site.faults.creates()[made:] == []


async def test_a_success_is_kept_when_its_pod_goes_before_the_status_was_written_P0_017(
    site: Site,
) -> None:
    """Status writes fail while the pod succeeds and is collected."""
    await site.references()
    async with site.gm():
        await site.run_job()
        made = len(site.faults.creates())

        def fail(call: Call) -> ServiceError | None:
            return api_error("patch", code=500, reason="Boom") if call.is_job_status else None

        site.faults.fail = fail
        before = len(site.faults.calls)
        await site.set_phase("Succeeded", "job-train-0")
        await site.cluster.wait_for(
            lambda: any(call.is_job_status for call in site.faults.calls[before:]),
            what="a status write",
        )
        await site.cluster.finish_delete("job-train-0")
        await site.settled()
        site.faults.heal()
        status = await site.wait_status(lambda s: s["succeeded"] == 1)
        assert status["workers"][1]["phase"] == "Succeeded"
        await site.settled()
        assert len(site.faults.creates()) == made


async def test_a_job_all_of_whose_pods_were_collected_at_once_has_succeeded_P0_017(
    site: Site,
) -> None:
    """GM saw them succeed, and could not write it down before they went."""
    await site.references()
    async with site.gm():
        pods = await site.run_job()
        made = len(site.faults.creates())

        def fail(call: Call) -> ServiceError | None:
            return api_error("patch", code=500, reason="Boom") if call.is_job_status else None

        site.faults.fail = fail
        await site.set_phase("Succeeded")
        for name in pods:
            await site.cluster.finish_delete(name)
        await site.settled()
        site.faults.heal()
        status = await site.wait_phase("Succeeded")
        assert [worker["phase"] for worker in status["workers"]] == ["Succeeded"] * 3
        assert (status["succeeded"], status["active"], status["failed"]) == (3, 0, 0)
        await site.settled()
    assert len(site.faults.creates()) == made


async def test_an_edit_of_a_finished_job_is_told_and_changes_nothing_P0_019(site: Site) -> None:
    """An event and nothing else."""
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.set_phase("Succeeded")
        await site.wait_phase("Succeeded")
        before, made = await site.status(), len(site.faults.creates())
        workers = site.job(trainers=1)["spec"]["trainingWorkers"]
        await site.patch(FEDERATED_LEARNING_JOBS, "job", {"spec": {"trainingWorkers": workers}})
        await site.cluster.wait_for(lambda: site.events("EditIgnored"))
        await site.settled()
        assert await site.status() == before
        assert len(site.faults.creates()) == made


async def test_a_finished_job_is_removed_when_its_time_has_come_P2_097(site: Site) -> None:
    """ttlSecondsAfterFinished, also over a restart of GM; its pods go with it."""
    await site.cluster.start_controllers()
    await site.references()
    async with site.gm():
        await site.run_job(runPolicy={"ttlSecondsAfterFinished": 2})
        await site.set_phase("Succeeded")
        await site.wait_phase("Succeeded")
    async with site.gm():

        async def is_gone() -> bool:
            job = await site.cluster.get(FEDERATED_LEARNING_JOBS, "job")
            return job is None and not await site.pods() and not await site.services()

        await site.cluster.wait_for(is_gone, timeout_seconds=10)


async def test_a_suspended_job_stops_and_is_resumed_P2_101(site: Site) -> None:
    """Pods go, and come back once."""
    await site.references()
    async with site.gm():
        pods = await site.run_job()
        await site.patch(FEDERATED_LEARNING_JOBS, "job", {"spec": {"runPolicy": {"suspend": True}}})
        await site.wait_phase("Suspended")
        for name in pods:
            await site.cluster.finish_delete(name)
        await site.wait_pods(0)
        await site.settled()
        assert await site.pods() == {}
        resume = {"spec": {"runPolicy": {"suspend": False}}}
        await site.patch(FEDERATED_LEARNING_JOBS, "job", resume)
        await site.wait_pods(3)
        await site.set_phase("Running")
        await site.wait_phase("Running")
