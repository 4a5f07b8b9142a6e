"""What the API server warns of when it gets a worker's pod is told at the job."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from gm.api.resources import FEDERATED_LEARNING_JOBS, PODS
from gm.controllers.federatedlearning.children_io import Warned, warning_message
from gm.kube import EventRecorder
from tests.controllers.conftest import Site
from tests.controllers.federatedlearning.objects import condition


def misspelt(site: Site) -> dict[str, Any]:
    """A job whose second trainer's template has a typo: the pod may run anywhere."""
    job = site.job()
    spec = job["spec"]["trainingWorkers"][1]["template"]["spec"]
    spec["nodename"] = spec.pop("nodeName")
    spec["containers"][0]["imagePullpolicy"] = "Never"
    return job


SAID = (
    "trainer 1: warning about its template (pod job-train-1): "
    'unknown field "spec.containers[0].imagePullpolicy"; unknown field "spec.nodename"'
)


async def told(site: Site, count: int = 1) -> list[dict[str, Any]]:
    """The events about it, when there are so many."""

    async def look() -> list[dict[str, Any]]:
        found = await site.events("TemplateWarning")
        return found if len(found) >= count else []

    return await site.cluster.wait_for(look, what="events TemplateWarning")


async def test_a_typo_in_a_template_is_told_once_at_the_job(site: Site) -> None:
    """One event for the pod that it is about, which is made as before; the job goes on."""
    await site.references()
    async with site.gm():
        created = await site.create(FEDERATED_LEARNING_JOBS, misspelt(site))
        await site.wait_pods(3)
        await site.set_phase("Running")
        await site.wait_phase("Running")
        (event,) = await told(site)
        await site.settled()
        assert await site.events("TemplateWarning") == [event]
        assert "unknown field" not in str(await site.status("job"))
    assert (event["type"], event["count"], event["message"]) == ("Warning", 1, SAID)
    assert event["involvedObject"]["uid"] == created["metadata"]["uid"]


async def test_a_typo_that_is_still_there_is_told_of_the_next_pod_too(site: Site) -> None:
    """The event counts pods; the edit that mends it ends that."""
    await site.references()
    async with site.gm():
        await site.create(FEDERATED_LEARNING_JOBS, misspelt(site))
        await site.wait_pods(3)
        await told(site)
    async with site.gm():  # which knows nothing of what was told, and makes nothing
        await site.settled()
        (event,) = await site.events("TemplateWarning")
        assert event["count"] == 1
        await site.delete(PODS, "job-train-1", grace_period_seconds=0)
        await site.wait_pods(3)

        async def again() -> bool:
            (event,) = await site.events("TemplateWarning")
            return bool(event["count"] == 2)

        await site.cluster.wait_for(again, what="the second pod in the event's count")


async def test_nothing_is_said_of_a_job_without_faults(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in events nor in the log, whatever the Global Manager adds to pods and Service."""
    await site.references()
    async with site.gm():
        await site.run_job()
        await site.settled()
        assert await site.events("TemplateWarning") == []
    assert not [r for r in caplog.records if r.getMessage() == "the API server warns"]
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_what_is_refused_again_and_again_is_warned_of_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may explain the refusal: a misspelt field is one that is missing."""
    happened: list[str] = []
    record = EventRecorder.event

    def event(self: EventRecorder, *args: Any, **fields: Any) -> None:
        happened.append(fields["reason"])
        record(self, *args, **fields)

    monkeypatch.setattr(EventRecorder, "event", event)
    await site.references()
    job = misspelt(site)
    job["spec"]["trainingWorkers"][1]["template"]["spec"]["dnsPolicy"] = "Nope"
    async with site.gm():
        await site.create(FEDERATED_LEARNING_JOBS, job)
        await site.wait_status(lambda s: condition(s, "InvalidSpec"))
        (told_first,) = await told(site)
        for number in range(3):
            before = len(site.faults.creates())
            labels = {"metadata": {"annotations": {"look": str(number)}}}
            await site.patch(FEDERATED_LEARNING_JOBS, "job", labels)

            async def tried(before: int = before) -> bool:
                return len(site.faults.creates()) > before

            await site.cluster.wait_for(tried)
        await site.settled()
    assert told_first["message"] == SAID
    assert happened.count("TemplateWarning") == 1


async def test_fields_beside_those_of_a_template_are_told_too(site: Site) -> None:
    """``nodeName`` a level too high reaches no pod, so the API server can not warn of it."""
    await site.references()
    job = site.job()
    template = job["spec"]["aggregationWorker"]["template"]
    template["nodeName"] = template["spec"].pop("nodeName")
    template["metadata"] = {"lables": {"a": "b"}, "labels": {"c": "d"}, "creationTimestamp": None}
    async with site.gm():
        await site.create(FEDERATED_LEARNING_JOBS, job)
        (event,) = await told(site)
        pod = (await site.pods())["job-aggregation"]
    assert event["message"] == (
        "aggregator: warning about its template (pod job-aggregation): "
        'unknown field "template.nodeName"; unknown field "template.metadata.lables"'
    )
    assert pod["metadata"]["labels"]["c"] == "d"


def test_a_message_is_short_whatever_was_said() -> None:
    """An admission webhook may write what it likes; an event holds 1024 characters."""
    texts = tuple(f"{n}" + "é" * 5000 for n in range(40))
    message = warning_message(Warned("trainer 1 on edge1", "p" * 63, texts, is_made=True))
    assert len(message) < 1024
    assert message.endswith("...; and 35 more")
    assert [f"{n}éé" in message for n in range(6)] == [True] * 5 + [False]
    one = warning_message(Warned("aggregator", "p", ("a" * 700,), is_made=True))
    assert one.endswith("a" * 700)
