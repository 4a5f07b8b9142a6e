"""Custom resources with values of all kinds, right and wrong; older versions of a kind."""

from __future__ import annotations

from typing import Any

from gm.api.meta import Json
from tests.devcluster.golden.objects import CRD
from tests.devcluster.golden.steps import CRDS, Step, get, judge, patch, post

__all__ = ["STEPS"]

UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
# What has the format, and what has not.
FORMATS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "byte": (("YQ==",), ("??", "YQ", "")),
    "cidr": (("1.2.3.0/24", "::/0", "1.2.3.4/8"), ("1.2.3.4", "1.2.3.4/33")),
    "date": (("2020-01-01",), ("2020-13-01", "20200101")),
    "date-time": (
        ("2020-01-01T00:00:00Z", "2020-01-01t00:00:00z", "2020-01-01T00:00:00+01:00"),
        ("2020-01-01T00:00:00", "2020-02-30T00:00:00Z", "2020-01-01 00:00:00Z"),
    ),
    "duration": (("5s", "1h30m", "1 week", "-5s", "1.5h", "0"), ("5 parsecs", "5", "")),
    "email": (("a@b", "A <a@b.c>"), ("nobody", "a b@c.d", "@b")),
    "foo": (("anything",), ()),
    "hostname": (("a", "example.com"), ("A_b", "-a", "a..b", "1.2.3.4", "")),
    "ipv4": (("1.2.3.4",), ("1.2.3", "::1")),
    "ipv6": (("::1", "::ffff:1.2.3.4"), ("1.2.3.4", "fe80::1%eth0")),
    "mac": (("01:02:03:04:05:06", "0102.0304.0506"), ("xx",)),
    "password": (("",), ()),
    "uri": (("http://x", "/a", "mailto:a@b", "urn:a:b"), ("x", "no uri", "http://x y", "")),
    "uuid": ((UUID, UUID.replace("-", "").upper()), ("zz", UUID[:-1])),
    "uuid3": ((UUID.replace("-11d1", "-31d1"),), (UUID,)),
    "uuid4": ((UUID.replace("-11d1", "-41d1"),), (UUID,)),
    "uuid5": ((UUID.replace("-11d1", "-51d1"),), (UUID,)),
}


def x(**extensions: Any) -> Json:
    """Kubernetes' own words in a schema."""
    return {f"x-kubernetes-{key.replace('_', '-')}": value for key, value in extensions.items()}


FIELDS: Json = {
    **{name.replace("-", ""): {"type": "string", "format": name} for name in FORMATS},
    "short": {"type": "string", "maxLength": 1},
    "few": {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
    "pod": {"type": "object", **x(embedded_resource=True, preserve_unknown_fields=True)},
    "set": {"type": "array", "items": {"type": "string"}, **x(list_type="set")},
    "one": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"enum": ["y"]}}}],
    },
    "all": {"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 3}]},
    "any": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "string"}},
        "anyOf": [
            {"required": ["a"], "properties": {"a": {"minimum": 5}}},
            {"required": ["b"], "properties": {"b": {"maxLength": 2}, "c": {"enum": ["x"]}}},
        ],
    },
    "not": {"type": "integer", "not": {"minimum": 5}},
    "both": {
        "type": "integer",
        "allOf": [
            {"anyOf": [{"minimum": 10}, {"maximum": 2}]},
            {"oneOf": [{"multipleOf": 5}, {"multipleOf": 7}]},
        ],
    },
    "each": {
        "type": "array",
        "items": {"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": 2}]},
    },
}
FREE: Json = {"type": "object", **x(preserve_unknown_fields=True)}
KIND: Json = {
    **CRD,
    "metadata": {"name": "shapes.$group"},
    "spec": {
        **CRD["spec"],
        "names": {"plural": "shapes", "singular": "shape", "kind": "Shape"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": ".spec.short"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {**FIELDS, "n": {"type": "integer", "default": 7}},
                            }
                        },
                    }
                },
            },
            {
                "name": "v1beta1",
                "served": True,
                "storage": False,
                "deprecated": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": FREE}}},
            },
            {
                "name": "v1alpha1",
                "served": True,
                "storage": False,
                "deprecated": True,
                "deprecationWarning": "no more",
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": FREE}}},
            },
        ],
    },
}


