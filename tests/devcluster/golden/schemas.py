"""Definitions of custom resources that are taken, and that are not: schemas and all the rest."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from tests.devcluster.golden.steps import CRDS, Step, judge

__all__ = ["STEPS"]

TEXT: Json = {"type": "string"}
KEYED: Json = {"type": "object", "required": ["a"], "properties": {"a": TEXT}}


def x(**extensions: Any) -> Json:
    """Kubernetes' own words in a schema."""
    return {f"x-kubernetes-{key.replace('_', '-')}": value for key, value in extensions.items()}


def a_list(items: Any = None, **extensions: Any) -> Json:
    """An array, by default of texts."""
    return {"type": "array", "items": items or TEXT, **x(**extensions)}


# Schemas of one field; that of a whole object is around them.
FIELDS: dict[str, Json] = {
    "a default of another type": {"type": "string", "default": 5},
    "a default with unknown fields": {"type": "object", "default": {"a": 1}},
    "a default with a wrong field": {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "default": {"a": "x"},
    },
    "a default that is too small": {"type": "integer", "minimum": 5, "default": 1},
    "a default that is not allowed": {"type": "string", "enum": ["a"], "default": "b"},
    "a default of null": {"type": "string", "nullable": True, "default": None},
    "a default of null that may not be": {"type": "string", "default": None},
    "a default list": {**a_list({"type": "string", "maxLength": 1}), "default": ["aa"]},
    "two types": {"type": ["string", "integer"]},
    "the type null": {"type": "null"},
    "the type any": {"type": "any"},
    "no type": {},
    "an unknown format": {"type": "string", "format": "foo"},
    "the format of a number": {"type": "integer", "format": "int32"},
    "anything": x(preserve_unknown_fields=True),
    "not anything": {"type": "object", **x(preserve_unknown_fields=False)},
    "numbers or texts": x(int_or_string=True),
    "numbers or texts that are texts": {"type": "string", **x(int_or_string=True)},
    "numbers or texts by any of": {
        **x(int_or_string=True),
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    },
    "a map that is closed": {"type": "object", "additionalProperties": False},
    "a map that is open": {"type": "object", "additionalProperties": True},
    "a map of nothing": {"type": "object", "additionalProperties": {}},
    "a map with fields": {
        "type": "object",
        "additionalProperties": TEXT,
        "properties": {"a": TEXT},
    },
    "a reference": {"type": "string", "$ref": "#/x"},
    "definitions": {"type": "object", "definitions": {"a": TEXT}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"]}},
    "patterns of fields": {"type": "object", "patternProperties": {"a": TEXT}},
    "a field of nothing": {"type": "object", "properties": {"a": None}},
    "a field twice": {"type": "object", "required": ["a", "a"]},
    "a text for a list": {"type": "object", "required": "a"},
    "a length below zero": {"type": "string", "maxLength": -1},
    "a multiple of zero": {"type": "integer", "multipleOf": 0},
    "a bound that is a number": {"type": "integer", "minimum": 1, "exclusiveMinimum": 5},
    "an unknown word": {"type": "string", "bogus": 1},
    "an unknown word of Kubernetes": {"type": "string", **x(foo=1)},
    "words for people": {
        "type": "string",
        "example": "x",
        "externalDocs": {"url": "u"},
        "title": "t",
    },
    # lists and maps
    "unique items": {**a_list(), "uniqueItems": True},
    "items as a list": {"type": "array", "items": [TEXT]},
    "items of nothing": {"type": "array", "items": {}},
    "a map of no keys": a_list({"type": "object", "properties": {"a": TEXT}}, list_type="map"),
    "a map of keys that may be absent": a_list(
        {"type": "object", "properties": {"a": TEXT}}, list_type="map", list_map_keys=["a"]
    ),
    "a map of keys": a_list(KEYED, list_type="map", list_map_keys=["a"]),
    "a map of objects for keys": a_list(
        {**KEYED, "properties": {"a": {"type": "object"}}}, list_type="map", list_map_keys=["a"]
    ),
    "a map of unknown keys": a_list(KEYED, list_type="map", list_map_keys=["b"]),
    "a map of a key twice": a_list(KEYED, list_type="map", list_map_keys=["a", "a"]),
    "a map of texts": a_list(list_type="map", list_map_keys=["a"]),
    "keys of no map": a_list(list_map_keys=["a"]),
    "keys of a set": a_list(list_type="set", list_map_keys=["a"]),
    "a set of objects": a_list({"type": "object"}, list_type="set"),
    "a set of whole objects": a_list({"type": "object", **x(map_type="atomic")}, list_type="set"),
    "a set of nothing, too": a_list({**TEXT, "nullable": True}, list_type="set"),
    "a set that is a text": {"type": "string", **x(list_type="set")},
    "an odd map type": {"type": "object", **x(map_type="foo")},
    "a map type of a text": {"type": "string", **x(map_type="atomic")},
    # objects in objects
    "an object of nothing": {"type": "object", **x(embedded_resource=True)},
    "an object that is a text": {"type": "string", **x(embedded_resource=True)},
    "an object with metadata": {
        "type": "object",
        "properties": {"metadata": {"type": "object"}},
        **x(embedded_resource=True),
    },
    # alternatives
    "all of undeclared": {"type": "object", "allOf": [{"properties": {"a": TEXT}}]},
    "any of undeclared": {
        "type": "object",
        "properties": {"a": TEXT},
        "anyOf": [{"required": ["a"]}, {"properties": {"b": {}}}],
    },
    "not with a type": {"type": "object", "not": {"type": "object"}},
    "any of with a default": {"type": "integer", "anyOf": [{"minimum": 1, "default": 2}]},
    "any of with null": {"type": "integer", "anyOf": [{"nullable": True}]},
    "one of with a description": {"type": "integer", "oneOf": [{"description": "x"}]},
}
ROOTS: dict[str, Json] = {
    "metadata of names": {
        "properties": {"metadata": {"type": "object", "properties": {"name": TEXT}}}
    },
    "metadata of labels": {
        "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}
    },
    "metadata that are a text": {"properties": {"metadata": TEXT}},
    "a version that is a number": {"properties": {"apiVersion": {"type": "integer"}}},
    "anything": x(preserve_unknown_fields=True),
    "a map": {"additionalProperties": TEXT},
    "null": {"nullable": True},
}
SELECTABLE: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"f": TEXT, "o": {"type": "object"}, "q": x(int_or_string=True)},
        }
    },
}


