"""Condition CredentialWithheld of Datasets and Models, on API servers."""

from __future__ import annotations

from typing import Any

import msgspec

from gm.api.meta import ResourceType
from gm.api.resources import DATASETS, MODELS
from gm.errors import ApiUnreachable, NotFound, ServiceError, api_error
from tests.controllers.conftest import Site
from tests.controllers.faults import Call


async def conditions(site: Site, resource: ResourceType, name: str) -> list[dict[str, Any]]:
    """Conditions of an object."""
    found = await site.cluster.get(resource, name)
    assert found is not None
    listed: list[dict[str, Any]] = (found.get("status") or {}).get("conditions") or []
    return listed


async def is_told(site: Site, resource: ResourceType = DATASETS, name: str = "d0") -> bool:
    """Whether the condition is there."""
    return [c["type"] for c in await conditions(site, resource, name)] == ["CredentialWithheld"]


async def wait_told(site: Site, is_wanted: bool = True) -> None:
    """Wait until the Dataset has the condition, or has it no more."""

    async def look() -> bool:
        return await is_told(site) is is_wanted

    await site.cluster.wait_for(look)


def writes(site: Site) -> list[Call]:
    """Status writes to Datasets and Models."""
    return [c for c in site.faults.calls if c.kind in ("Dataset", "Model")]


async def test_a_withheld_credential_is_a_condition_and_one_event(site: Site) -> None:
    """Where people look; it is written once, also over a restart of GM."""
    await site.nodes("edge0")
    await site.dataset("d0", "edge0", url="s3://b/x", credentialName="s3")
    await site.dataset("plain", "edge0")
    for _ in range(2):
        async with site.gm():
            await wait_told(site)
            await site.cluster.wait_for(lambda: site.events("CredentialWithheld"))
    (told,) = await conditions(site, DATASETS, "d0")
    assert (told["status"], told["reason"]) == ("True", "CredentialWithheld")
    assert "websocket.auth is none" in told["message"]
    assert await conditions(site, DATASETS, "plain") == []
    assert len(writes(site)) == 1
    assert len(await site.events("CredentialWithheld")) == 1


async def test_a_report_of_the_edge_leaves_the_condition_alone_P0_022(site: Site) -> None:
    """And the condition leaves the count alone."""
    await site.nodes("edge0")
    await site.dataset("d0", "edge0", url="s3://b/x", credentialName="s3")
    async with site.gm(), site.edge("edge0") as edge:
        await edge.wait_for(lambda: f"dataset {site.namespace}/d0" in edge.held)
        await edge.report("dataset", site.namespace, "d0", {"numberOfSamples": 7})

        async def has_both() -> bool:
            found = await site.cluster.get(DATASETS, "d0")
            status = (found or {}).get("status") or {}
            return status.get("numberOfSamples") == 7 and bool(status.get("conditions"))

        await site.cluster.wait_for(has_both)


async def test_the_condition_goes_with_its_cause(site: Site) -> None:
    """An object that names no Secret any more; a setting under which the credential is sent."""
    await site.nodes("edge0")
    await site.dataset("d0", "edge0", url="s3://b/x", credentialName="s3")
    async with site.gm():
        await wait_told(site)
        await site.patch(DATASETS, "d0", {"spec": {"credentialName": None}})
        await wait_told(site, False)
        await site.patch(DATASETS, "d0", {"spec": {"credentialName": "s3"}})
        await wait_told(site)
    open_hearted = msgspec.structs.replace(site.config.websocket, credentials="always")
    site.config = msgspec.structs.replace(site.config, websocket=open_hearted)
    async with site.gm():
        await wait_told(site, False)


async def test_a_model_that_goes_to_no_node_is_no_case(site: Site) -> None:
    """Nothing is withheld from anybody."""
    await site.nodes("edge0")
    await site.model("m", url="s3://b/m", credentialName="s3")
    await site.dataset("d0", "edge0", url="s3://b/x", credentialName="s3")
    async with site.gm():
        await wait_told(site)
        assert not await is_told(site, MODELS, "m")
        assert [c.name for c in writes(site)] == ["d0"]


async def test_a_write_that_fails_is_tried_again_and_a_deleted_object_is_let_go(
    site: Site,
) -> None:
    """Conflicts, outages, and objects that are gone by then."""
    await site.nodes("edge0")
    await site.dataset("d0", "edge0", url="s3://b/x", credentialName="s3")
    await site.dataset("gone", "edge0", url="s3://b/x", credentialName="s3")
    refusals: list[ServiceError] = [
        ApiUnreachable("the test says no"),
        api_error("patch", code=409, reason="Conflict", message="no"),
    ]

    def fail(call: Call) -> ServiceError | None:
        if call.kind == "Dataset" and call.name == "gone":
            return api_error("patch", code=404, reason="NotFound", message="gone")
        return refusals.pop() if call.kind == "Dataset" and refusals else None

    site.faults.fail = fail
    assert isinstance(fail(Call("patch", "Dataset", "gone")), NotFound)
    async with site.gm():
        await wait_told(site)
        assert not refusals
        assert len([c for c in writes(site) if c.name == "gone"]) == 1
