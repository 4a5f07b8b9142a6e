"""Rules for names, labels and other metadata; the words are those of a real server."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.metadata import (
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid_value,
    required,
    service_name,
    unsupported,
    validate_metadata,
    validate_update,
)


def problems(namespaced: bool = False, **meta: Any) -> list[str]:
    """What is said of an object's metadata, as ``FIELD: MESSAGE``."""
    causes = validate_metadata({"name": "a", **meta}, namespaced=namespaced, name_rule=dns_label)
    return [f"{cause.field}: {cause.message}" for cause in causes]


def test_good_metadata_has_no_problems() -> None:
    """Qualified keys, empty values, standard finalizers."""
    assert not problems(
        namespaced=True,
        namespace="n",
        labels={"a": "", "example.com/b_c": "x.y-z", "d": None},
        annotations={"Example.com/Any": "thing at all", "x": None},
        finalizers=["orphan", "foregroundDeletion", "example.com/f"],
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
    )


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (
            dns_subdomain,
            ["a", "a.b-c", "1", "a" * 253],
            ["A", "-a", "a-", "a..b", "a_b", "a" * 254],
        ),
        (dns_label, ["a", "1-a", "a" * 63], ["a.b", "A", "a-", "a" * 64]),
        (service_name, ["a", "a-1"], ["1a", "a.b", "A", "a" * 64]),
    ],
)
def test_names_follow_their_rule(rule: Any, good: list[str], bad: list[str]) -> None:
    """DNS-1123 subdomains and labels, DNS-1035 labels."""
    assert not [name for name in good if rule(name)]
    assert not [name for name in bad if not rule(name)]


LABELS = {
    "a/b/c": "a qualified name must consist of",
    "/c": "prefix part must be non-empty",
    "A_b/c": "prefix part a lowercase RFC 1123 subdomain",
    "x/": "name part must be non-empty",
    "x" * 64: "name part must be no more than 63 characters",
    "a b": "name part must consist of",
}


@pytest.mark.parametrize("key", LABELS)
def test_bad_label_keys_are_told(key: str) -> None:
    """What is wrong with prefix or name."""
    assert problems(labels={key: "v"})[0].startswith(
        f'metadata.labels: Invalid value: "{key}": {LABELS[key]}'
    )


def test_bad_values_are_told() -> None:
    """Labels have values of 63 plain characters, annotations any up to 256 KiB."""
    assert "must be no more than 63 characters" in problems(labels={"a": "x" * 64})[0]
    assert "a valid label must be an empty string or consist of" in problems(labels={"a": "-"})[0]
    assert problems(annotations={"a b": ""})[0].startswith("metadata.annotations: Invalid value")
    assert problems(annotations={"a": "x" * 262144}) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


def test_a_name_and_a_namespace_are_needed() -> None:
    """With generateName the name is there by now."""
    assert problems(namespaced=True, name="") == [
        "metadata.name: Required value: name or generateName is required",
        "metadata.namespace: Required value",
    ]
    assert "RFC 1123 label" in problems(name="A")[0]


def test_owners_are_complete_and_only_one_controls() -> None:
    """An owner reference names a version, a kind, a name and a uid."""
    assert problems(ownerReferences=[{"kind": "X"}]) == [
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        'metadata.ownerReferences.name: Invalid value: "": must not be empty',
        'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1", "controller": True}
    told = problems(ownerReferences=[owner, {**owner, "name": "y"}])
    assert told[0].endswith('Found "true" in references for Pod/x and Pod/y')


def test_finalizers_are_qualified() -> None:
    """Or of the two standard ones."""
    assert "neither a standard finalizer name" in problems(finalizers=["foo"])[0]
    assert "prefix part" in problems(finalizers=["a b/c"])[0]


def test_no_finalizer_is_added_while_an_object_goes() -> None:
    """Removing one is what it waits for."""
    old: Json = {"finalizers": ["x.io/f"], "deletionTimestamp": "2024-01-01T00:00:00Z"}
    assert validate_update({"finalizers": []}, old) == []
    told = validate_update({"finalizers": ["x.io/f", "y.io/g"]}, old)
    assert told[0].message == (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new "
        'finalizers []string{"y.io/g"}'
    )
    assert validate_update({"finalizers": ["y.io/g"]}, {}) == []


def test_causes_are_worded_as_the_server_words_them() -> None:
    """Reason and message of each kind of cause."""
    causes = [
        invalid_value("f", {"a": 1}, "why"),
        required("f"),
        required("f", "why"),
        unsupported("f", "x", ["b", "a"]),
        duplicate("f", "x"),
        forbidden("f", "why"),
    ]
    assert [(cause.reason, cause.message) for cause in causes] == [
        ("FieldValueInvalid", 'Invalid value: {"a":1}: why'),
        ("FieldValueRequired", "Required value"),
        ("FieldValueRequired", "Required value: why"),
        ("FieldValueNotSupported", 'Unsupported value: "x": supported values: "b", "a"'),
        ("FieldValueDuplicate", 'Duplicate value: "x"'),
        ("FieldValueForbidden", "Forbidden: why"),
    ]
