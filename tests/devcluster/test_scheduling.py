"""Whether a pod may run on a node."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.scheduling import choose, explain, tolerates, why_not
from tests.devcluster.core import node, pod

LABELS = {"kubernetes.io/hostname": "n", "zone": "a", "cpus": "4"}
AFFINITY = "didn't match Pod's node affinity/selector"


def _required(*terms: Json) -> Json:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
        }
    }


def _expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"nodeSelector": {"zone": "a", "gone": "x"}}, False),
        ({"affinity": {}}, True),
        ({"affinity": _required(_expression("zone", "In", "a", "b"))}, True),
        ({"affinity": _required(_expression("zone", "In", "b"))}, False),
        ({"affinity": _required(_expression("zone", "NotIn", "b"))}, True),
        ({"affinity": _required(_expression("zone", "Exists"))}, True),
        ({"affinity": _required(_expression("zone", "DoesNotExist"))}, False),
        ({"affinity": _required(_expression("cpus", "Gt", "3"))}, True),
        ({"affinity": _required(_expression("cpus", "Lt", "3"))}, False),
        ({"affinity": _required(_expression("zone", "Gt", "3"))}, False),
        ({"affinity": _required(_expression("zone", "Odd", "3"))}, False),
        ({"affinity": _required(_expression("x", "Exists"), _expression("zone", "Exists"))}, True),
        ({"affinity": _required({})}, False),
        (
            {
                "affinity": _required(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                )
            },
            True,
        ),
    ],
)
def test_selectors_and_required_affinity(spec: Json, fits: bool) -> None:
    """Terms are alternatives, what is in a term must all hold."""
    reason = why_not(pod("p", **spec), node("n", labels=LABELS), [])
    assert (reason == "") is fits
    assert fits or AFFINITY in reason


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "k"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Equal"}, False),
    ],
)
def test_tolerations(toleration: Json, covers: bool) -> None:
    """Key, value and effect; without key, ``Exists`` covers everything."""
    assert tolerates([toleration], TAINT) is covers


def _tainted(*taints: Json, **spec: Any) -> Json:
    return {**node("n"), "spec": {"taints": list(taints), **spec}}


def test_an_untolerated_taint_keeps_pods_away() -> None:
    """PreferNoSchedule does not."""
    assert why_not(pod("p"), _tainted(TAINT), []) == "node(s) had untolerated taint {k: v}"
    assert why_not(pod("p"), _tainted({"key": "k", "effect": "PreferNoSchedule"}), []) == ""
    tolerant = pod("p", tolerations=[{"key": "k", "operator": "Exists"}])
    assert why_not(tolerant, _tainted(TAINT), []) == ""


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    """As DaemonSets' pods do."""
    assert why_not(pod("p"), _tainted(unschedulable=True), []) == "node(s) were unschedulable"
    key = "node.kubernetes.io/unschedulable"
    tolerant = pod("p", tolerations=[{"key": key, "operator": "Exists"}])
    assert why_not(tolerant, _tainted(unschedulable=True), []) == ""


def test_host_ports_are_taken_once_a_node() -> None:
    """By protocol and number."""
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}]}
    one, two = pod("1", containers=[container]), pod("2", containers=[container])
    assert "free ports" in why_not(one, node("n"), [two])
    assert why_not(one, node("n"), [pod("3")]) == ""


def test_the_emptiest_node_is_chosen() -> None:
    """By name when there are several."""
    nodes = [node("a"), node("b"), node("c")]
    name, reasons = choose(pod("p"), nodes, {"a": [pod("x")], "c": [pod("y")]})
    assert (name, reasons) == ("b", {})
    assert choose(pod("p"), nodes, {})[0] == "a"


def test_the_message_counts_reasons() -> None:
    """As kubectl describe shows it."""
    nodes = [_tainted(TAINT), node("b"), node("c")]
    name, reasons = choose(pod("p", nodeSelector={"x": "y"}), nodes, {})
    assert name == ""
    assert explain(reasons, 3) == f"0/3 nodes are available: 3 node(s) {AFFINITY}."
    assert explain(reasons, 0) == "no nodes available to schedule pods"
