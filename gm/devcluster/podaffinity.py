"""What is wrong with the rules by which a pod is scheduled, in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

from gm.api.meta import Json
from gm.devcluster.metadata import (
    dns_label,
    dns_subdomain,
    duplicate,
    invalid_value,
    label_value,
    qualified_name,
    qualified_name_problems,
    required,
    unsupported,
)
from gm.devcluster.rules import EFFECTS, choice, label_selector, operands
from gm.devcluster.status import Cause

__all__ = ["affinity", "spread", "toleration"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def toleration(toleration: Json, path: str) -> Iterator[Cause]:
    """One toleration."""
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    effect = toleration.get("effect") or ""
    if key and (problem := qualified_name(key)):
        yield invalid_value(f"{path}.key", key, problem)
    if not key and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'  # noqa: E501
        yield invalid_value(f"{path}.operator", operator, why)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid_value(f"{path}.effect", effect, why)
    value = toleration.get("value") or ""
    if operator in ("", "Equal"):
        if problem := label_value(value):
            yield invalid_value(f"{path}.operator", value, problem)
    elif operator != "Exists":
        yield unsupported(f"{path}.operator", operator, ["Equal", "Exists"])
    elif value:
        why = "value must be empty when `operator` is 'Exists'"
        yield invalid_value(f"{path}.operator", value, why)
    if effect:
        yield from choice({"effect": effect}, path, "effect", EFFECTS)


def affinity(affinity: Json, path: str) -> Iterator[Cause]:
    """What a pod says of the nodes and the pods that it wants to be near."""
    node = affinity.get("nodeAffinity") or {}
    if (selector := node.get(_REQUIRED)) is not None:
        where = f"{path}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
        terms = selector.get("nodeSelectorTerms") or []
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _node_term(term, f"{where}[{index}]")
    for index, wish in enumerate(node.get(_PREFERRED) or []):
        where = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        yield from _weight(wish, where)
        yield from _node_term(wish.get("preference") or {}, f"{where}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        for index, term in enumerate(rules.get(_REQUIRED) or []):
            yield from _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, wish in enumerate(rules.get(_PREFERRED) or []):
            where = f"{path}.{kind}.{_PREFERRED}[{index}]"
            yield from _weight(wish, where)
            yield from _pod_term(wish.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _weight(wish: Json, path: str) -> Iterator[Cause]:
    weight = wish.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def _node_term(term: Json, path: str) -> Iterator[Cause]:
    for index, need in enumerate(term.get("matchExpressions") or []):
        where = f"{path}.matchExpressions[{index}]"
        yield from operands(need, where, ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt"))
        if problem := qualified_name(need.get("key", "")):
            yield invalid_value(f"{where}.key", need.get("key", ""), problem)
        for number, value in enumerate(need.get("values") or []):
            if problem := label_value(value):
                yield invalid_value(f"{where}.values[{number}]", value, problem)
    for index, need in enumerate(term.get("matchFields") or []):
        yield from _node_field(need, f"{path}.matchFields[{index}]")


def _node_field(need: Json, path: str) -> Iterator[Cause]:
    values = need.get("values") or []
    if (operator := need.get("operator", "")) not in ("In", "NotIn"):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", why)
    if (key := need.get("key", "")) != "metadata.name":
        yield invalid_value(f"{path}.key", key, "not a valid field selector key")
        return
    for number, value in enumerate(values):
        if problem := dns_subdomain(value):
            yield invalid_value(f"{path}.values[{number}]", value, problem)


def _pod_term(term: Json, path: str) -> Iterator[Cause]:
    for field in ("labelSelector", "namespaceSelector"):
        yield from label_selector(term.get(field) or {}, f"{path}.{field}")
    for name in term.get("namespaces") or []:
        if problem := dns_label(name):
            yield invalid_value(f"{path}.namespace", name, problem)
    yield from _topology(term.get("topologyKey", ""), f"{path}.topologyKey")


def _topology(key: str, path: str) -> Iterator[Cause]:
    if not key:
        yield required(path, "can not be empty")
    for problem in qualified_name_problems(key):
        yield invalid_value(path, key, problem)


def spread(constraints: list[Json], path: str) -> Iterator[Cause]:
    """How a pod is to be spread with others over the nodes."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        skew, least = constraint.get("maxSkew", 0), constraint.get("minDomains")
        key, action = constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            yield invalid_value(f"{where}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield required(f"{where}.topologyKey", "can not be empty")
        actions = ["DoNotSchedule", "ScheduleAnyway"]
        yield from choice({"whenUnsatisfiable": action}, where, "whenUnsatisfiable", actions)
        if (key, action) in seen:
            shown = f"{{{key}, {action}}}"
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", shown)
        seen.add((key, action))
        if least is not None and least <= 0:
            yield invalid_value(f"{where}.minDomains", least, "must be greater than zero")
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from choice(constraint, where, field, ["Honor", "Ignore"])
        yield from label_selector(constraint.get("labelSelector") or {}, f"{where}.labelSelector")
