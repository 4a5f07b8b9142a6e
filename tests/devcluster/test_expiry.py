"""Events expire."""

from __future__ import annotations

from gm.devcluster.expiry import EventExpiry
from tests.devcluster.core import plain

EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"namespace": "default"},
}


def test_an_event_lives_for_its_time_after_the_last_write() -> None:
    """A repetition gives it new life."""
    api = plain(widgets=False)
    now = 0.0
    controller = EventExpiry(api.api, ttl_seconds=10)
    controller.clock = lambda: now
    api.create("events", EVENT)
    table = api.store.table("events")
    key = api.key("events", "e")
    for change in table.changes(api.store.first):
        assert list(controller.observe(change)) == [key]
    assert controller.reconcile(key) == 10
    now = 8.0
    api.patch("events", "e", lambda e: {**e, "count": 2})
    for change in table.changes(table.revision - 1):
        list(controller.observe(change))
    now = 12.0
    assert controller.reconcile(key) == 6
    now = 18.0
    assert controller.reconcile(key) is None
    assert api.find("events", "e") is None
    assert controller.reconcile(key) is None
