"""The workqueue: what client-go promises, and that the earliest wish wins."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gm.kube.workqueue import ShutDown, Workqueue
from tests.fakes.kube_clock import VirtualTimeLoop
from tests.kube.virtual_time import virtual_time


def now() -> float:
    """The loop's time."""
    return asyncio.get_running_loop().time()


def queue_of(*keys: str) -> Workqueue[str]:
    """A queue in which ``keys`` are ready."""
    queue: Workqueue[str] = Workqueue()
    for key in keys:
        queue.add(key)
    return queue


@virtual_time
async def test_a_key_added_twice_is_handed_out_once() -> None:
    """Adds of a queued key are one."""
    queue = queue_of("a", "b", "a")
    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]


@virtual_time
async def test_a_key_added_while_processing_runs_once_more_afterwards_P1_073() -> None:
    """An add while a worker holds the key queues it again, but only after done()."""
    queue = queue_of("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "no second worker may take it now"
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


@virtual_time
async def test_no_two_workers_ever_hold_one_key_P1_073() -> None:
    """However adds and workers interleave."""
    queue: Workqueue[int] = Workqueue(base_seconds=0.1)
    held: set[int] = set()
    runs = 0

    async def work() -> None:
        nonlocal runs
        with contextlib.suppress(ShutDown):
            while True:
                key = await queue.get()
                assert key not in held
                held.add(key)
                await asyncio.sleep(0.05 * key)
                if runs % 3 == 0:
                    queue.add_rate_limited(key)
                held.remove(key)
                queue.done(key)
                runs += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work())
        for n in range(300):
            queue.add(n % 7)
            await asyncio.sleep(0.01)
        queue.shut_down()
    assert runs > 50
    assert queue.processing_count == 0


@virtual_time
async def test_a_failing_key_backs_off_from_10_to_360_seconds_P1_073() -> None:
    """Each failure doubles the wait, up to the cap; a success starts over."""
    queue: Workqueue[str] = Workqueue(base_seconds=10, max_seconds=360)
    waits = []
    for _ in range(8):
        queue.add_rate_limited("a")
        before = now()
        key = await queue.get()
        waits.append(now() - before)
        queue.done(key)
    assert waits == pytest.approx([10, 20, 40, 80, 160, 320, 360, 360])
    assert queue.failures("a") == 8
    queue.forget("a")
    assert queue.failures("a") == 0
    queue.add_rate_limited("a")
    before = now()
    await queue.get()
    assert now() - before == pytest.approx(10)


@virtual_time
async def test_a_failing_key_waits_as_long_as_the_server_asks_P1_080() -> None:
    """Where that is longer than its back-off, which counts on all the same."""
    queue: Workqueue[str] = Workqueue(base_seconds=10)
    for at_least, expected in ((60.0, 60), (1.0, 20), (0.0, 40)):
        before = now()
        queue.add_rate_limited("a", at_least_seconds=at_least)
        queue.done(await queue.get())
        assert now() - before == pytest.approx(expected)


