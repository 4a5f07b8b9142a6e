"""Whether an object is what its URL says."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json, ObjectKey
from gm.devcluster import identity
from gm.devcluster.info import ResourceInfo
from gm.devcluster.status import StatusError
from tests.devcluster.core import plain

API = plain()
CONFIG_MAPS, WIDGETS, NODES = (
    API.info(name) for name in ("configmaps", "widgets.example.com", "nodes")
)
KEY = ObjectKey("ns", "n")


def _refused(call: Any, *arguments: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as caught:
        call(*arguments)
    return caught.value.code, caught.value.message


def test_a_silent_object_is_of_the_kind_of_its_url() -> None:
    """Kind and version are filled in."""
    obj: Json = {}
    identity.check_kind(CONFIG_MAPS, obj)
    assert obj == {"kind": "ConfigMap", "apiVersion": "v1"}


@pytest.mark.parametrize(
    ("info", "kind", "version", "code", "message"),
    [
        (CONFIG_MAPS, "Pod", "v1", 400, "converting (v1.Pod) to (core.ConfigMap): unknown conv"),
        (CONFIG_MAPS, "ConfigMap", "v2", 400, 'no kind "ConfigMap" is registered for version "v2"'),
        (WIDGETS, "Widget", "example.com/v9", 400, "does not match the expected API version"),
        (WIDGETS, "List", "v1", 400, "the API version in the data (v1) does not match"),
        (WIDGETS, "Wrong", "example.com/v1", 422, 'kind: Invalid value: "Wrong": must be Widget'),
    ],
)
def test_another_kind(info: ResourceInfo, kind: str, version: str, code: int, message: str) -> None:
    """Built-in and custom kinds are refused in different words."""
    refused = _refused(identity.check_kind, info, {"kind": kind, "apiVersion": version})
    assert refused[0] == code
    assert message in refused[1]


def test_a_new_object_lies_where_the_url_says() -> None:
    """Cluster-scoped kinds nowhere."""
    meta: Json = {}
    identity.set_namespace(CONFIG_MAPS, meta, "ns")
    assert meta == {"namespace": "ns"}
    identity.set_namespace(NODES, meta, "")
    assert meta == {}
    assert _refused(identity.set_namespace, CONFIG_MAPS, {}, "")[0] == 400
    assert _refused(identity.set_namespace, CONFIG_MAPS, {"namespace": "x"}, "ns")[0] == 400


def test_names_are_those_of_the_url() -> None:
    """The namespace may be left out, the name may not."""
    identity.check_names(CONFIG_MAPS, {"name": "n"}, KEY)
    identity.check_names(NODES, {"name": "n", "namespace": "x"}, ObjectKey("", "n"))
    for meta in ({}, {"name": "x"}, {"name": "n", "namespace": "x"}):
        assert _refused(identity.check_names, CONFIG_MAPS, meta, KEY)[0] == 400


def test_metadata_is_an_object() -> None:
    """Made if there is none."""
    obj: Json = {"metadata": None}
    assert identity.metadata_of(CONFIG_MAPS, obj) is obj["metadata"]
    for info, into in (
        (CONFIG_MAPS, "Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        (WIDGETS, "Go value of type v1.ObjectMeta"),
    ):
        code, told = _refused(identity.metadata_of, info, {"metadata": []})
        assert code == 400
        assert told.endswith(f"json: cannot unmarshal array into {into}")


@pytest.mark.parametrize("info", [CONFIG_MAPS, WIDGETS])
@pytest.mark.parametrize("field", ["kind", "apiVersion"])
def test_a_patch_leaves_kind_and_version_texts(info: ResourceInfo, field: str) -> None:
    """422 that shows what would come of it."""
    code, told = _refused(identity.check_patched, info, {field: [1]})
    assert code == 422
    assert told.endswith(f"cannot unmarshal array into Go struct field .{field} of type string")


def test_a_bad_patch_shows_what_it_led_to() -> None:
    """Quoted, whether encoded already or not."""
    for shown in ({"a": 1}, b'{"a":1}'):
        error = identity.bad_patch(shown, "why")
        assert error.message == (r""" "" is invalid: patch: Invalid value: "{\"a\":1}": why""")
