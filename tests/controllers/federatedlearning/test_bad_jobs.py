"""Jobs that can not work leave all others alone, against API servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gm.api.resources import FEDERATED_LEARNING_JOBS, SECRETS
from gm.errors import ServiceError
from gm.kube import nesting
from gm.kube.client import MERGE_PATCH
from tests.controllers.conftest import Site
from tests.controllers.federatedlearning.objects import condition
from tests.controllers.support import template

BAD: dict[str, tuple[str, str, Callable[[dict[str, Any]], Any]]] = {
    # name: type and reason of the condition, and what is wrong with the spec
    "empty-model": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["aggregationWorker"]["model"].update(name=""),
    ),
    "no-trainers": ("InvalidSpec", "InvalidSpec", lambda spec: spec.update(trainingWorkers=[])),
    "bad-escape": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["aggregationWorker"]["model"].update(name="bad-escape"),
    ),
    "bad-host": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["aggregationWorker"]["model"].update(name="bad-host"),
    ),
    "numbers": ("InvalidSpec", "InvalidSpec", lambda spec: container(spec).update(args=[1, 2])),
    "bad-name": ("InvalidSpec", "InvalidSpec", lambda spec: container(spec).update(name="A B")),
    "no-template": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["trainingWorkers"][0].update(template=None),
    ),
    "no-spec": (
        *("InvalidSpec", "InvalidSpec"),
        lambda spec: spec["trainingWorkers"][0]["template"].update(spec=None),
    ),
    "strange": ("InvalidSpec", "InvalidSpec", lambda spec: spec.update(minParticipants="two")),
    "deep": ("InvalidSpec", "InvalidSpec", lambda spec: spec.update(deep=nested(600))),
    "no-dataset": (
        *("Waiting", "DatasetNotFound"),
        lambda spec: spec["trainingWorkers"][0]["dataset"].update(name="unknown"),
    ),
    "no-endpoint": (
        *("Waiting", "CredentialInvalid"),
        lambda spec: spec["aggregationWorker"]["model"].update(name="no-endpoint"),
    ),
}


def container(spec: dict[str, Any]) -> dict[str, Any]:
    """A trainer's container."""
    found: dict[str, Any] = spec["trainingWorkers"][0]["template"]["spec"]["containers"][0]
    return found


def nested(levels: int) -> Any:
    """A value of so many levels."""
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


async def test_any_bad_job_leaves_a_good_one_alone_P0_024(site: Site) -> None:
    """Whatever a lax CRD lets through: condition and event; the good job next to it runs."""
    await site.references()
    await site.model("bad-escape", url="s3://b/%zz")
    await site.model("bad-host", url="http://a b/")
    await site.model("no-endpoint", url="s3://b/m", credentialName="bare")
    data = dict.fromkeys(("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"), "QUtJQQ==")
    await site.create(SECRETS, {"metadata": {"name": "bare"}, "data": data})

    def alter(job: dict[str, Any]) -> None:
        if (name := job["metadata"]["name"]) in BAD:
            BAD[name][2](job["spec"])

    site.faults.alter = alter
    async with site.gm() as manager:
        for name, (kind, reason, _) in BAD.items():
            await site.submit(name)
            status = await site.wait_status(lambda s, kind=kind: condition(s, kind), name)
            told = condition(status, kind)
            assert told is not None
            assert (status["phase"], told["reason"]) == ("Pending", reason), told
            await site.run_job(f"good-{name}")
            assert manager.problems() == []

            async def is_event(name: str = name, reason: str = reason) -> bool:
                about = [e["involvedObject"]["name"] for e in await site.events(reason)]
                return name in about

            await site.cluster.wait_for(is_event)
            await site.delete(FEDERATED_LEARNING_JOBS, f"good-{name}")


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
@pytest.mark.parametrize("levels", [250, 1200, 9000])
async def test_a_job_that_no_decoder_takes_leaves_a_good_one_alone_P0_024(
    site: Site, levels: int
) -> None:
    """A real API server stores it; corrected, it runs."""
    await site.references()
    body = {
        "apiVersion": FEDERATED_LEARNING_JOBS.api_version,
        "kind": FEDERATED_LEARNING_JOBS.kind,
        **site.job("deep"),
    }
    container(body["spec"])["odd"] = "DEEP"
    deep = '{"a":' * levels + "1" + "}" * levels
    text = msgspec.json.encode(body).replace(b'"DEEP"', deep.encode())
    key = site.cluster.key("deep")

    async def told() -> str:
        async with site.cluster.client() as client:
            raw = nesting.outline(await client.get(FEDERATED_LEARNING_JOBS, key))
        status = msgspec.json.decode(raw).get("status", {})
        return str((condition(status, "InvalidSpec") or {}).get("message", ""))

    async with site.gm() as manager, site.cluster.client() as client:
        path = FEDERATED_LEARNING_JOBS.path(site.namespace)
        assert (await client.raw("POST", path, body=text)).status == 201
        message = await site.cluster.wait_for(told)
        assert message.startswith("the object: is nested more than 200 levels deep; correct it")
        await site.run_job("good")
        assert manager.problems() == []
        await client.raw(
            "PATCH",
            FEDERATED_LEARNING_JOBS.path(site.namespace, "deep"),
            body=msgspec.json.encode({"spec": site.job("deep")["spec"]}),
            content_type=MERGE_PATCH,
        )
        await site.wait_pods(3, "deep")


async def test_one_bad_job_does_not_stop_the_others_P0_024(site: Site) -> None:
    """As it is applied: what the CRD lets through gets a condition, and the good job runs."""
    await site.references()
    await site.model("bad-url", url="s3://b/%zz")
    bad: dict[str, dict[str, Any]] = {
        "no-model": {"aggregationWorker": {"model": {"name": ""}, "template": template()}},
        "no-trainers": {"trainingWorkers": []},
        "bad-url": {
            "aggregationWorker": {"model": {"name": "bad-url"}, "template": template()},
        },
        "bad-image": {
            "aggregationWorker": {
                "model": {"name": "m"},
                "template": {"spec": {"containers": [{"name": "NOT A NAME", "image": "x"}]}},
            }
        },
    }
    accepted = []
    async with site.gm():
        for name, change in bad.items():
            body = site.job(name)
            body["spec"] |= change
            try:
                await site.create(FEDERATED_LEARNING_JOBS, body)
                accepted.append(name)
            except ServiceError:
                continue  # the CRD refuses it already
        assert accepted
        await site.run_job("good")
        for name in accepted:
            await site.wait_status(lambda s: condition(s, "InvalidSpec"), name)
        await site.cluster.wait_for(lambda: site.events("InvalidSpec"))
