"""Jobs that train one model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gm.api.meta import ObjectKey
from gm.api.sedna import FederatedLearningJob
from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.users import Rivals
from gm.kube.lister import Stored
from tests.controllers.conftest import Site
from tests.controllers.support import NAMESPACE, NOW, job_json, view

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


def job(name: str, age: int, **fields: Any) -> Stored[FederatedLearningJob]:
    """A job that was created ``age`` seconds ago."""
    body = job_json(name, **fields)
    body["metadata"]["creationTimestamp"] = timestamp(NOW - timedelta(seconds=age))
    found: Stored[FederatedLearningJob] = view(body, FederatedLearningJob)
    return found


def key(name: str) -> ObjectKey:
    """Key of a job."""
    return ObjectKey(NAMESPACE, name)


def test_each_job_is_told_of_the_one_before_it() -> None:
    """The oldest of none; whom it concerns is said, and only those."""
    rivals = Rivals()
    assert rivals.set(job("c", 1)) == []
    assert rivals.set(job("a", 3)) == [key("c")]
    assert rivals.set(job("b", 2)) == [key("c")]
    assert rivals.set(job("b", 2)) == []
    before = {name: rivals.before(key(name)) for name in "abc"}
    assert before == {"a": None, "b": key("a"), "c": key("b")}
    assert rivals.set(job("b", 2, status=COMPLETE)) == [key("c")]
    assert rivals.before(key("b")) is None
    assert rivals.before(key("c")) == key("a")
    assert rivals.forget(key("a")) == [key("c")]
    assert rivals.before(key("c")) is None
    assert rivals.forget(key("c")) == []
    assert rivals._lines == {}


def test_jobs_on_other_models_are_no_rivals() -> None:
    """Nor is a job that changes its model."""
    rivals = Rivals()
    rivals.set(job("a", 2))
    rivals.set(job("b", 1))
    worker = job_json()["spec"]["aggregationWorker"]
    rivals.set(job("b", 1, aggregationWorker={**worker, "model": {"name": "other"}}))
    assert rivals.before(key("b")) is None


async def test_the_younger_of_two_jobs_on_one_model_is_told_until_the_other_ends(
    site: Site,
) -> None:
    """A condition and an event; it runs all the same."""

    def shared(status: dict[str, Any]) -> str:
        told = [c for c in status.get("conditions") or [] if c["type"] == "ModelShared"]
        return str(told[0]["message"]) if told else ""

    await site.references()
    async with site.gm():
        await site.run_job("a")
        await site.run_job("b")
        status = await site.wait_status(shared, "b")
        assert shared(status).startswith("job a trains Model m too")
        assert not shared(await site.status("a"))
        await site.cluster.wait_for(lambda: site.events("ModelShared"))
        await site.set_phase("Succeeded", *await site.pods("a"))
        await site.wait_phase("Succeeded", "a")
        status = await site.wait_status(lambda s: not shared(s), "b")
        assert status["phase"] == "Running"
