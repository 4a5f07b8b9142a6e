"""Bindings, conditions and namespace finalizers."""

from __future__ import annotations

import pytest

from gm.api.meta import Json
from gm.devcluster.binding import bind, finalize, set_condition
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.status import StatusError
from tests.devcluster.core import Plain, plain, pod


def _bind(api: Plain, name: str, node: str, **extra: object) -> Json:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    return bind(api.api, api.key("pods", name), body, **extra)  # type: ignore[arg-type]


def test_a_binding_gives_the_pod_to_the_node() -> None:
    """With the condition that says so, and no new generation."""
    api = plain(widgets=False)
    api.create("pods", pod("p"))
    assert _bind(api, "p", "n", dry_run=True)["status"] == "Success"
    assert "nodeName" not in api.get("pods", "p")["spec"]
    assert _bind(api, "p", "n")["code"] == 201
    bound = api.get("pods", "p")
    assert bound["spec"]["nodeName"] == "n"
    assert bound["metadata"]["generation"] == 1
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


def test_a_pod_is_bound_once() -> None:
    """409 names the node that has it."""
    api = plain(widgets=False)
    api.create("pods", pod("p"))
    _bind(api, "p", "n")
    with pytest.raises(StatusError) as caught:
        _bind(api, "p", "m")
    assert caught.value.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )


def test_what_can_not_be_bound() -> None:
    """No node, another name, no pod, or one that goes."""
    api = plain(widgets=False)
    api.create("pods", pod("p", meta={"finalizers": ["x.io/f"]}))
    with pytest.raises(StatusError, match=r"target\.name: Required value"):
        _bind(api, "p", "")
    with pytest.raises(StatusError, match="name in URL does not match"):
        bind(api.api, api.key("pods", "p"), {"metadata": {"name": "q"}, "target": {"name": "n"}})
    with pytest.raises(StatusError, match='pods "q" not found'):
        _bind(api, "q", "n")
    delete(api.api, api.info("pods"), api.key("pods", "p"), DeleteOptions())
    with pytest.raises(StatusError, match="is being deleted"):
        _bind(api, "p", "n")


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    """A new message alone is no transition."""
    first = set_condition([{"type": "A", "status": "x"}], {"type": "R", "status": "True"})
    (_, added) = first
    old = {**added, "lastTransitionTime": "2001-01-01T00:00:00Z"}
    same = set_condition([old], {"type": "R", "status": "True", "message": "m"})
    assert same == [{**old, "message": "m"}]
    (changed,) = set_condition([old], {"type": "R", "status": "False"})
    assert changed["lastTransitionTime"] > "2002"


def test_finalize_lets_a_terminating_namespace_go() -> None:
    """Only what /finalize takes away is gone from spec.finalizers."""
    api = plain(widgets=False)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    api.create("namespaces", namespace)
    key = api.key("namespaces", "x")
    record = finalize(api.api, key, {"spec": {"finalizers": ["kubernetes", "a.b/c"]}})
    assert record.object["spec"]["finalizers"] == ["kubernetes", "a.b/c"]
    delete(api.api, api.info("namespaces"), key, DeleteOptions())
    finalize(api.api, key, {})
    assert api.find("namespaces", "x") is None
