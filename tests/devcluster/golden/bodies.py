"""Bodies of all kinds: what can not be read, and what says something else than its URL."""

from __future__ import annotations

import msgspec

from tests.devcluster.golden.objects import core, widget
from tests.devcluster.golden.steps import CORE, WIDGETS, Step, post

__all__ = ["STEPS"]

HEAD = "apiVersion: v1\nkind: ConfigMap\n"
YAML: dict[str, str] = {
    "yaml, keys that are no text": f"{HEAD}metadata: {{name: y1}}\ndata: {{2: a, true: b}}\n",
    "yaml, a key that is nothing": f"{HEAD}metadata: {{name: y2}}\ndata: {{null: a}}\n",
    "yaml, infinity": f"{HEAD}metadata: {{name: y3}}\ndata: {{a: .inf}}\n",
    "yaml, base64": f"{HEAD}metadata: {{name: y4}}\ndata: {{a: !!binary aGVsbG8=}}\n",
    "yaml, a set": f"{HEAD}metadata: {{name: y5}}\ndata: !!set {{a, b}}\n",
    "yaml, an alias": f"{HEAD}x: &x {{a: b}}\nmetadata: {{name: y6}}\ndata: {{<<: *x, c: d}}\n",
    "yaml, what contains itself": f"{HEAD}metadata: {{name: y7}}\nzz: &a [*a]\n",
    "yaml, a tag of Python's": f"{HEAD}metadata: {{name: y8}}\ndata: !!python/tuple {{}}\n",
    "yaml, two documents": f"{HEAD}metadata: {{name: y9}}\n---\n{HEAD}metadata: {{name: y10}}\n",
    "yaml, base 60": f'{HEAD}metadata: {{name: y11}}\ndata: {{a: 22:22, b: "0o17"}}\n',
    "yaml, a date": f"{HEAD}metadata: {{name: y12}}\ndata: {{a: 2020-01-01}}\n",
    "yaml, a number for a text": f"{HEAD}metadata: {{name: y13}}\ndata: {{a: 017}}\n",
    "yaml, nothing": "",
    "yaml, null": "null",
    "yaml, a text": "hello",
    "yaml, an open quote": f"{HEAD}metadata: {{name: 'y\n",
    "yaml, a tab": "a:\n\t- b\n",
    "yaml, a colon too much": "a: b: c\n",
}


STEPS: tuple[Step, ...] = (
    post("no JSON", WIDGETS, b"{bad"),
    post("half of a JSON", WIDGETS, b'{"apiVersion":"$group/v1","kind":"Widget"'),
    post("no body", WIDGETS, b""),
    post("a list for a body", WIDGETS, b"[]"),
    post("an empty object for a body", WIDGETS, {}),
    post("a body without apiVersion", WIDGETS, {"kind": "Widget"}),
    post("unknown content type", WIDGETS, widget("b"), content_type="application/x-foo"),
    post("wrong kind", WIDGETS, {**widget("b"), "kind": "Wrong"}),
    post("wrong version", WIDGETS, {**widget("b"), "apiVersion": "$group/v7"}),
    post("wrong kind for a built-in", f"{CORE}/configmaps", core("Secret", "b")),
    post("no JSON for a built-in", f"{CORE}/configmaps", b"{bad"),
    post("bad name", WIDGETS, widget("Bad_Name")),
    post("bad label and wrong type", WIDGETS, widget("b", "x", labels={"a b": "c"})),
    post("bad label value", WIDGETS, widget("b", labels={"a": "b c"})),
    post("bad annotation key", WIDGETS, widget("b", annotations={"a b": "c"})),
    post("bad owner", WIDGETS, widget("b", ownerReferences=[{"name": "x"}])),
    post("bad finalizer", WIDGETS, widget("b", finalizers=["a b"])),
    post("number for a label", WIDGETS, widget("b", labels={"a": 1})),
    post("too small", WIDGETS, widget("b", 0)),
    post("required field is missing", WIDGETS, {**widget("b"), "spec": {}}),
    post("null for a required field", WIDGETS, widget("b", None)),
    post(
        "unknown field, Warn",
        WIDGETS,
        widget("warn", spec={"bogus": 1}),
        query={"fieldValidation": "Warn"},
    ),
    post("unknown field, by default", WIDGETS, widget("ign", spec={"bogus": 1})),
    post(
        "unknown field, Strict",
        WIDGETS,
        widget("strict", spec={"bogus": 1}),
        query={"fieldValidation": "Strict"},
    ),
    post(
        "unknown field, Ignore",
        WIDGETS,
        widget("quiet", spec={"bogus": 1}),
        query={"fieldValidation": "Ignore", "dryRun": "All"},
    ),
    post(
        "repeated field, Strict",
        WIDGETS,
        b'{"apiVersion":"$group/v1","kind":"Widget","metadata":{"name":"r"},"spec":{"size":1,"size":2}}',
        query={"fieldValidation": "Strict"},
    ),
    post("odd field validation", WIDGETS, widget("b"), query={"fieldValidation": "Foo"}),
    post("odd dry run", WIDGETS, widget("b"), query={"dryRun": "Foo"}),
    post(
        "yaml",
        WIDGETS,
        b"apiVersion: $group/v1\nkind: Widget\nmetadata: {name: y}\nspec: {size: 3}\n",
        content_type="application/yaml",
    ),
    post("no yaml", WIDGETS, b"a: [", content_type="application/yaml"),
    *(
        post(name, f"{CORE}/configmaps", text.encode(), content_type="application/yaml")
        for name, text in YAML.items()
    ),
    *(
        post(
            f"a number: {number}",
            WIDGETS,
            msgspec.json.encode(widget("n", "NUMBER")).replace(b'"NUMBER"', number.encode()),
            query={"dryRun": "All"},
        )
        for number in ("9" * 40, "1e999", "1.5", "2.0", "-0", "1e2")
    ),
)
