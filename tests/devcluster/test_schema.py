"""Schemas: pruning, defaults, the form of built-in kinds, patch hints."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.api.meta import Json
from gm.devcluster.definitions import definitions
from gm.devcluster.schema import (
    Schema,
    TypeMismatch,
    apply_defaults,
    check_types,
    normalise,
    prune,
)

POD = Schema({"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod"}, definitions())
CRD = Schema(
    {
        "$ref": "#/components/schemas/io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
        "CustomResourceDefinition"
    },
    definitions(),
)


def custom(**properties: Any) -> Schema:
    """A custom object's schema."""
    return Schema({"type": "object", "properties": properties}, definitions(), is_custom=True)


def pruned(schema: Schema, value: Json) -> tuple[Json, list[str]]:
    """What pruning leaves, and what it tells."""
    unknown: list[str] = []
    prune(schema, value, unknown=unknown)
    return value, unknown


def test_patch_hints_are_found_through_references() -> None:
    """Merge keys and strategies of lists, as strategic merge patches need them."""
    containers = POD.child("spec").child("containers")  # type: ignore[union-attr]
    assert containers is not None
    assert (containers.patch_merge_key, containers.patch_strategy) == ("name", "merge")
    assert containers.items is not None
    assert containers.items.struct == "Container"
    ports = containers.items.child("ports")
    assert ports is not None
    assert ports.patch_merge_key == "containerPort"
    assert POD.child("nonsense") is None


def test_a_schema_may_contain_itself() -> None:
    """That of CRDs does; nodes are made on demand."""
    node: Schema | None = CRD
    for field in ("spec", "versions"):
        assert node is not None
        node = node.child(field)
    assert node is not None
    node = node.items
    for field in ("schema", "openAPIV3Schema", *["properties", "deeper"] * 20):
        assert node is not None
        node = node.child(field)
    assert node is not None
    assert node.struct == "JSONSchemaProps"


def test_unknown_fields_are_pruned_and_named() -> None:
    """In objects, in lists, at any depth; maps and free-form values are left alone."""
    pod = {
        "kind": "Pod",
        "extra": 1,
        "metadata": {"name": "p", "labels": {"any": "thing"}},
        "spec": {"containers": [{"name": "c", "bogus": {}}]},
    }
    left, unknown = pruned(POD, pod)
    assert unknown == ["extra", "spec.containers[0].bogus"]
    assert left == {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"any": "thing"}},
        "spec": {"containers": [{"name": "c"}]},
    }


def test_custom_objects_keep_what_the_schema_says() -> None:
    """preserve-unknown-fields keeps all, but prunes what is declared below it."""
    schema = custom(
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True,
              "properties": {"known": {"type": "object"}}},
        empty={"type": "object"},
        some={"type": "object", "additionalProperties": True},
        none={"type": "object", "additionalProperties": False},
        either={"x-kubernetes-int-or-string": True},
    )  # fmt: skip
    value = {
        "free": {"a": {"b": 1}, "known": {"c": 1}},
        "empty": {"x": 1},
        "some": {"x": 1},
        "none": {"x": 1},
        "either": "5%",
    }
    left, unknown = pruned(schema, value)
    assert unknown == ["free.known.c", "empty.x", "none.x"]
    assert left == {
        "free": {"a": {"b": 1}, "known": {}},
        "empty": {},
        "some": {"x": 1},
        "none": {},
        "either": "5%",
    }


def test_embedded_objects_have_metadata() -> None:
    """Identity is declared by the server, and its metadata is that of all objects."""
    schema = custom(e={"type": "object", "x-kubernetes-embedded-resource": True,
                       "properties": {"spec": {"type": "object"}}})  # fmt: skip
    value = {"e": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "bogus": 1}, "z": 1}}
    left, unknown = pruned(schema, value)
    assert unknown == ["e.metadata.bogus", "e.z"]
    assert left == {"e": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}}}


def test_defaults_fill_what_is_absent_and_replace_null() -> None:
    """Also below a default; a nullable null stays."""
    schema = custom(
        a={"type": "string", "default": "x"},
        o={"type": "object", "default": {}, "properties": {"i": {"type": "integer", "default": 1}}},
        l={"type": "array", "items": {"type": "object", "properties": {"k": {"default": 2}}}},
        n={"type": "string", "nullable": True, "default": "d"},
        p={"type": "string"},
        m={"type": "object", "additionalProperties": {"type": "integer"}},
    )
    value = {"a": None, "l": [{}, {"k": 3}], "n": None, "p": None, "m": {"z": None, "y": 1}}
    apply_defaults(schema, value)
    assert value == {
        "a": "x",
        "o": {"i": 1},
        "l": [{"k": 2}, {"k": 3}],
        "n": None,
        "m": {"y": 1},
    }
    other: Json = {"o": {"i": 7}, "l": "not a list"}
    apply_defaults(schema, other)
    assert other == {"a": "x", "o": {"i": 7}, "l": "not a list", "n": "d"}