def scale(**paths: str) -> Json:
    """A version with a scale."""
    return {"subresources": {"scale": paths}}


def column(**fields: Any) -> Json:
    """A version with a column."""
    return {
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a", **fields}]
    }


def selectable(*paths: str) -> Json:
    """A version with fields that selectors may name."""
    return {
        "selectableFields": [{"jsonPath": path} for path in paths],
        "schema": {"openAPIV3Schema": SELECTABLE},
    }


VERSIONS: dict[str, Json] = {
    "of an odd name": {"name": "1bad"},
    "that is not served": {"served": False},
    "that warns for nothing": {"deprecationWarning": "x"},
    "that warns without words": {"deprecated": True, "deprecationWarning": ""},
    "that warns at length": {"deprecated": True, "deprecationWarning": "x" * 300},
    "that warns in two lines": {"deprecated": True, "deprecationWarning": "a\nb"},
    "with a scale of nothing": scale(),
    "with a scale": scale(specReplicasPath=".spec.r", statusReplicasPath=".status.r"),
    "with a scale elsewhere": scale(specReplicasPath="spec.r", statusReplicasPath=".spec.r"),
    "with a scale that selects elsewhere": scale(
        specReplicasPath=".spec.r", statusReplicasPath=".status.r", labelSelectorPath=".foo"
    ),
    "with a column of no name": column(name=""),
    "with a column of no path": column(jsonPath=""),
    "with a column in braces": column(jsonPath="{.a}"),
    "with a column of an odd format": column(type="integer", format="foo"),
    "with a column": column(type="integer", format="int64", priority=1),
    "with a selectable field": selectable(".spec.f"),
    "with an unknown selectable field": selectable(".spec.zz"),
    "with a selectable field twice": selectable(".spec.f", ".spec.f"),
    "with a selectable object": selectable(".spec.o"),
    "with a selectable number or text": selectable(".spec.q"),
    "with a selectable item": selectable(".spec.f[0]"),
    "with a selectable name": selectable(".metadata.name"),
    "with a selectable nothing": selectable(""),
    "with a selectable path without a dot": selectable("spec.f"),
}
NAMES: dict[str, Json] = {
    "no plural": {"plural": ""},
    "no kind": {"kind": ""},
    "a list of its own name": {"listKind": "Foo"},
    "an odd singular": {"singular": "Foo"},
    "odd short names": {"shortNames": ["f", "F"]},
    "odd categories": {"categories": ["all", "Bad_"]},
}
SPECS: dict[str, Json] = {
    "no group": {"group": ""},
    "a group without a dot": {"group": "nodots"},
    "an odd group": {"group": "Bad_.io"},
    "no scope": {"scope": None},
    "unknown fields kept": {"preserveUnknownFields": True},
    "unknown fields not kept": {"preserveUnknownFields": False},
    "an odd conversion": {"conversion": {"strategy": "Foo"}},
    "a webhook that is not asked": {
        "conversion": {
            "strategy": "None",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}},
        }
    },
    "conversion by webhook": {
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x/y"}},
        }
    },
}


def definition(version: Json | None = None, names: Json | None = None, **spec: Any) -> Json:
    """A definition that is good but for what is said here."""
    whole: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
        **(version or {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.$group"},
        "spec": {
            "group": "$group",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo", **(names or {})},
            "versions": [whole],
            **spec,
        },
    }


def schema(**root: Any) -> Json:
    """A version with a schema."""
    return {"schema": {"openAPIV3Schema": {"type": "object", **root}}}


def field(of: Json) -> Json:
    """A version with a schema of one field."""
    return schema(properties={"spec": {"type": "object", "properties": {"f": of}}})


STEPS: tuple[Step, ...] = (
    *(
        judge(f"a schema with {name}", CRDS, definition(field(of)), "spec.versions.0.schema")
        for name, of in FIELDS.items()
    ),
    *(
        judge(f"a schema of {name}", CRDS, definition(schema(**root)), "spec.versions.0.schema")
        for name, root in ROOTS.items()
    ),
    *(
        judge(
            f"a version {name}",
            CRDS,
            definition(version),
            *(f"spec.versions.0.{f}" for f in version),
        )
        for name, version in VERSIONS.items()
    ),
    *(
        judge(f"names with {name}", CRDS, definition(names=names), "spec.names")
        for name, names in NAMES.items()
    ),
    *(
        judge(f"a definition with {name}", CRDS, definition(**spec), *(f"spec.{f}" for f in spec))
        for name, spec in SPECS.items()
    ),
)
