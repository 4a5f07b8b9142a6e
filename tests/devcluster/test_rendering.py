"""Objects and lists in the form that a client asks for."""

from __future__ import annotations

import pytest

from tests.devcluster.core import Http, widget

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MAPS = "/api/v1/namespaces/default/configmaps"


def shown_as(kind: str) -> str:
    """An Accept header."""
    return f"application/json;as={kind};v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("path", "go"), [(WIDGETS, "unstructured.Unstructured"), (MAPS, "core.ConfigMap")]
)
async def test_a_list_is_no_object_and_an_object_no_list(http: Http, path: str, go: str) -> None:
    """406 that says what there is."""
    made = widget("x") if path == WIDGETS else {"metadata": {"name": "x"}}
    assert (await http("POST", path, made)).status == 201
    listed = await http("GET", path, accept=shown_as("PartialObjectMetadata"))
    assert listed.status == 406
    assert listed.json["message"].endswith(f"but the requested object is a list (*{go}List)")
    one = await http("GET", f"{path}/x", accept=shown_as("PartialObjectMetadataList"))
    assert one.status == 406
    assert one.json["message"].endswith(f"but the requested object is not a list (*{go})")


async def test_items_of_built_in_kinds_do_not_say_what_they_are(http: Http) -> None:
    """Custom ones do, as in a real cluster."""
    await http("POST", MAPS, {"metadata": {"name": "x"}})
    await http("POST", WIDGETS, widget("x"))
    (plain,) = (await http("GET", MAPS)).json["items"]
    (custom,) = (await http("GET", WIDGETS)).json["items"]
    assert "kind" not in plain
    assert custom["kind"] == "Widget"


async def test_what_was_written_under_older_rules_is_shown_as_it_is_now(http: Http) -> None:
    """By get, list, table and watch, after the kind has changed."""
    assert (await http("POST", WIDGETS, widget("x"))).status == 201
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
    place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape"
    change = [{"op": "add", "path": place, "value": {"type": "string", "default": "round"}}]
    kind = "application/json-patch+json"
    assert (await http("PATCH", crd, change, content_type=kind)).status == 200
    assert (await http("GET", f"{WIDGETS}/x")).json["spec"]["shape"] == "round"
    (item,) = (await http("GET", WIDGETS)).json["items"]
    assert item["spec"]["shape"] == "round"
    table = f"{WIDGETS}?includeObject=Object"
    (row,) = (await http("GET", table, accept=shown_as("Table"))).json["rows"]
    assert row["object"]["spec"]["shape"] == "round"
    async with http.watching(f"{WIDGETS}?watch=1") as following:
        assert (await following())["object"]["spec"]["shape"] == "round"
