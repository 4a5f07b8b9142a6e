"""Whether a pod may run on a node, and if not, why: no I/O, no state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from gm.api.meta import Json

__all__ = ["choose", "explain", "tolerates", "why_not"]


def tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    """Whether one of a pod's tolerations covers a taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    operator, key = toleration.get("operator") or "Equal", toleration.get("key") or ""
    if not key:
        return bool(operator == "Exists")
    if key != taint.get("key"):
        return False
    if operator == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")


def _expression_holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                left, right = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return left > right if operator == "Gt" else left < right
    return False


def _term_holds(term: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    expressions, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not by_field:
        return False  # an empty term selects nothing
    return all(_expression_holds(e, labels) for e in expressions) and all(
        _expression_holds(e, fields) for e in by_field
    )


def _affinity_holds(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term_holds(term, node) for term in required.get("nodeSelectorTerms") or ())


def _host_ports(spec: Json) -> set[tuple[str, int]]:
    return {
        (port.get("protocol") or "TCP", port["hostPort"])
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def why_not(pod: Json, node: Json, others: Iterable[Json]) -> str:
    """Why ``pod`` can not run on ``node``, on which ``others`` run; empty if it can."""
    spec, node_spec = pod["spec"], node.get("spec") or {}
    tolerations = spec.get("tolerations") or []
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node_spec.get("unschedulable") and not tolerates(tolerations, unschedulable):
        return "node(s) were unschedulable"
    if not _affinity_holds(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    for taint in node_spec.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
            value = taint.get("value") or ""
            return f"node(s) had untolerated taint {{{taint['key']}: {value}}}"
    wanted = _host_ports(spec)
    if wanted and any(wanted & _host_ports(other["spec"]) for other in others):
        return "node(s) didn't have free ports for the requested pod ports"
    return ""


def choose(
    pod: Json, nodes: Sequence[Json], pods_by_node: Mapping[str, Sequence[Json]]
) -> tuple[str, Counter[str]]:
    """The node for ``pod``: that with the fewest pods. Empty if there is none; and why not."""
    reasons: Counter[str] = Counter()
    fitting: list[tuple[int, str]] = []
    for node in nodes:
        name = node["metadata"]["name"]
        others = pods_by_node.get(name, ())
        if reason := why_not(pod, node, others):
            reasons[reason] += 1
        else:
            fitting.append((len(others), name))
    return (min(fitting)[1] if fitting else ""), reasons


def explain(reasons: Counter[str], nodes: int) -> str:
    """The message of a FailedScheduling event."""
    if not nodes:
        return "no nodes available to schedule pods"
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{nodes} nodes are available: {listed}."
