"""What is served: built-ins, and what CRDs bring and take."""

from __future__ import annotations

import copy

from gm.api.meta import Json
from gm.devcluster.registry import Registry
from tests.devcluster.core import WIDGET_CRD, crd


def prepared(obj: Json = WIDGET_CRD, registry: Registry | None = None) -> Json:
    """A CRD as it would be stored."""
    whole = copy.deepcopy(obj)
    info = (registry or Registry()).kind("apiextensions.k8s.io", "CustomResourceDefinition")
    assert info is not None
    info.prepare_create(whole)
    return whole


def test_built_in_kinds_are_found_by_path_and_by_kind() -> None:
    """None for what is not served."""
    registry = Registry()
    pods = registry.lookup("", "v1", "pods")
    assert pods is not None
    assert registry.kind("", "Pod") is pods
    assert registry.kind("", "Pod", "v1") is pods
    assert registry.kind("", "Pod", "v2") is None
    assert registry.lookup("apps", "v1", "pods") is None
    assert pods in registry.all()


def test_a_crd_is_served_until_it_is_removed() -> None:
    """Each change raises the revision, by which documents are cached."""
    registry = Registry()
    before = registry.revision
    status = registry.set_crd(prepared())
    assert status["conditions"][1]["status"] == "True"
    assert registry.lookup("example.com", "v1", "widgets") is not None
    assert registry.revision > before
    removed = registry.remove_crd("widgets.example.com")
    assert [info.resource.plural for info in removed] == ["widgets"]
    assert registry.lookup("example.com", "v1", "widgets") is None
    assert registry.remove_crd("widgets.example.com") == []


def test_a_new_version_of_a_crd_replaces_the_former() -> None:
    """Also versions that it serves no more."""
    registry = Registry()
    obj = prepared()
    registry.set_crd(obj)
    changed = copy.deepcopy(obj)
    changed["spec"]["versions"][0]["name"] = "v2"
    registry.set_crd(changed)
    assert registry.lookup("example.com", "v1", "widgets") is None
    assert registry.lookup("example.com", "v2", "widgets") is not None


def test_a_conflicting_crd_serves_nothing() -> None:
    """And one that was served stays as it was."""
    registry = Registry()
    registry.set_crd(prepared())
    other = prepared()
    other["metadata"]["name"] = "things.example.com"
    other["spec"]["names"]["plural"] = "things"
    status = registry.set_crd(other)
    assert status["conditions"][0]["reason"] == "ListKindConflict"
    assert registry.lookup("example.com", "v1", "things") is None
    renamed = prepared(crd("Gadget"))
    registry.set_crd(renamed)
    renamed["spec"]["names"]["shortNames"] = ["widgets"]
    assert registry.set_crd(renamed)["conditions"][0]["reason"] == "ShortNamesConflict"
    assert registry.lookup("example.com", "v1", "gadgets") is not None


def test_a_registry_can_begin_with_other_resources() -> None:
    """For tests of what is built on it."""
    assert Registry([]).all() == []
