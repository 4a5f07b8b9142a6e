"""Events of the server's own controllers."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.recorder import record_event
from gm.devcluster.store import Record
from tests.devcluster.core import Plain, node, plain, pod


def _say(api: Plain, involved: Record, message: str = "m") -> None:
    record_event(api.api, involved, component="c", kind="Normal", reason="R", message=message)


def _events(api: Plain) -> list[Json]:
    return [record.object for record in api.store.table("events").records()]


def _pod(api: Plain) -> Record:
    api.create("pods", pod("p"))
    record = api.find("pods", "p")
    assert record is not None
    return record


def test_an_event_names_its_object() -> None:
    """So that kubectl describe finds it."""
    api = plain(widgets=False)
    involved = _pod(api)
    _say(api, involved)
    (event,) = _events(api)
    assert event["involvedObject"]["uid"] == involved.uid
    assert event["involvedObject"]["kind"] == "Pod"
    assert (event["reason"], event["message"], event["count"]) == ("R", "m", 1)


def test_the_same_event_again_is_counted() -> None:
    """Another message is another event."""
    api = plain(widgets=False)
    involved = _pod(api)
    for message in ("m", "m", "other"):
        _say(api, involved, message)
    assert sorted((e["message"], e["count"]) for e in _events(api)) == [("m", 2), ("other", 1)]


def test_events_of_cluster_scoped_objects_lie_in_default() -> None:
    """As upstream."""
    api = plain(widgets=False)
    api.create("nodes", node("n"))
    record = api.find("nodes", "n")
    assert record is not None
    _say(api, record)
    assert _events(api)[0]["metadata"]["namespace"] == "default"


def test_an_event_that_can_not_be_stored_is_dropped() -> None:
    """Its namespace goes away: nobody will read it."""
    api = plain(widgets=False)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
    api.create("namespaces", namespace)
    api.create("pods", pod("p"), namespace="x")
    involved = api.find("pods", "p", namespace="x")
    assert involved is not None
    delete(api.api, api.info("namespaces"), api.key("namespaces", "x"), DeleteOptions())
    _say(api, involved)
    assert _events(api) == []