def shape(version: str = "v1", name: str = "s", **spec: Any) -> Json:
    """A Shape."""
    return {
        "apiVersion": f"$group/{version}",
        "kind": "Shape",
        "metadata": {"name": name},
        "spec": spec,
    }


def inner(**fields: Any) -> Json:
    """A Shape with an object in it."""
    return {"pod": {"apiVersion": "v1", "kind": "Pod", **fields}}


SPECS: dict[str, Json] = {
    "a text of two letters": {"short": "ab"},
    "two items": {"few": [1, 2]},
    "an item twice": {"set": ["a", "a"]},
    "neither of two": {"one": {}},
    "both of two": {"one": {"a": "x", "b": "y"}},
    "one of two": {"one": {"a": "x"}},
    "the wrong one of two": {"one": {"b": "x"}},
    "none of all": {"all": 4},
    "one of all": {"all": 6},
    "neither of any": {"any": {}},
    "the wrong one of any": {"any": {"a": 1}},
    "what comes near to one of any": {"any": {"a": 1, "b": "yyy", "c": "x"}},
    "what must not be": {"not": 7},
    "alternatives within all": {"both": 5},
    "all alternatives within all": {"both": 35},
    "no alternative within all": {"both": 1},
    "two wrong items": {"each": [1, 5, 6, 10]},
    "an object": inner(metadata={"name": "Bad_", "labels": {"a": "b"}}, spec={"any": 1}),
    "an object of no kind": {"pod": {}},
    "an object of an odd kind": {"pod": {"apiVersion": "v1", "kind": "Pod_"}},
    "an object of an odd version": {"pod": {"apiVersion": "a/b/c", "kind": "Pod"}},
    "an object with a number for a version": {"pod": {"apiVersion": 5, "kind": "Pod"}},
    "an object with a number for a label": inner(metadata={"labels": {"a": 1}}),
    "an object with a text for metadata": inner(metadata="x"),
    "an object with an odd label": inner(metadata={"labels": {"a b": "c"}}),
    "an object with unknown metadata": inner(metadata={"bogus": 1}),
}


def at(version: str) -> str:
    """Where Shapes of a version are."""
    return f"/apis/$group/{version}/namespaces/$ns/shapes"


STEPS: tuple[Step, ...] = (
    post("a kind of many shapes", CRDS, KIND, pick=lambda body: None, serves=at("v1beta1")),
    *(
        judge(
            f"{value!r} is {'a' if is_right else 'no'} {name}",
            at("v1"),
            shape(**{name.replace("-", ""): value}),
        )
        for name, (right, wrong) in FORMATS.items()
        for is_right, values in ((True, right), (False, wrong))
        for value in values
    ),
    *(
        judge(f"a shape with {name}", at("v1"), shape(**spec), "spec.pod")
        for name, spec in SPECS.items()
    ),
    # versions with rules of their own
    post("a shape of an older version", at("v1beta1"), shape("v1beta1", "old", free={"thing": 1})),
    get("an older shape by the newer version", f"{at('v1')}/old"),
    get("an older shape by the older version", f"{at('v1beta1')}/old"),
    get("an older shape by the oldest version", f"{at('v1alpha1')}/old"),
    get("no such shape of an older version", f"{at('v1beta1')}/zz"),
    get("shapes of an older version", at("v1beta1")),
    get("shapes by a field", at("v1"), query={"fieldSelector": "spec.short=a"}),
    get(
        "shapes by a field of another version",
        at("v1beta1"),
        query={"fieldSelector": "spec.short=a"},
    ),
    patch("a change by the newer version", f"{at('v1')}/old", {"metadata": {"labels": {"a": "b"}}}),
    get("what is left of an older shape", f"{at('v1beta1')}/old"),
    get("versions of shapes", "/apis/$group"),
)
