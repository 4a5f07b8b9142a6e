"""Which pods a guest node runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gm.api.meta import ObjectMeta, OwnerReference, PartialObject
from gm.api.resources import DATASETS, MODELS
from gm.edge_stub.runner.admission import refusal
from tests.edge_stub.runner.harness import Edge

MODEL = {
    "apiVersion": MODELS.api_version,
    "kind": MODELS.kind,
    "metadata": {"name": "m"},
    "spec": {"url": "/m", "format": "npz"},
}


def owned(namespace: str, **owner: Any) -> PartialObject:
    """A pod with a controller."""
    reference = {
        "api_version": MODELS.api_version,
        "kind": MODELS.kind,
        "name": "m",
        "uid": "u",
        "controller": True,
        **owner,
    }
    meta = ObjectMeta(
        name="p", namespace=namespace, owner_references=(OwnerReference(**reference),)
    )
    return PartialObject(metadata=meta)


async def test_the_controller_must_be_there_with_that_uid(node: Edge) -> None:
    """A reference alone can be written by anybody."""
    namespace = node.cluster.namespace
    settings = node.settings(any_pod=False)
    async with node.cluster.client() as client:
        missing = await refusal(client, settings, owned(namespace))
        assert missing == "the pod's controller, Model m with uid u, is not there"
        made = msgspec.json.decode(await client.create(MODELS, namespace, MODEL))
        uid = made["metadata"]["uid"]
        assert await refusal(client, settings, owned(namespace)) == missing, "another uid"
        assert await refusal(client, settings, owned(namespace, uid=uid)) == ""
        wrong_kind = owned(namespace, uid=uid, kind=DATASETS.kind)
        assert "is not there" in await refusal(client, settings, wrong_kind)
        scoped = node.settings(any_pod=False, namespace="other")
        assert "namespace other only" in await refusal(client, scoped, owned(namespace, uid=uid))


@pytest.mark.parametrize(
    "owner",
    [
        {"controller": False},
        {"api_version": "apps/v1", "kind": "ReplicaSet"},
        {"api_version": "sedna.io.example.com/v1", "kind": "Model"},
        {"api_version": "v1", "kind": "sedna.io"},
    ],
)
async def test_other_owners_are_not_enough(node: Edge, owner: dict[str, Any]) -> None:
    """Group sedna.io, and the controller."""
    async with node.cluster.client() as client:
        settings = node.settings(any_pod=False)
        why = await refusal(client, settings, owned(node.cluster.namespace, **owner))
        assert "pods of sedna.io objects only" in why
        assert await refusal(client, node.settings(), owned("x", **owner)) == "", "any pod"
