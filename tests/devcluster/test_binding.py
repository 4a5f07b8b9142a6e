"""Bindings, evictions and conditions."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import Api, WriteOptions
from gm.devcluster.binding import bind, evict, set_condition
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.status import StatusError
from tests.devcluster.core import Plain, plain, pod

DRY = WriteOptions(dry_run=True)


def _bind(api: Plain, name: str, node: str, options: WriteOptions | None = None) -> list[str]:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    return bind(api.api, api.key("pods", name), body, options or WriteOptions())


def _evict(
    api: Plain, name: str, options: WriteOptions | None = None, **eviction: object
) -> list[str]:
    body = {"metadata": {"name": name}, **eviction}
    return evict(api.api, api.key("pods", name), body, options or WriteOptions())


def test_a_binding_gives_the_pod_to_the_node() -> None:
    """With the condition that says so, and no new generation."""
    api = plain(widgets=False)
    api.create("pods", pod("p"))
    _bind(api, "p", "n", DRY)
    assert "nodeName" not in api.get("pods", "p")["spec"]
    assert _bind(api, "p", "n") == []
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


BODIES: dict[str, tuple[Json, int, str]] = {
    "no name": ({}, 400, "name in URL does not match name in {} object"),
    "another name": ({"metadata": {"name": "q"}}, 400, "name in URL does not match name in {}"),
    "another namespace": (
        {"metadata": {"name": "p", "namespace": "x"}},
        *(400, "the namespace of the provided object does not match the namespace sent"),
    ),
    "another kind": ({"kind": "Pod", "apiVersion": "v1"}, 400, "converting (v1.Pod) to ("),
    "no metadata": ({"metadata": 1}, 400, "field {}.metadata of type v1.ObjectMeta"),
}


@pytest.mark.parametrize("act", [bind, evict])
@pytest.mark.parametrize("case", BODIES)
def test_what_is_posted_to_a_pod_names_it(
    act: Callable[[Api, ObjectKey, Json, WriteOptions], list[str]], case: str
) -> None:
    """400, before anything is looked for."""
    body, code, message = BODIES[case]
    api = plain(widgets=False)
    with pytest.raises(StatusError) as caught:
        act(api.api, api.key("pods", "p"), copy.deepcopy(body), WriteOptions())
    assert caught.value.code == code
    assert message.format("Binding" if act is bind else "Eviction") in caught.value.message


def test_fields_of_wrong_types_and_unknown_ones() -> None:
    """As in objects: refused, and warned of."""
    api = plain(widgets=False)
    api.create("pods", pod("p"))
    with pytest.raises(StatusError, match=r"field Binding\.target of type v1\.ObjectReference"):
        bind(
            api.api,
            api.key("pods", "p"),
            {"metadata": {"name": "p"}, "target": "n"},
            WriteOptions(),
        )
    with pytest.raises(StatusError, match=r"field Eviction\.deleteOptions of type v1\.Delete"):
        _evict(api, "p", deleteOptions="x")
    assert _evict(api, "p", foo=1) == ['unknown field "foo"']


def test_a_binding_may_say_which_pod_it_means() -> None:
    """409 if there is another one by now."""
    api = plain(widgets=False)
    uid = api.create("pods", pod("p"))["metadata"]["uid"]
    key, target = api.key("pods", "p"), {"name": "n"}
    with pytest.raises(StatusError, match="UID in precondition: x"):
        bind(api.api, key, {"metadata": {"name": "p", "uid": "x"}, "target": target})
    bind(api.api, key, {"metadata": {"name": "p", "uid": uid}, "target": target})
    assert api.get("pods", "p")["spec"]["nodeName"] == "n"


def test_an_eviction_deletes_and_says_why() -> None:
    """The pod's status tells it while its node stops it."""
    api = plain(widgets=False)
    version = api.create("pods", pod("p", nodeName="n"))["metadata"]["resourceVersion"]
    _evict(api, "p", DRY)
    assert "deletionTimestamp" not in api.get("pods", "p")["metadata"]
    _evict(
        api,
        "p",
        apiVersion="policy/v1beta1",
        deleteOptions={"gracePeriodSeconds": 7, "preconditions": {"resourceVersion": version}},
    )
    evicted = api.get("pods", "p")
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 7
    (condition,) = evicted["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


@pytest.mark.parametrize("precondition", [{"uid": "x"}, {"resourceVersion": "1"}])
def test_an_eviction_of_another_pod_changes_nothing(precondition: Json) -> None:
    """409, and the pod does not say that it is evicted."""
    api = plain(widgets=False)
    before = api.create("pods", pod("p"))
    with pytest.raises(StatusError, match="precondition") as caught:
        _evict(api, "p", deleteOptions={"preconditions": precondition})
    assert caught.value.code == 409
    assert api.get("pods", "p") == before


def test_dry_runs_of_evictions() -> None:
    """Said by the request, by the options, or by both alike."""
    api = plain(widgets=False)
    api.create("pods", pod("p"))
    _evict(api, "p", deleteOptions={"dryRun": ["All"]})
    _evict(api, "p", DRY, deleteOptions={"dryRun": ["All"]})
    with pytest.raises(StatusError, match=r"Non-matching .*: \[All\] and \[x\]"):
        _evict(api, "p", DRY, deleteOptions={"dryRun": ["x"]})
    assert api.find("pods", "p") is not None
