"""OpenAPI v3 documents."""

from __future__ import annotations

import copy
import re

import msgspec
import pytest

from gm.api.meta import Json
from gm.devcluster.openapi import OpenApi, schema_name
from gm.devcluster.registry import Registry
from tests.devcluster.core import WIDGET_CRD
from tests.devcluster.test_definitions import references


@pytest.fixture
def registry() -> Registry:
    """Built-ins and the Widget."""
    found = Registry()
    set_widget(found)
    return found


def set_widget(registry: Registry, description: str = "Widget is a thing.") -> None:
    """Serve the Widget CRD."""
    obj = copy.deepcopy(WIDGET_CRD)
    obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = description
    info = registry.kind("apiextensions.k8s.io", "CustomResourceDefinition")
    assert info is not None
    info.prepare_create(obj)
    registry.set_crd(obj)


def read(api: OpenApi, key: str) -> Json:
    """A document."""
    document = api.document(key)
    assert document is not None
    decoded: Json = msgspec.json.decode(document.body)
    return decoded


def test_the_index_names_each_document_by_its_hash(registry: Registry) -> None:
    """As clients cache them for ever."""
    api = OpenApi(registry)
    paths = msgspec.json.decode(api.index().body)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= set(paths)
    for key, entry in paths.items():
        document = api.document(key)
        assert document is not None
        etag = document.etag.strip('"')
        assert re.fullmatch("[0-9A-F]{128}", etag)
        assert entry["serverRelativeURL"] == f"/openapi/v3/{key}?hash={etag}"


def test_a_changed_crd_changes_the_hash_of_its_document_only(registry: Registry) -> None:
    """A client must not explain an old schema."""
    api = OpenApi(registry)
    before = {key: api.document(key) for key in ("api/v1", "apis/example.com/v1")}
    assert api.document("api/v1") is before["api/v1"], "made once while nothing changes"
    set_widget(registry, "Widget is another thing.")
    assert api.document("apis/example.com/v1") != before["apis/example.com/v1"]
    assert api.document("api/v1") == before["api/v1"]
    registry.remove_crd("widgets.example.com")
    assert api.document("apis/example.com/v1") is None


def test_a_document_is_complete(registry: Registry) -> None:
    """Every reference leads to a schema of the same document."""
    api = OpenApi(registry)
    for key in ("api/v1", "apis/apps/v1", "apis/example.com/v1", "apis/authorization.k8s.io/v1"):
        document = read(api, key)
        schemas = document["components"]["schemas"]
        assert set(references(document["paths"])) <= set(schemas)
        assert set(references(schemas)) <= set(schemas)


def test_kubectl_finds_what_it_looks_for(registry: Registry) -> None:
    """A PATCH with a fieldValidation parameter under the kind, and the kind's schema."""
    document = read(OpenApi(registry), "apis/example.com/v1")
    widget = {"group": "example.com", "version": "v1", "kind": "Widget"}
    item = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]
    assert item["patch"]["x-kubernetes-group-version-kind"] == widget
    assert item["patch"]["x-kubernetes-action"] == "patch"
    assert "fieldValidation" in [p["name"] for p in item["patch"]["parameters"]]
    assert "application/strategic-merge-patch+json" not in item["patch"]["requestBody"]["content"]
    assert {"name": "namespace", "in": "path"}.items() <= item["parameters"][0].items()
    schema = document["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["x-kubernetes-group-version-kind"] == [widget]
    assert schema["description"] == "Widget is a thing."
    assert {"apiVersion", "kind", "metadata", "spec", "status"} <= set(schema["properties"])
    assert document["components"]["schemas"]["com.example.v1.WidgetList"]["required"] == ["items"]


def test_paths_follow_verbs_and_scope(registry: Registry) -> None:
    """No GET of a review, no list of a cluster's kind by namespace."""
    api = OpenApi(registry)
    paths = read(api, "api/v1")["paths"]
    assert set(paths["/api/v1/nodes"]) == {"parameters", "get", "post", "delete"}
    assert "/api/v1/namespaces/{namespace}/nodes" not in paths
    assert "get" in paths["/api/v1/pods"]
    assert "delete" not in paths["/api/v1/namespaces"]
    assert "put" in paths["/api/v1/namespaces/{namespace}/pods/{name}/status"]
    patch = paths["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    reviews = read(api, "apis/authorization.k8s.io/v1")["paths"]
    assert set(reviews["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]) == {
        "parameters",
        "post",
    }


def test_schemas_are_named_as_clients_expect(registry: Registry) -> None:
    """Reversed domain, version, kind."""
    widgets = registry.lookup("example.com", "v1", "widgets")
    pods = registry.lookup("", "v1", "pods")
    assert widgets is not None
    assert pods is not None
    assert schema_name(widgets) == "com.example.v1.Widget"
    assert schema_name(pods) == "io.k8s.api.core.v1.Pod"
