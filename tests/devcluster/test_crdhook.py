"""Definitions are served as soon as they are stored."""

from __future__ import annotations

from gm.devcluster.deletion import DeleteOptions, delete
from tests.devcluster.core import WIDGET_CRD, plain, widget

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
WIDGETS = "widgets.example.com"


def test_a_definition_is_established_at_once() -> None:
    """Its objects can be created right away."""
    api = plain(widgets=False)
    created = api.create(CRDS, WIDGET_CRD)
    conditions = {c["type"]: c["status"] for c in created["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert created["status"]["storedVersions"] == ["v1"]
    api.create(WIDGETS, widget("w"))


def test_a_dry_run_serves_nothing() -> None:
    """Neither on create nor on update."""
    api = plain(widgets=False)
    api.create(CRDS, WIDGET_CRD, dry_run=True)
    assert api.api.registry.lookup("example.com", "v1", "widgets") is None


def test_a_changed_schema_counts_from_then_on() -> None:
    """Also a status write alone does not touch what is served."""
    api = plain()
    revision = api.api.registry.revision
    api.patch(CRDS, WIDGETS, lambda c: {**c, "status": {**c["status"]}}, subresource="status")
    assert api.api.registry.revision == revision

    def without_default(definition: dict[str, object]) -> dict[str, object]:
        text = definition["spec"]
        assert isinstance(text, dict)
        schema = text["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["color"]["default"]
        return definition

    api.patch(CRDS, WIDGETS, without_default)
    assert api.create(WIDGETS, widget("w"))["spec"] == {"size": 1}


def test_a_removed_definition_is_served_no_more() -> None:
    """When its finalizer is lifted."""
    api = plain()
    delete(api.api, api.info(CRDS), api.key(CRDS, WIDGETS), DeleteOptions())
    assert api.api.registry.lookup("example.com", "v1", "widgets") is not None
    api.patch(CRDS, WIDGETS, lambda c: {**c, "metadata": {**c["metadata"], "finalizers": None}})
    assert api.api.registry.lookup("example.com", "v1", "widgets") is None
