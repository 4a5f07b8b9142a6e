"""What is said about pod templates."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.common import PodTemplate
from gm.api.podvalidation import template_problems

Json = dict[str, Any]
NAME_RULE = "allowed are up to 63 lower-case letters, digits and -"


def told(spec: Json | None) -> list[str]:
    """What is said about a template with ``spec``."""
    return [str(p) for p in template_problems(PodTemplate(spec=spec), "t")]


def told_container(**fields: Any) -> list[str]:
    """What is said about a sound container with ``fields`` changed."""
    return told({"containers": [{"name": "a", "image": "i", **fields}]})


def test_a_template_with_one_container_is_enough() -> None:
    """Kubernetes defaults the rest."""
    assert told_container() == []
    assert told_container(command=["x"], args=[], env=[{"name": "A"}], unheardOf=1) == []


def test_a_missing_template_is_told_what_to_write_P0_024() -> None:
    """`template: null` is what is left of a template that was commented out."""
    assert [str(p) for p in template_problems(None, "t")] == [
        "t: is missing; write the pod to make: spec.containers at least"
    ]


@pytest.mark.parametrize("spec", [None, {}, {"containers": None}, {"containers": []}])
def test_a_template_without_containers_is_told_so(spec: Json | None) -> None:
    """One problem, whichever way they are missing."""
    assert told(spec) == ["t.spec.containers: is empty; write at least one container"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": None}, f"name: is missing; {NAME_RULE}"),
        ({"name": "A b"}, f"name: is 'A b'; {NAME_RULE}"),
        ({"name": {"a": "secret"}}, f"name: is a mapping; {NAME_RULE}"),
        ({"image": ""}, "image: is ''; name the image to run"),
        ({"image": None}, "image: is missing; name the image to run"),
        ({"args": "-i 1"}, "args: is '-i 1'; allowed is a list of texts"),
        ({"args": [1]}, 'args[0]: is 1; write it as text: "1"'),
        ({"args": ["x", True]}, 'args[1]: is True; write it as text: "true"'),
        ({"command": [0.5]}, 'command[0]: is 0.5; write it as text: "0.5"'),
        ({"env": {"A": "b"}}, "env: is a mapping; allowed is a list of name and value"),
        ({"env": ["A"]}, "env[0]: is 'A'; allowed is name and value"),
        ({"env": [{"value": "x"}]}, "env[0].name: is missing; name the variable"),
        (
            {"env": [{"name": "A", "value": 32}]},
            "env[0].value: is a number; write it as text, in quotes",
        ),
        (
            {"env": [{"name": "A", "value": True}]},
            "env[0].value: is a boolean; write it as text, in quotes",
        ),
        (
            {"env": [{"name": "A", "value": ["secret"]}]},
            "env[0].value: is a list; write it as text, in quotes",
        ),
    ],
)
def test_a_mistake_in_a_container_is_told_by_its_field_P0_024(fields: Json, message: str) -> None:
    """Values of variables are never shown: they may be secret."""
    assert told_container(**fields) == [f"t.spec.containers[0].{message}"]


def test_containers_that_are_none_are_told_so() -> None:
    """A list of the wrong things, and a thing that is no list."""
    assert told({"containers": "a"}) == [
        "t.spec.containers: is 'a'; allowed is a list of containers"
    ]
    assert told({"containers": [7]}) == ["t.spec.containers[0]: is 7; allowed is a container"]


def test_names_are_unique_over_both_kinds_of_containers() -> None:
    """As the API server demands of the pod."""
    container = {"name": "a", "image": "i"}
    assert told({"initContainers": [container], "containers": [container]}) == [
        "t.spec.containers[0].name: 'a' is the name of two containers; rename one"
    ]


def test_volumes_need_names_of_their_own() -> None:
    """GM adds volumes beside them, under names that never collide."""
    sound: Json = {"containers": [{"name": "a", "image": "i"}]}
    assert told({**sound, "volumes": [{"name": "a"}, {"name": "b"}]}) == []
    assert told({**sound, "volumes": {}}) == [
        "t.spec.volumes: is a mapping; allowed is a list of volumes"
    ]
    assert told({**sound, "volumes": [{"name": "a"}, {"name": "a"}, None]}) == [
        "t.spec.volumes[1].name: 'a' is the name of two volumes; rename one",
        f"t.spec.volumes[2].name: is missing; {NAME_RULE}",
    ]


def test_a_node_name_is_text() -> None:
    """YAML reads an unquoted 7 as a number."""
    spec = {"nodeName": 7, "containers": [{"name": "a", "image": "i"}]}
    assert told(spec) == ["t.spec.nodeName: is 7; allowed is the name of a Node"]


def test_long_values_are_cut() -> None:
    """A condition's message has an end."""
    (message,) = told_container(name="X" * 500)
    assert len(message) < 200
