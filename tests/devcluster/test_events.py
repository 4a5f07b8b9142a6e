"""Events under the names of both groups."""

from __future__ import annotations

from gm.devcluster.events import to_core, to_events_v1


def test_an_event_of_one_group_is_one_of_the_other() -> None:
    """Names change, nothing is lost."""
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod"},
        "note": "n",
        "reason": "R",
        "reportingController": "c",
        "deprecatedSource": {"component": "c"},
        "deprecatedFirstTimestamp": "a",
        "deprecatedLastTimestamp": "b",
        "deprecatedCount": 1,
    }
    core = to_core(new)
    assert core == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod"},
        "message": "n",
        "reason": "R",
        "reportingComponent": "c",
        "source": {"component": "c"},
        "firstTimestamp": "a",
        "lastTimestamp": "b",
        "count": 1,
    }
    assert to_events_v1(core) == new
    assert to_core(core) == core
