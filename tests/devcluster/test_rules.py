"""Rules that several kinds share, in the words of a real kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gm.devcluster import rules
from gm.devcluster.status import Cause
from tests.devcluster.core import lines

KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
LETTERS = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
LETTER = "must contain at least one letter (a-z)"
ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
RANGE = "must be between 1 and 65535, inclusive"
OPERATOR = 'f.operator: Invalid value: "%s": not a valid selector operator'


def invalid(value: str, *why: str) -> list[str]:
    """What is said of a text."""
    return [f'f: Invalid value: "{value}": {each}' for each in why]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rules.choice({"x": "b"}, "f", "x", ["a", "b"]), []),
        (rules.choice({}, "f", "x", ["a"]), []),
        (
            rules.choice({"x": "c"}, "f", "x", ["a", "b"]),
            ['f.x: Unsupported value: "c": supported values: "a", "b"'],
        ),
        (rules.not_negative({"x": 0}, "f", "x", "y"), []),
        (
            rules.not_negative({"x": -1}, "f", "x"),
            ["f.x: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (rules.port_number(65535, "f"), []),
        (rules.port_number(0, "f"), [f"f: Invalid value: 0: {RANGE}"]),
        (rules.port_number(65536, "f"), [f"f: Invalid value: 65536: {RANGE}"]),
        (rules.port_name("http-1", "f"), []),
        (rules.port_name("A", "f"), invalid("A", LETTERS, LETTER)),
        (rules.port_name("1", "f"), invalid("1", LETTER)),
        (rules.port_name("a" * 16, "f"), invalid("a" * 16, "must be no more than 15 characters")),
        (rules.config_key("a.b_c-D", "f"), []),
        (rules.config_key("a b", "f"), invalid("a b", KEY)),
        (rules.config_key("..", "f"), invalid("..", "must not be '..'")),
        (rules.config_key("..a", "f"), invalid("..a", "must not start with '..'")),
        (rules.relative_path("a/b", "f"), []),
        (rules.relative_path("/a", "f"), invalid("/a", "must be a relative path")),
        (rules.relative_path("a/../b", "f"), invalid("a/../b", "must not contain '..'")),
        (rules.relative_path("a..b", "f"), []),
        (rules.ip_address("::1", "f"), []),
        (rules.ip_address("1.2.3", "f"), invalid("1.2.3", ADDRESS)),
        (rules.label_selector({"matchLabels": {"a": "b"}}, "f"), []),
        (
            rules.operands({"operator": "In"}, "f", ("In",)),
            ["f.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
        ),
        (rules.operands({"operator": "Foo"}, "f", ("In",)), [OPERATOR % "Foo"]),
        (
            rules.operands({"operator": "Gt", "values": ["1", "2"]}, "f", (), (), ("Gt",)),
            [
                "f.values: Required value: must be specified single value when `operator` is 'Lt' "
                "or 'Gt'"
            ],
        ),
    ],
)
def test_a_rule_finds_what_breaks_it(found: Iterable[Cause], expected: list[str]) -> None:
    """And nothing else."""
    assert lines(found) == expected
