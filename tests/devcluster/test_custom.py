"""Writes of custom kinds, and their columns."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.custom import printer_column
from gm.devcluster.info import ResourceInfo
from gm.devcluster.registry import Registry
from gm.devcluster.status import StatusError
from tests.devcluster.core import WIDGET_CRD, widget


def widgets(*, status: bool = True) -> ResourceInfo:
    """The resource of the Widget CRD."""
    registry = Registry()
    obj = copy.deepcopy(WIDGET_CRD)
    if not status:
        del obj["spec"]["versions"][0]["subresources"]
    info = registry.kind("apiextensions.k8s.io", "CustomResourceDefinition")
    assert info is not None
    info.prepare_create(obj)
    registry.set_crd(obj)
    found = registry.lookup("example.com", "v1", "widgets")
    assert found is not None
    return found


WIDGETS = widgets()


def stored(**more: Any) -> Json:
    """A widget as it is stored."""
    obj = {**widget("w", namespace="n", uid="u", resourceVersion="1"), **more}
    WIDGETS.prepare_create(obj)
    return obj


def test_a_new_object_is_pruned_defaulted_and_loses_its_status() -> None:
    """Status is written through its own path."""
    obj = widget("w", namespace="n", labels={}, managedFields=[])
    obj["status"] = {"phase": "X"}
    obj["spec"] |= {"zz": 1, "aa": 2}
    assert WIDGETS.prepare_create(obj) == ['unknown field "spec.aa"', 'unknown field "spec.zz"']
    assert obj == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {"size": 1, "color": "red"},
    }


def test_without_a_status_path_the_status_is_a_field_like_others() -> None:
    """It is stored as sent."""
    info = widgets(status=False)
    obj = widget("w", namespace="n") | {"status": {"phase": "X"}}
    info.prepare_create(obj)
    assert obj["status"] == {"phase": "X"}
    changed = copy.deepcopy(obj) | {"status": {"phase": "Y"}}
    info.prepare_update(changed, obj)
    assert changed["status"] == {"phase": "Y"}


def test_strict_refuses_unknown_fields_also_in_metadata() -> None:
    """In the server's order."""
    obj = widget("w", namespace="n", bogus=1)
    obj["spec"]["a"] = 1
    with pytest.raises(StatusError) as caught:
        WIDGETS.prepare_create(obj, field_validation="Strict")
    assert caught.value.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown '
        'field "metadata.bogus", unknown field "spec.a"'
    )


def test_metadata_is_decoded_as_of_any_kind() -> None:
    """Labels are texts."""
    with pytest.raises(StatusError) as caught:
        WIDGETS.prepare_create(widget("w", namespace="n", labels={"a": 1}))
    assert caught.value.message == (
        'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into '
        "Go struct field ObjectMeta.labels of type string"
    )


def test_all_errors_come_at_once() -> None:
    """Those of metadata and of values."""
    with pytest.raises(StatusError) as caught:
        WIDGETS.prepare_create(widget("Bad_Name", "big", namespace="n"))
    assert [cause.field for cause in caught.value.causes] == ["metadata.name", "spec.size"]
    assert caught.value.details is not None
    assert caught.value.details["group"] == "example.com"


def test_the_main_path_keeps_the_status() -> None:
    """Whatever is sent with it, and whether there was one."""
    old = stored()
    new = copy.deepcopy(old) | {"status": {"phase": "X"}}
    new["spec"]["size"] = 2
    WIDGETS.prepare_update(new, old)
    assert ("status" in new, new["spec"]["size"]) == (False, 2)
    old["status"] = {"phase": "A"}
    again = copy.deepcopy(old) | {"status": {"phase": "X"}}
    WIDGETS.prepare_update(again, old)
    assert again == old


def test_the_status_path_changes_nothing_else() -> None:
    """Neither spec nor labels; resourceVersion is the client's, to be compared."""
    old = stored()
    new = copy.deepcopy(old) | {"status": {"phase": "X", "bogus": 1}}
    new["spec"]["size"] = 5
    new["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "7"}
    assert WIDGETS.prepare_update(new, old, subresource="status") == [
        'unknown field "status.bogus"'
    ]
    expected = copy.deepcopy(old) | {"status": {"phase": "X"}}
    expected["metadata"]["resourceVersion"] = "7"
    assert new == expected
    cleared = copy.deepcopy(new)
    del cleared["status"], cleared["metadata"]["resourceVersion"]
    WIDGETS.prepare_update(cleared, new, subresource="status")
    assert "status" not in cleared


def test_no_finalizer_is_added_while_an_object_goes() -> None:
    """As for built-in kinds."""
    old = stored()
    old["metadata"] |= {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    new = copy.deepcopy(old)
    new["metadata"]["finalizers"].append("a.b/d")
    with pytest.raises(StatusError, match="no new finalizers can be added"):
        WIDGETS.prepare_update(new, old)


NOW = 1_704_067_200.0  # 2024-01-01T00:00:00Z
CELLS: list[tuple[str, Any, Any]] = [
    ("string", "a", "a"),
    ("string", 3, "3"),
    ("string", [1], "[1]"),
    ("integer", 3, 3),
    ("integer", 3.7, 3),
    ("integer", "3", None),
    ("integer", True, None),
    ("number", 1.5, 1.5),
    ("number", "x", None),
    ("boolean", True, True),
    ("boolean", "true", None),
    ("date", "2023-12-31T23:59:00Z", "60s"),
    ("date", "x", "<invalid>"),
    ("date", 5, None),
]


@pytest.mark.parametrize(("kind", "value", "cell"), CELLS)
def test_cells_have_the_type_of_their_column(kind: str, value: Any, cell: Any) -> None:
    """A value of another type gives an empty cell."""
    column = printer_column({"name": "X", "type": kind, "jsonPath": ".spec.x"})
    assert column.cell({"spec": {"x": value}}, NOW) == cell


def test_a_column_says_where_it_comes_from() -> None:
    """Unless its CRD describes it; a missing value or a strange path gives an empty cell."""
    column = printer_column({"name": "X", "type": "string", "jsonPath": ".spec.x", "priority": 1})
    assert column.description.endswith("(in JSONPath format): .spec.x")
    assert column.priority == 1
    assert column.cell({}, NOW) is None
    strange = printer_column(
        {"name": "X", "type": "string", "jsonPath": "..x", "description": "d", "format": "f"}
    )
    assert (strange.description, strange.format, strange.cell({"x": 1}, NOW)) == ("d", "f", None)
