"""A scripted API server, and a custom kind of the tests' own."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import CUSTOM_RESOURCE_DEFINITIONS
from gm.errors import NotFound
from gm.kube import Client
from tests.cluster.cluster import Cluster
from tests.fakes.kube_api import FakeKubeApi, fake_kube_api


def custom_resource_definition(resource: ResourceType) -> dict[str, Any]:
    """A CRD for ``resource`` that takes any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


@pytest.fixture
async def api() -> AsyncIterator[FakeKubeApi]:
    """A scripted API server; watches that a test does not script are accepted."""
    async with fake_kube_api() as fake:
        yield fake


@pytest.fixture
async def client(api: FakeKubeApi) -> AsyncIterator[Client]:
    """A client of the scripted API server."""
    async with await Client.connect(master=api.url) as connected:
        yield connected


@pytest.fixture
async def absent_widgets(cluster: Cluster) -> AsyncIterator[ResourceType]:
    """A kind that nobody has installed yet; removed at the end if a test does so."""
    group = f"t{secrets.token_hex(4)}.example"
    resource = ResourceType(group=group, version="v1", kind="Widget", plural="widgets")
    yield resource
    async with cluster.client() as client:
        try:
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey("", resource.qualified))
        except NotFound:
            return


@pytest.fixture
async def widgets(cluster: Cluster, absent_widgets: ResourceType) -> ResourceType:
    """An installed kind."""
    async with cluster.client() as client:
        crd = custom_resource_definition(absent_widgets)
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)

        async def is_served() -> bool:
            try:
                await client.list(absent_widgets)
            except NotFound:
                return False
            return True

        await cluster.wait_for(is_served, what="the new kind")
    return absent_widgets