@virtual_time
async def test_an_immediate_add_supersedes_the_delayed_one_P1_073() -> None:
    """It runs now, and not again for the old wish."""
    queue: Workqueue[str] = Workqueue(base_seconds=10)
    queue.add_rate_limited("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert now() == 0
    queue.done("a")
    assert queue.delayed_count == 0
    await asyncio.sleep(100)
    assert len(queue) == 0


@virtual_time
async def test_the_earliest_of_several_delayed_adds_wins() -> None:
    """Whatever their order."""
    queue: Workqueue[str] = Workqueue()
    queue.add_after("a", 30)
    queue.add_after("a", 5)
    queue.add_after("a", 20)
    assert await queue.get() == "a"
    assert now() == pytest.approx(5)
    queue.done("a")
    await asyncio.sleep(60)
    assert len(queue) == 0


@virtual_time
async def test_a_delayed_add_of_a_queued_key_is_nothing() -> None:
    """The run that is due at once does what it was for."""
    queue = queue_of("a")
    queue.add_after("a", 5)
    queue.done(await queue.get())
    await asyncio.sleep(10)
    assert len(queue) == 0


@virtual_time
async def test_a_worker_can_ask_for_its_own_key_later() -> None:
    """requeue_after: the add while holding the key waits its time."""
    queue = queue_of("a")
    key = await queue.get()
    queue.add_after(key, 7)
    queue.done(key)
    assert await queue.get() == "a"
    assert now() == pytest.approx(7)


@virtual_time
async def test_a_delay_of_nothing_is_an_add() -> None:
    """Zero and negative delays run now."""
    queue: Workqueue[str] = Workqueue()
    queue.add_after("a", 0)
    queue.add_after("b", -1)
    assert len(queue) == 2


@virtual_time
async def test_nothing_is_remembered_of_ten_thousand_forgotten_keys_P1_073() -> None:
    """A key that failed and then vanished leaves nothing behind."""
    queue: Workqueue[int] = Workqueue()
    for key in range(10_000):
        queue.add(key)
    for _ in range(10_000):
        key = await queue.get()
        queue.add_rate_limited(key)
        queue.done(key)
    for _ in range(10_000):
        key = await queue.get()
        queue.forget(key)
        queue.done(key)
    assert (queue.failing_count, queue.delayed_count, queue.processing_count) == (0, 0, 0)
    assert not queue._dirty
    assert len(queue) == 0


@virtual_time
async def test_get_waits_for_an_add() -> None:
    """Each add wakes one of the waiting workers."""
    queue: Workqueue[str] = Workqueue()
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(queue.get()), group.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a")
        queue.add("b")
    assert {first.result(), second.result()} == {"a", "b"}


@virtual_time
async def test_a_cancelled_get_loses_no_key() -> None:
    """The wake-up of a cancelled worker goes to another one."""
    queue: Workqueue[str] = Workqueue()
    async with asyncio.TaskGroup() as group:
        cancelled, other = group.create_task(queue.get()), group.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a")  # wakes the first
        cancelled.cancel()
    assert other.result() == "a"


@virtual_time
async def test_a_get_cancelled_while_it_waits_leaves_nothing() -> None:
    """It is no longer woken."""
    queue: Workqueue[str] = Workqueue()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(queue.get())
        await asyncio.sleep(1)
        task.cancel()
    assert not queue._getters
    queue.add("a")
    assert await queue.get() == "a"


@virtual_time
async def test_shut_down_hands_out_what_is_ready_and_then_ends() -> None:
    """Delayed keys are dropped, ready ones drained, new ones refused."""
    queue = queue_of("a", "b")
    queue.add_after("c", 5)
    queue.shut_down()
    queue.add("d")
    queue.add_after("d", 1)
    assert queue.is_shut_down
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    with pytest.raises(ShutDown):
        await queue.get()


@virtual_time
async def test_shut_down_wakes_waiting_workers() -> None:
    """They end with ShutDown."""
    queue: Workqueue[str] = Workqueue()

    async def is_told() -> bool:
        with contextlib.suppress(ShutDown):
            await queue.get()
            return False
        return True

    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(is_told()) for _ in range(2)]
        await asyncio.sleep(1)
        queue.shut_down()
    assert [task.result() for task in waiting] == [True, True]


@virtual_time
async def test_done_without_get_is_a_mistake() -> None:
    """It would hide a worker that gives back a key twice."""
    queue = queue_of("a")
    with pytest.raises(ValueError, match="nobody holds"):
        queue.done("a")


@pytest.mark.parametrize(("base", "most"), [(0, 1), (2, 1), (-1, 1)])
def test_back_off_bounds_are_checked(base: float, most: float) -> None:
    """A base of nothing would be a hot loop."""
    with pytest.raises(ValueError, match="required"):
        Workqueue(base_seconds=base, max_seconds=most)


