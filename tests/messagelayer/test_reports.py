"""Reports wait in order, fairly, and within bounds."""

from __future__ import annotations

import asyncio

from gm.messagelayer.message import Report
from gm.messagelayer.reports import ReportLimits, ReportQueue
from tests.messagelayer.support import key

FL = "federatedlearningjob"


def report(
    node: str, name: str, content: bytes = b"{}", *, kind: str = FL, number: int = 0
) -> Report:
    """A report; those on FL jobs are never merged."""
    return Report(node=node, key=key(name, kind), content=content, ids=(number,) if number else ())


def drain(queue: ReportQueue) -> list[tuple[str, str]]:
    """Node and object of all that waits, in the order of its coming out."""
    out = []
    while (taken := queue.pop()) is not None:
        out.append((taken.node, taken.key.name))
    return out


def test_nodes_take_turns_P0_028() -> None:
    """One node's flood delays another's report by one turn."""
    queue = ReportQueue()
    for number in range(5):
        queue.put(report("a", f"o{number}"))
    queue.put(report("b", "x"))
    queue.put(report("b", "y"))
    assert drain(queue)[:4] == [("a", "o0"), ("b", "x"), ("a", "o1"), ("b", "y")]
    assert (len(queue), queue.bytes) == (0, 0)


def test_only_the_latest_status_of_a_dataset_is_kept_in_its_place() -> None:
    """It keeps its turn, and takes over what must be acknowledged."""
    queue = ReportQueue()
    queue.put(report("a", "d", b'{"n":1}', kind="dataset", number=1))
    queue.put(report("a", "e", kind="dataset", number=2))
    queue.put(report("a", "d", b'{"n":22}', kind="dataset", number=3))
    assert (len(queue), queue.bytes) == (2, len(b'{"n":22}') + 2)
    first = queue.pop()
    assert first is not None
    assert (first.key.name, first.content, sorted(first.ids)) == ("d", b'{"n":22}', [1, 3])


def test_history_is_kept_in_order() -> None:
    """Each report on an FL or IL job says something of its own."""
    queue = ReportQueue()
    for number in range(3):
        queue.put(report("a", "job", str(number).encode()))
    contents = [taken.content for _ in range(3) if (taken := queue.pop()) is not None]
    assert contents == [b"0", b"1", b"2"]


def test_full_node_waits_until_half_is_taken() -> None:
    """By number of reports."""
    resumed: list[str] = []
    queue = ReportQueue(limits=ReportLimits(per_node=4), on_room=resumed.append)
    put = [queue.put(report("a", f"o{number}")) for number in range(5)]
    assert put == [True, True, True, False, False]
    assert queue.is_paused("a")
    assert queue.put(report("b", "x"))
    taken = 0
    while not resumed:
        assert queue.pop() is not None
        taken += 1
    assert resumed == ["a"]
    assert taken == 4  # three of a's five, and b's
    assert not queue.is_paused("a")
    assert not queue.is_paused("nobody")


def test_full_node_waits_by_bytes_too() -> None:
    """One huge report is enough."""
    resumed: list[str] = []
    queue = ReportQueue(limits=ReportLimits(per_node_bytes=100), on_room=resumed.append)
    assert not queue.put(report("a", "o", b"x" * 100))
    queue.pop()
    assert resumed == ["a"]


def test_full_node_waits_by_numbers_to_acknowledge_too() -> None:
    """A report that replaces others has to be acknowledged for all of them."""
    resumed: list[str] = []
    queue = ReportQueue(limits=ReportLimits(per_node=4), on_room=resumed.append)
    put = [queue.put(report("a", "d", kind="dataset", number=n)) for n in (1, 2, 2, 3, 4)]
    assert put == [True, True, True, True, False]
    taken = queue.pop()
    assert taken is not None
    assert sorted(taken.ids) == [1, 2, 3, 4]
    assert resumed == ["a"]
    assert queue.put(report("a", "d", kind="dataset", number=5))


def test_all_wait_when_the_total_is_reached_and_all_go_on_after() -> None:
    """Whoever sends next is told to wait; room for one is room for all."""
    resumed: list[str] = []
    queue = ReportQueue(limits=ReportLimits(total_bytes=100), on_room=resumed.append)
    assert queue.put(report("a", "o", b"x" * 60))
    assert not queue.put(report("b", "o", b"x" * 60))
    assert not queue.put(report("c", "o", b"x"))
    queue.pop()
    assert sorted(resumed) == ["b", "c"]


def test_dropped_node_frees_its_share() -> None:
    """And is told, should it still be there."""
    resumed: list[str] = []
    queue = ReportQueue(limits=ReportLimits(per_node=1), on_room=resumed.append)
    queue.put(report("a", "o"))
    queue.drop("a")
    queue.drop("a")
    assert (len(queue), queue.bytes, resumed) == (0, 0, ["a"])


async def test_get_waits_and_cancelling_it_loses_nothing() -> None:
    """Also when the report comes in the same turn of the loop."""
    queue = ReportQueue()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.get())
        await asyncio.sleep(0)
        queue.put(report("a", "o"))
        waiting.cancel()
        await asyncio.sleep(0)
        assert (await queue.get()).key.name == "o"
        later = group.create_task(queue.get())
        await asyncio.sleep(0)
        queue.put(report("a", "p"))
        assert (await later).key.name == "p"
