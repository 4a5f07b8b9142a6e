"""Environment variables of a container."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.edge_stub.runner.env import ConfigProblem, Source, container_env, expand, references
from tests.edge_stub.runner.support import facts

SECRET, CONFIG = Source("Secret", "s"), Source("ConfigMap", "m")
SOURCES = {SECRET: {"key": b"hidden"}, CONFIG: {"a": b"1", "b": b"2"}, Source("Secret", "no"): None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "x"),
        ("a-$(A)-$(B)", "a-x-$(A)"),
        ("$(NOPE)", "$(NOPE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$x"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("cost: 5$$", "cost: 5$"),
    ],
)
def test_references_are_replaced_once(text: str, expected: str) -> None:
    """Values are not looked into again; ``$$`` is the way to write ``$``."""
    assert expand(text, {"A": "x", "B": "$(A)"}) == expected


@given(st.text("$()AB"))
def test_without_variables_only_doubled_dollars_change(text: str) -> None:
    """An unknown reference stays as it was written."""
    assert expand(text, {}).count("$") >= text.count("$") // 2
    assert "$" in text or expand(text, {}) == text


def env(*entries: dict[str, Any], **container: Any) -> dict[str, str]:
    """The environment that ``entries`` make."""
    return container_env({"env": list(entries), **container}, facts(), SOURCES)


def test_values_see_earlier_variables_only() -> None:
    """And a later one of the same name wins."""
    made = env(
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)$(C)"},
        {"name": "C", "value": "3"},
        {"name": "A", "value": "2"},
        {"name": "EMPTY"},
    )
    assert made == {"A": "2", "B": "1$(C)", "C": "3", "EMPTY": ""}


def test_fields_resources_secrets_and_config_maps() -> None:
    """Each kind of valueFrom."""
    made = env(
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "a"}}},
    )
    assert made == {"IP": "127.1.1.64", "CPU": "4", "S": "hidden", "M": "1"}


def test_env_from_comes_first_and_takes_a_prefix() -> None:
    """So that single variables can replace what it brings."""
    made = env(
        {"name": "P_a", "value": "own"},
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}],
    )
    assert made == {"P_a": "own", "P_b": "2", "key": "hidden"}


def test_what_is_optional_may_be_missing() -> None:
    """A missing object, and a missing key."""
    made = env(
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k", "optional": True}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        envFrom=[{"secretRef": {"name": "no", "optional": True}}],
    )
    assert made == {}


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ({"secretKeyRef": {"name": "no", "key": "k"}}, 'secret "no" not found'),
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "couldn't find key k in Secret ns/s"),
        ({"configMapKeyRef": {"name": "m", "key": "k"}}, "couldn't find key k in ConfigMap ns/m"),
        ({"fieldRef": {"fieldPath": "spec.x"}}, "variable V: field label not supported"),
        ({"resourceFieldRef": {"resource": "x"}}, "variable V: resource not supported"),
        ({"fileKeyRef": {}}, "variable V: the runner does not know its valueFrom"),
    ],
)
def test_what_is_missing_is_named(origin: dict[str, Any], message: str) -> None:
    """The message goes to the container's waiting state."""
    with pytest.raises(ConfigProblem, match=message):
        env({"name": "V", "valueFrom": origin})


def test_references_name_all_sources() -> None:
    """They are read before the environment is made."""
    container = {
        "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b"}}],
        "env": [
            {"name": "plain", "value": "x"},
            {"name": "c", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
            {"name": "d", "valueFrom": {"configMapKeyRef": {"name": "d", "key": "k"}}},
            {"name": "e", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    }
    assert list(references(container)) == [
        Source("Secret", "a"),
        Source("ConfigMap", "b"),
        Source("Secret", "c"),
        Source("ConfigMap", "d"),
    ]
    assert list(references({})) == []