def test_back_off_never_overflows() -> None:
    """Also for a key that has failed for weeks."""
    queue: Workqueue[str] = Workqueue()
    assert queue.backoff_seconds(1) == 0.005
    assert queue.backoff_seconds(1_000_000) == 360
    with pytest.raises(ValueError, match="at least 1"):
        queue.backoff_seconds(0)


KEYS = st.sampled_from(["a", "b", "c"])


class WorkqueueMachine(RuleBasedStateMachine):
    """Compares the queue with a model: what is queued, held, waiting, and since when."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.queue: Workqueue[str] = Workqueue(base_seconds=1, max_seconds=8)
        self.ready: list[str] = []
        self.held: set[str] = set()
        self.again: set[str] = set()
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def teardown(self) -> None:
        """Leave no loop behind."""
        self.loop.close()

    def run(self, call: Callable[..., Any], *args: Any) -> None:
        """Call something that needs the running loop."""

        async def inside() -> None:
            call(*args)

        self.loop.run_until_complete(inside())

    def model_add(self, key: str) -> None:
        """Add to the model."""
        self.due.pop(key, None)
        if key in self.held:
            self.again.add(key)
        elif key not in self.ready:
            self.ready.append(key)

    def model_add_after(self, key: str, seconds: float) -> None:
        """Add to the model, later."""
        if key in self.ready or key in self.again:
            return
        when = self.loop.time() + seconds
        self.due[key] = min(when, self.due.get(key, when))

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        """Add now."""
        self.run(self.queue.add, key)
        self.model_add(key)

    @rule(key=KEYS, seconds=st.integers(1, 10))
    def add_after(self, key: str, seconds: int) -> None:
        """Add later."""
        self.run(self.queue.add_after, key, seconds)
        self.model_add_after(key, seconds)

    @rule(key=KEYS)
    def fail(self, key: str) -> None:
        """Add with back-off."""
        self.run(self.queue.add_rate_limited, key)
        self.failures[key] = self.failures.get(key, 0) + 1
        self.model_add_after(key, min(2 ** (self.failures[key] - 1), 8))

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        """Forget failures."""
        self.queue.forget(key)
        self.failures.pop(key, None)

    @precondition(lambda self: self.ready)
    @rule()
    def get(self) -> None:
        """Take a key, in the order in which they became ready."""
        key = self.loop.run_until_complete(self.queue.get())
        assert key == self.ready.pop(0)
        assert key not in self.held
        self.held.add(key)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        """Give a key back."""
        key = data.draw(st.sampled_from(sorted(self.held)))
        self.run(self.queue.done, key)
        self.held.discard(key)
        if key in self.again:
            self.again.discard(key)
            self.ready.append(key)

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds: int) -> None:
        """Let time pass; the half second keeps anything from being due at its very end."""
        end = self.loop.time() + seconds + 0.5
        queued = len(self.ready)
        due = {key: when for key, when in self.due.items() if when <= end}
        self.loop.run_until_complete(asyncio.sleep(seconds + 0.5))
        for key in due:
            self.model_add(key)
        # in the order in which they were due; asyncio leaves open which of two comes first that
        # are due at once
        order = list(self.queue._ready)
        assert order[:queued] == self.ready[:queued]
        assert [due[key] for key in order[queued:]] == sorted(due[key] for key in order[queued:])
        self.ready = order[:queued] + sorted(self.ready[queued:], key=order.index)

    @invariant()
    def agree(self) -> None:
        """Queue and model say the same."""
        assert sorted(self.queue._ready) == sorted(self.ready)
        assert self.queue.processing_count == len(self.held)
        assert set(self.queue._delayed) == set(self.due)
        assert {key: self.queue.failures(key) for key in self.failures} == self.failures
        assert self.queue.failing_count == len(self.failures)


TestWorkqueueMachine = WorkqueueMachine.TestCase
TestWorkqueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
