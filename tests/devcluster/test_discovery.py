"""Discovery, plain and aggregated."""

from __future__ import annotations

import copy

import msgspec
import pytest

from gm.api.meta import Json
from gm.devcluster import discovery
from gm.devcluster.registry import Registry
from tests.devcluster.core import WIDGET_CRD

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
BETA = AGGREGATED.replace("v=v2", "v=v2beta1")


@pytest.fixture
def registry() -> Registry:
    """Built-ins and the Widget."""
    found = Registry()
    obj = copy.deepcopy(WIDGET_CRD)
    info = found.kind("apiextensions.k8s.io", "CustomResourceDefinition")
    assert info is not None
    info.prepare_create(obj)
    found.set_crd(obj)
    return found


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (f"{AGGREGATED},{BETA},application/json", "v2"),
        (f"{BETA},application/json", "v2beta1"),
        (f"application/json, {AGGREGATED}", ""),
        (f"*/*,{AGGREGATED}", ""),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList", ""),
        ("text/html", ""),
        ("", ""),
    ],
)
def test_the_first_form_that_can_be_served_wins(accept: str, wanted: str) -> None:
    """Newer kubectl asks for several at once."""
    assert discovery.wants_aggregated(accept) == wanted


def items(registry: Registry, *, core: bool, accept: str = AGGREGATED) -> list[Json]:
    """The groups of aggregated discovery."""
    document = discovery.aggregated(registry, accept, core=core)
    decoded = msgspec.json.decode(document.body)
    assert decoded["kind"] == "APIGroupDiscoveryList"
    result: list[Json] = decoded["items"]
    return result


def test_the_core_group_is_aggregated_by_itself(registry: Registry) -> None:
    """With no name, and kinds without group and version, as the real server writes them."""
    (core,) = items(registry, core=True)
    assert core["metadata"] == {}
    resources = {r["resource"]: r for r in core["versions"][0]["resources"]}
    pods = resources["pods"]
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert (pods["scope"], pods["shortNames"], pods["categories"]) == (
        "Namespaced",
        ["po"],
        ["all"],
    )
    parts = {s["subresource"]: s for s in pods["subresources"]}
    assert parts["eviction"]["responseKind"] == {
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
    }
    assert parts["log"]["verbs"] == ["get"]
    assert resources["nodes"]["scope"] == "Cluster"


def test_groups_are_aggregated_with_their_custom_kinds(registry: Registry) -> None:
    """Whose kinds have group and version."""
    groups = {g["metadata"]["name"]: g for g in items(registry, core=False)}
    assert {"apps", "authorization.k8s.io", "example.com"} <= set(groups)
    (widgets,) = groups["example.com"]["versions"][0]["resources"]
    assert widgets["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert groups["example.com"]["versions"][0]["freshness"] == "Current"


def test_the_content_type_repeats_what_was_asked(registry: Registry) -> None:
    """And the ETag changes with the content only."""
    one = discovery.aggregated(registry, AGGREGATED, core=False)
    assert one.content_type == AGGREGATED
    assert discovery.aggregated(registry, BETA, core=False).content_type == BETA
    assert discovery.aggregated(registry, AGGREGATED, core=False).etag == one.etag
    registry.remove_crd("widgets.example.com")
    assert discovery.aggregated(registry, AGGREGATED, core=False).etag != one.etag


def test_the_old_documents_say_the_same(registry: Registry) -> None:
    """Group by group, version by version."""
    assert discovery.api(registry, server_address="h:1")["versions"] == ["v1"]
    groups = {g["name"]: g for g in discovery.apis(registry)["groups"]}
    assert groups["example.com"]["preferredVersion"]["groupVersion"] == "example.com/v1"
    assert discovery.group(registry, "apps") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "apps",
        "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
    }
    assert discovery.group(registry, "nonsense") is None
    assert discovery.resource_list(registry, "apps", "v9") is None
    listed = discovery.resource_list(registry, "", "v1")
    assert listed is not None
    resources = {r["name"]: r for r in listed["resources"]}
    assert resources["pods"]["kind"] == "Pod"
    assert resources["pods/binding"]["kind"] == "Binding"
    assert resources["pods/eviction"]["group"] == "policy"
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]


def test_the_version_is_marked_as_ours() -> None:
    """Semver, so that kubectl can read it."""
    version = discovery.version()
    assert version["gitVersion"] == f"v1.{version['minor']}.4+gm"
    assert version["major"] == "1"
