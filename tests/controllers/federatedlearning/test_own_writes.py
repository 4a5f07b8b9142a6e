"""Our own writes, as their echo comes back from the API server."""

from __future__ import annotations

from typing import Any

from gm.api.core import Pod
from gm.controllers.federatedlearning.memory import ChildCache
from gm.controllers.federatedlearning.plan import plan
from gm.kube.lister import Event, EventType, Lister, Stored
from tests.controllers.support import UID, as_stored, changed, world


def _pod() -> Stored[Pod]:
    created = [child for child in plan(world()).create if child.resource.kind == "Pod"]
    return as_stored(created[0])


def _event(kind: EventType, pod: Stored[Any]) -> Event[Any]:
    if kind is EventType.DELETED:
        return Event(kind, _RESOURCE, old=pod)
    return Event(kind, _RESOURCE, new=pod)


_RESOURCE = next(c.resource for c in plan(world()).create if c.resource.kind == "Pod")


def test_the_echo_of_our_own_create_is_no_news() -> None:
    """The pass that made the pod has planned with it already."""
    cache, pod = ChildCache[Pod](Lister()), _pod()
    cache.made(pod)
    assert cache.owned_by(UID) == (pod,)
    assert not cache.seen(_event(EventType.ADDED, pod))
    assert cache.seen(_event(EventType.MODIFIED, pod)), "only the first time"


def test_a_child_that_changed_before_its_echo_came_is_news() -> None:
    """Somebody has bound it in between: the list shows only the newer version."""
    cache, pod = ChildCache[Pod](Lister()), _pod()
    cache.made(pod)
    newer = changed(pod, metadata={"resourceVersion": "999"}, spec={"nodeName": "cloud"})
    assert cache.seen(_event(EventType.ADDED, newer))


def test_the_end_of_a_child_that_we_made_is_news() -> None:
    """Made and gone before the cache showed it."""
    cache, pod = ChildCache[Pod](Lister()), _pod()
    cache.made(pod)
    assert cache.seen(_event(EventType.DELETED, pod))
    assert cache.owned_by(UID) == ()


def test_a_pod_of_somebody_else_under_our_name_is_news() -> None:
    """Another incarnation, or a child that another GM made."""
    cache, pod, other = ChildCache[Pod](Lister()), _pod(), _pod()
    cache.made(pod)
    assert cache.seen(_event(EventType.ADDED, other))
