"""YAML bodies, good, odd and hostile; expectations are those of a real kube-apiserver."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gm.devcluster.yamlbody import YamlProblem, decode

LEVELS = b"".join(
    b"k%d: &%c [%s]\n" % (n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(8)
)
BOMB = b"a: &a [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n" + LEVELS


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("null", None),
        ("hello", "hello"),
        ("a: 1", {"a": 1}),
        ("{2: a, true: b, 1.5: c}", {"2": "a", "true": "b", "1.5": "c"}),
        ("a: y", {"a": True}),
        ("a: 2020-01-01", {"a": "2020-01-01"}),
        ("a: 22:22", {"a": "22:22"}),
        ("a: 1:30.5", {"a": "1:30.5"}),
        ("a: 0x10", {"a": 16}),
        ("a: 1.5", {"a": 1.5}),
        ("a: !!binary aGVsbG8=", {"a": "hello"}),
        ("a: !!set {b, c}", {"a": {"b": None, "c": None}}),
        ("a: !!python/object/apply:os.system [id]", {"a": ["id"]}),
        ("a: !what {b: 1}", {"a": {"b": 1}}),
        ("a: !what 1", {"a": "1"}),
        ("x: &x {a: b}\nz: {<<: *x, c: d}", {"x": {"a": "b"}, "z": {"a": "b", "c": "d"}}),
        ("x: &x [1]\nz: *x", {"x": [1], "z": [1]}),
        ("a: 1\n---\na: 2", {"a": 1}),
    ],
)
def test_yaml_becomes_json(text: str, value: Any) -> None:
    """Texts for keys, no types of Python's, and the first document only."""
    assert decode(text.encode()) == (value, [])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"a: [", "yaml: line 1: did not find expected node content"),
        (b"a: .inf", r"json: unsupported value: \+Inf"),
        (b"a: -.inf", "json: unsupported value: -Inf"),
        (b"a: .nan", "json: unsupported value: NaN"),
        (b"{null: a}", "unsupported map key"),
        (b"? [a]\n: b", "yaml: "),
        (b"a: \x00", "yaml: "),
        (b'a: "\\ud800"', "yaml: found invalid Unicode character escape code"),
        (b"a: !!binary x", "invalid base64"),
        (b"a: " + b"9" * 5000, "yaml: "),
        (b"a: &a [*a]", "contains itself"),
        (b"[" * 500 + b"]" * 500, "exceeded max depth"),
        (b"[" * 5000 + b"]" * 5000, "exceeded maximum nesting depth"),
        (BOMB, "excessive aliasing"),
    ],
)
def test_what_is_no_yaml_is_refused_at_once(body: bytes, problem: str) -> None:
    """With the reason, and without the objects that it would become."""
    began = time.process_time()
    with pytest.raises(YamlProblem, match=problem):
        decode(body)
    assert time.process_time() - began < 1


def test_repeated_keys_are_told() -> None:
    """The last one counts."""
    assert decode(b"a: 1\na: 2") == ({"a": 2}, ['line 2: key "a" already set in map'])
