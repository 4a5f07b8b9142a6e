"""CRDs: what is wrong with them, and what they make."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster import crdrules, crds
from gm.devcluster.registry import Registry
from gm.devcluster.status import StatusError

VERSION: Json = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {"status": {}},
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
            },
        }
    },
}


STATUS_TYPE = (
    'only "object" is allowed as the type at the root of the schema if the status subresource is '
    "enabled"
)


def shown(name: str, storage: str = "true") -> str:
    """A version as upstream shows it in messages."""
    return (
        f'{{"Name":"{name}","Served":true,"Storage":{storage},"Deprecated":false,'
        '"DeprecationWarning":null,"Schema":null,"Subresources":null,'
        '"AdditionalPrinterColumns":null,"SelectableFields":null}'
    )


def crd(*versions: Json, plural: str = "gears", kind: str = "Gear", **spec: Any) -> Json:
    """A CRD as it is stored, if it is valid."""
    body = {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind, "shortNames": ["g" + plural[-2]]},
        "versions": copy.deepcopy([*(versions or (VERSION,))]),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{spec.get('group', 'example.org')}"},
        "spec": {**body, **spec},
    }


def prepared(obj: Json, registry: Registry | None = None) -> list[str]:
    """Warnings of a create."""
    info = (registry or Registry()).lookup(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions"
    )
    assert info is not None
    return info.prepare_create(obj)


def told(obj: Json) -> list[str]:
    """What is wrong with a CRD."""
    with pytest.raises(StatusError) as caught:
        prepared(obj)
    assert caught.value.code == 422
    return [f"{cause.field}: {cause.message}" for cause in caught.value.causes]


def version(name: str = "v1", **more: Any) -> Json:
    """A version like ``VERSION`` but for some fields."""
    return {**copy.deepcopy(VERSION), "name": name, **more}


REFUSED: dict[str, tuple[Json, list[str]]] = {
    "name": (
        crd() | {"metadata": {"name": "x.example.org"}},
        ['metadata.name: Invalid value: "x.example.org": must be spec.names.plural+"."+spec.group'],
    ),
    "scope": (
        crd(scope="Foo"),
        ['spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"'],
    ),
    "no scope": (crd(scope=""), ["spec.scope: Required value"]),
    "no versions": (
        crd(versions=[]),
        [
            "spec.versions: Invalid value: []: must have exactly one version marked as storage "
            "version",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    ),
    "two storages": (
        crd(version(), version("v2")),
        [
            f"spec.versions: Invalid value: [{shown('v1')},{shown('v2')}]: must have exactly one "
            "version marked as storage version",
            'status.storedVersions: Invalid value: ["v1"]: must have the storage version v2',
        ],
    ),
    "same version": (
        crd(version(), version(storage=False)),
        [
            f"spec.versions: Invalid value: [{shown('v1')},{shown('v1', 'false')}]: must contain "
            "unique version names"
        ],
    ),
    "no schema": (
        crd(version(schema={})),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"],
    ),
    "schema, one version": (
        crd(version(schema={"openAPIV3Schema": {"type": "string"}})),
        [
            f'spec.validation.openAPIV3Schema.type: Invalid value: "string": {why}'
            for why in (STATUS_TYPE, "must be object at the root")
        ],
    ),
    "schema, two versions": (
        crd(
            version(), version("v2", storage=False, schema={"openAPIV3Schema": {"type": "string"}})
        ),
        [
            f'spec.versions[1].schema.openAPIV3Schema.type: Invalid value: "string": {why}'
            for why in (STATUS_TYPE, "must be object at the root")
        ],
    ),
    "column": (
        crd(version(additionalPrinterColumns=[{"name": "", "type": "foo", "jsonPath": "spec"}])),
        [
            "spec.additionalPrinterColumns[0].name: Required value",
            'spec.additionalPrinterColumns[0].type: Invalid value: "foo": must be one of '
            "boolean,date,integer,number,string",
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple '
            "json path starting with .",
        ],
    ),
    "empty column": (
        crd(version(additionalPrinterColumns=[{"name": "A"}])),
        [
            "spec.additionalPrinterColumns[0].type: Required value: must be one of "
            "boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].JSONPath: Required value",
        ],
    ),
    "protected group": (
        crd(group="x.k8s.io"),
        [
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups "
            'must have approval annotation "api-approved.kubernetes.io", see '
            "https://github.com/kubernetes/enhancements/pull/1111"
        ],
    ),
    "old way of preserving": (
        crd(preserveUnknownFields=True),
        [
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
            "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        ],
    ),
    "conversion": (
        crd(conversion={"strategy": "Webhook"}),
        ['spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None"'],
    ),
    "list kind": (
        crd(names={"plural": "gears", "kind": "Gear", "listKind": "Gear"}),
        ['spec.names.listKind: Invalid value: "Gear": kind and listKind may not be the same'],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_crd_is_refused(case: str) -> None:
    """Field and words of each rule."""
    obj, expected = REFUSED[case]
    assert told(copy.deepcopy(obj)) == expected


@pytest.mark.parametrize(
    ("names", "field"),
    [
        ({"plural": "gears", "kind": ""}, "spec.names.kind"),
        ({"plural": "gears", "kind": "G ear"}, "spec.names.kind"),
        ({"plural": "gears", "kind": "Gear", "singular": "A"}, "spec.names.singular"),
        ({"plural": "gears", "kind": "Gear", "shortNames": ["a.b"]}, "spec.names.shortNames[0]"),
    ],
)
def test_names_are_dns_labels(names: Json, field: str) -> None:
    """Kinds in any case."""
    assert any(line.startswith(field) for line in told(crd(names=names)))


def test_a_group_and_a_version_name_are_needed() -> None:
    """A CRD without group can not have the right name either."""
    assert "spec.group: Required value" in told(crd(group=""))
    assert told(crd(version("V1!")))[0].startswith("spec.versions[0].name: Invalid value")


def test_names_follow_from_the_kind() -> None:
    """Singular, list kind and conversion are filled in."""
    obj = crd()
    assert prepared(obj) == []
    assert (obj["spec"]["names"]["singular"], obj["spec"]["names"]["listKind"]) == (
        "gear",
        "GearList",
    )
    assert obj["spec"]["conversion"] == {"strategy": "None"}


def test_what_is_not_done_here_is_told() -> None:
    """CEL rules and columns that can not be read give warnings, not errors."""
    strange = version(
        additionalPrinterColumns=[{"name": "Deep", "type": "string", "jsonPath": "..x"}],
        schema={
            "openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}
        },
    )
    assert prepared(crd(strange)) == [
        "this embedded API server does not evaluate x-kubernetes-validations (version v1: .)",
        "column Deep stays empty: recursive descent is not supported: '..x'",
    ]


def change(new: Json, old: Json) -> list[str]:
    """What may not change."""
    return [f"{cause.field}: {cause.message}" for cause in crdrules.validate_change(new, old)]


def test_group_scope_and_names_stay() -> None:
    """And versions in which objects may be stored."""
    old = crd()
    old["status"] = {"storedVersions": ["v1"]}
    assert change(crd(version(), version("v2", storage=False)), old) == []
    assert change(crd(scope="Cluster"), old) == [
        'spec.scope: Invalid value: "Cluster": field is immutable'
    ]
    assert change(crd(kind="Zz"), old) == [
        'spec.names.kind: Invalid value: "Zz": field is immutable'
    ]
    assert change(crd(version("v2")), old)[0].startswith(
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previous'
    )


def test_a_crd_is_established_at_once() -> None:
    """With its accepted names; times of unchanged conditions stay."""
    obj = crd()
    prepared(obj)
    status = crds.status(obj, [])
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert status["acceptedNames"] == obj["spec"]["names"]
    assert status["storedVersions"] == ["v1"]
    for condition in status["conditions"]:
        condition["lastTransitionTime"] = "2024-01-01T00:00:00Z"
    obj["status"] = status
    obj["spec"]["versions"] = [version(storage=False), version("v2")]
    again = crds.status(obj, [])
    assert again["conditions"] == status["conditions"]
    assert again["storedVersions"] == ["v1", "v2"]
    refused = crds.status(obj, [("KindConflict", "Gear")])
    assert [c["status"] for c in refused["conditions"]] == ["False", "False"]
    assert refused["conditions"][0]["message"] == '"Gear" is already in use'
    assert refused["acceptedNames"] == status["acceptedNames"]


def made(obj: Json) -> dict[str, Any]:
    """The resources of a CRD, by version."""
    prepared(obj)
    return {info.resource.version: info for info in crds.resources(obj)}


def test_each_served_version_is_a_resource() -> None:
    """With its own columns; one that is not the storage version translates."""
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}]
    infos = made(
        crd(
            version(
                additionalPrinterColumns=columns, selectableFields=[{"jsonPath": ".spec.size"}]
            ),
            version("v2", storage=False, subresources={}, deprecated=True),
            version("v3", storage=False, served=False),
        )
    )
    assert [*infos] == ["v1", "v2"]
    one, two = infos["v1"], infos["v2"]
    assert [c.name for c in one.columns] == ["Name", "Size"]
    assert [c.name for c in two.columns] == ["Name", "Age"]
    assert one.selectable_fields == {"spec.size"}
    assert (one.subresources, two.subresources) == ({"status"}, frozenset())
    assert one.storage == two.storage == one.resource
    obj: Json = {"apiVersion": "example.org/v2", "kind": "Gear", "metadata": {"name": "g"}}
    assert two.to_storage(obj)["apiVersion"] == "example.org/v1"
    assert two.from_storage(two.to_storage(obj)) == obj
    stored = {**obj, "apiVersion": "example.org/v1"}
    assert one.to_storage(stored) is stored
    assert one.patch_schema is None
    assert (one.warning, two.warning) == ("", "example.org/v2 Gear is deprecated")


def test_a_deprecation_has_the_words_of_its_crd() -> None:
    """If it has any; otherwise it names the newest version that is not deprecated."""
    infos = made(
        crd(
            version("v1beta1", deprecated=True, deprecationWarning="use v2"),
            version("v1alpha1", storage=False, deprecated=True),
            version("v1", storage=False),
            version("v2alpha1", storage=False),
        )
    )
    assert infos["v1beta1"].warning == "use v2"
    usual = "example.org/v1alpha1 Gear is deprecated; use example.org/v1 Gear"
    assert infos["v1alpha1"].warning == usual
    assert infos["v1"].warning == infos["v2alpha1"].warning == ""


def fields(**properties: Json) -> Json:
    """The schema of a version with these fields in its spec."""
    spec = {"type": "object", "properties": properties}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


TEXT: Json = {"type": "string"}
STORED = fields(new=TEXT, both=TEXT, added={**TEXT, "default": "d"})
OLDER = fields(both=TEXT, old={"type": "integer", "default": 3})


def test_an_older_version_shows_what_it_knows_of_what_is_stored() -> None:
    """Defaults come from the version that is stored; nothing is changed."""
    infos = made(crd(version("v1", schema=STORED), version("v1beta1", storage=False, schema=OLDER)))
    spec = {"new": "x", "both": "y", "added": "z"}
    stored = {"apiVersion": "example.org/v1", "kind": "Gear", "metadata": {}, "spec": spec}
    assert infos["v1"].from_storage(stored) is stored
    seen = infos["v1beta1"].from_storage(stored)
    assert (seen["apiVersion"], seen["spec"]) == ("example.org/v1beta1", {"both": "y"})
    assert stored["spec"] == {"new": "x", "both": "y", "added": "z"}


def test_what_was_written_before_a_crd_changed_is_shown_by_its_rules_of_today() -> None:
    """Pruned, and with new defaults."""
    info = made(crd(version("v1", schema=STORED)))["v1"]
    before = {
        "apiVersion": "example.org/v1",
        "kind": "Gear",
        "metadata": {},
        "spec": {"both": "y", "gone": 1},
    }
    assert info.from_storage(before)["spec"] == {"both": "y", "added": "d"}
    assert before["spec"] == {"both": "y", "gone": 1}


def test_what_is_written_in_an_older_version_is_stored_as_the_newer_knows_it() -> None:
    """What only the older one has is lost."""
    infos = made(crd(version("v1", schema=STORED), version("v1beta1", storage=False, schema=OLDER)))
    written = {
        "apiVersion": "example.org/v1beta1",
        "kind": "Gear",
        "metadata": {},
        "spec": {"both": "y", "old": 3},
    }
    stored = infos["v1beta1"].to_storage(written)
    assert (stored["apiVersion"], stored["spec"]) == ("example.org/v1", {"both": "y"})


def test_names_that_are_taken_are_found() -> None:
    """Within the group only."""
    registry = Registry()
    first = crd()
    prepared(first)
    registry.set_crd(first)
    second = crd(plural="wheels", kind="Gear")
    prepared(second)
    assert crds.name_conflicts(second, registry.all()) == [
        ("SingularConflict", "gear"),
        ("KindConflict", "Gear"),
        ("ListKindConflict", "GearList"),
    ]
    third = crd(group="other.org")
    prepared(third)
    assert crds.name_conflicts(third, registry.all()) == []