def test_a_default_is_copied() -> None:
    """Objects must not share parts with the schema."""
    schema = custom(o={"type": "object", "default": {"l": []}})
    one: Json = {}
    two: Json = {}
    apply_defaults(schema, one)
    one["o"]["l"].append(1)
    apply_defaults(schema, two)
    assert two == {"o": {"l": []}}


def test_built_in_objects_get_go_s_form() -> None:
    """Nulls and empty lists go, structs that Go always writes come, spellings are unified."""
    pod: Json = {
        "metadata": {"name": "p", "labels": {}, "annotations": None, "finalizers": []},
        "spec": {
            "nodeSelector": {"a": None},
            "containers": [
                {
                    "name": "c",
                    "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}},
                    "env": [],
                    "securityContext": {},
                }
            ],
        },
        "status": {"startTime": "2024-01-01T01:00:00.5+01:00"},
    }
    normalise(POD, pod)
    assert pod == {
        "metadata": {"name": "p"},
        "spec": {
            "nodeSelector": {"a": ""},
            "containers": [
                {
                    "name": "c",
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                    "securityContext": {},
                }
            ],
        },
        "status": {"startTime": "2024-01-01T00:00:00Z"},
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["metadata", "spec", "containers", "name", "labels", "env", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).filter(lambda value: isinstance(value, dict))
)
def test_the_form_of_an_object_is_a_fixed_point(value: Json) -> None:
    """An object as answered and sent back does not change: no-op writes stay no-ops."""
    prune(POD, value, unknown=[])
    try:
        check_types(POD, value)
    except TypeMismatch:
        return
    normalise(POD, value)
    again = copy.deepcopy(value)
    normalise(POD, again)
    assert again == value


REFUSED: dict[str, tuple[Json, str]] = {
    "text for bool": (
        {"spec": {"hostNetwork": "true"}},
        "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
    ),
    "text for list": (
        {"spec": {"containers": "x"}},
        "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type "
        "[]v1.Container",
    ),
    "number for label": (
        {"metadata": {"labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type "
        "string",
    ),
    "list for struct": (
        {"metadata": []},
        "json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta",
    ),
    "object for text": (
        {"spec": {"nodeName": {}}},
        "json: cannot unmarshal object into Go struct field PodSpec.spec.nodeName of type string",
    ),
    "fraction for integer": (
        {"spec": {"priority": 1.5}},
        "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type "
        "int32",
    ),
    "bool for map": (
        {"spec": {"nodeSelector": True}},
        "json: cannot unmarshal bool into Go struct field PodSpec.spec.nodeSelector of type "
        "map[string]string",
    ),
    "no quantity": (
        {"spec": {"overhead": {"cpu": "x"}}},
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "no time": (
        {"status": {"startTime": "yesterday"}},
        'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as '
        '"2006"',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_types_are_refused_in_go_s_words(case: str) -> None:
    """With field and type."""
    value, words = REFUSED[case]
    with pytest.raises(TypeMismatch) as caught:
        check_types(POD, value)
    assert str(caught.value) == words


def test_nulls_and_either_or_types_fit() -> None:
    """Null fits everything; quantities and ports may be numbers or texts."""
    check_types(POD, {"spec": None, "metadata": {"labels": {"a": None}}})
    probe = {"httpGet": {"port": 80}}
    resources = {"limits": {"cpu": 1, "memory": "1Gi"}}
    container = {"name": "c", "livenessProbe": probe, "resources": resources}
    check_types(
        POD, {"spec": {"containers": [container, {"livenessProbe": {"httpGet": {"port": "a"}}}]}}
    )


@pytest.mark.parametrize(
    ("text", "at"), [("?", 0), ("abc", 0), ("YWJjZ", 4), ("YW?j", 2), ("YQ==", None), ("", None)]
)
def test_base64_is_checked(text: str, at: int | None) -> None:
    """Secrets' data; the position is told."""
    secret = Schema({"$ref": "#/components/schemas/io.k8s.api.core.v1.Secret"}, definitions())
    if at is None:
        check_types(secret, {"data": {"k": text}})
        return
    with pytest.raises(TypeMismatch, match=f"illegal base64 data at input byte {at}$"):
        check_types(secret, {"data": {"k": text}})


def test_microseconds_are_asked_for_and_kept() -> None:
    """Leases are written to the microsecond; whole seconds are refused, as by Go."""
    lease = Schema({"$ref": "#/components/schemas/io.k8s.api.coordination.v1.Lease"}, definitions())
    value = {"spec": {"renewTime": "2024-01-01T00:00:00.100000Z"}}
    check_types(lease, value)
    normalise(lease, value)
    assert value["spec"]["renewTime"] == "2024-01-01T00:00:00.100000Z"
    with pytest.raises(TypeMismatch, match=r"05\.000000Z07:00"):
        check_types(lease, {"spec": {"renewTime": "2024-01-01T00:00:00Z"}})
