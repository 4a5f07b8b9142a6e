"""A job that the typed view can not take in: told on the object, and nobody else is held up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from gm.api.resources import FEDERATED_LEARNING_JOBS
from gm.controllers.federatedlearning.unreadable import explained
from gm.errors import ServiceError, api_error
from gm.kube.client import WatchEvent
from tests.controllers.conftest import Site
from tests.controllers.faults import Call


class Distorting:
    """Makes the watch events of jobs named ``bad`` unreadable, as if no CRD had checked them."""

    def __init__(self) -> None:
        self.value: Any = "two"

    async def __call__(self, kind: str, event: WatchEvent) -> AsyncIterator[WatchEvent]:
        """See Faults.deliver."""
        body = msgspec.json.decode(event.object)
        if kind == "FederatedLearningJob" and body["metadata"].get("name") == "bad":
            body["spec"]["minParticipants"] = self.value
            event = WatchEvent(event.type, msgspec.Raw(msgspec.json.encode(body)))
        yield event


def told(status: dict[str, Any]) -> list[str]:
    """Messages of condition InvalidSpec."""
    return [c["message"] for c in status.get("conditions") or [] if c["type"] == "InvalidSpec"]


async def test_it_gets_condition_and_event_and_others_go_on_P0_024(site: Site) -> None:
    """Field and reason; corrected, it runs."""
    await site.references()
    site.faults.deliver = distorting = Distorting()
    refusals: list[ServiceError] = [api_error("patch", code=409, reason="Conflict")]

    def fail(call: Call) -> ServiceError | None:
        return refusals.pop() if call.name == "bad" and refusals else None

    site.faults.fail = fail
    async with site.gm():
        await site.submit("bad")
        status = await site.wait_status(told, "bad")
        assert status["phase"] == "Pending"
        assert told(status)[0].startswith("spec.minParticipants: expected int, got str; correct")
        await site.cluster.wait_for(lambda: site.events("InvalidSpec"))
        await site.submit("good")
        await site.wait_pods(3, "good")
        assert await site.pods("bad") == {}
        assert not refusals
        distorting.value = 1
        await site.patch(FEDERATED_LEARNING_JOBS, "bad", {"metadata": {"labels": {"a": "b"}}})
        await site.wait_pods(3, "bad")
        await site.wait_status(lambda status: not told(status), "bad")


async def test_a_running_job_that_becomes_unreadable_is_left_as_it_is_P0_024(site: Site) -> None:
    """Its pods go on, its status says what is wrong; a finished or deleted one says nothing."""
    await site.references()
    async with site.gm():
        pods = await site.run_job("bad")
        site.faults.deliver = distorting = Distorting()
        await site.patch(FEDERATED_LEARNING_JOBS, "bad", {"metadata": {"labels": {"a": "b"}}})
        status = await site.wait_status(told, "bad")
        assert status["phase"] == "Running"
        assert (await site.pods("bad")).keys() == pods.keys()
        written = len(site.faults.calls)
        distorting.value = [1]
        await site.delete(FEDERATED_LEARNING_JOBS, "bad")
        await site.settled()
        assert [c for c in site.faults.calls[written:] if c.name == "bad"] == []


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("Expected `int`, got `str` - at `$.spec.a[0]`", "spec.a[0]: expected int, got str"),
        ("Expected `object`, got `array`", "the object: expected object, got array"),
    ],
)
def test_the_field_comes_first(why: str, said: str) -> None:
    """As in all other messages about a spec."""
    assert explained(why) == said
