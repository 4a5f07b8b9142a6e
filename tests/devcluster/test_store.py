"""The store: versions, history, cursors and feeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.api.meta import Json, ObjectKey
from gm.devcluster.store import Expired, Record, Store, Table, first_revision

Step = tuple[str, str, int]


def _key(name: str, namespace: str = "ns") -> ObjectKey:
    return ObjectKey(namespace, name)


def _obj(name: str, value: int = 0) -> Json:
    return {"kind": "X", "metadata": {"name": name, "uid": f"u-{name}"}, "spec": {"n": value}}


def _apply(table: Table, steps: list[Step]) -> None:
    for verb, name, value in steps:
        if verb == "put":
            table.put(_key(name), _obj(name, value))
        elif table.get(_key(name)) is not None:
            table.remove(_key(name))


def _state(table: Table) -> dict[ObjectKey, int]:
    return {r.key: r.revision for r in table.records()}


steps = st.lists(
    st.tuples(st.sampled_from(["put", "put", "remove"]), st.sampled_from("abcd"), st.integers()),
    max_size=40,
)


@given(steps, st.data())
def test_a_watch_replayed_from_any_revision_reproduces_the_state(
    done: list[Step], data: st.DataObject
) -> None:
    """State at a revision plus the changes since then is the state now, for every revision."""
    table = Store(window=1000, first=0).table("xs")
    _apply(table, done)
    revision = data.draw(st.integers(0, table.revision))
    replayed = {r.key: r.revision for r in table.at(revision)}
    assert all(version <= revision for version in replayed.values())
    for change in table.changes(revision):
        if change.type == "DELETED":
            assert change.record.key in replayed
            del replayed[change.record.key]
        else:
            assert (change.record.key in replayed) == (change.type == "MODIFIED")
            replayed[change.record.key] = change.revision
    assert replayed == _state(table)


@given(steps, st.integers(1, 5))
def test_a_bounded_log_holds_the_newest_changes_and_says_what_is_lost(
    done: list[Step], window: int
) -> None:
    """What a small window still answers is what an unbounded one answers."""
    small, large = (
        Store(window=window, first=0).table("xs"),
        Store(window=10**6, first=0).table("xs"),
    )
    _apply(small, done)
    _apply(large, done)
    for revision in range(large.revision + 1):
        expected = [(c.type, c.revision) for c in large.changes(revision)]
        try:
            found = [(c.type, c.revision) for c in small.changes(revision)]
        except Expired:
            found = None
        assert found == expected or (found is None and len(expected) > window)


def test_revisions_are_shared_by_all_kinds_and_only_grow() -> None:
    """One counter, so that any two versions can be ordered."""
    store = Store(first=10)
    first = store.table("a").put(_key("x"), _obj("x"))
    second = store.table("b").put(_key("y"), _obj("y"))
    assert (first.revision, second.revision) == (11, 12)
    assert store.revision == 12
    assert store.table("a").revision == 11


def test_a_new_life_of_the_server_begins_above_the_old_one() -> None:
    """A client that comes back with an old version gets 410, not an endless wait."""
    assert Store().first >= first_revision() - 1000
    assert Store().table("a").revision > 10**9


def test_a_stored_object_is_never_changed_in_place() -> None:
    """Whoever holds a version holds that version."""
    table = Store(first=0).table("xs")
    given_away = _obj("a")
    old = table.put(_key("a"), given_away)
    assert "resourceVersion" not in given_away["metadata"]
    table.put(_key("a"), {**old.object, "spec": {"n": 2}})
    assert old.object["spec"] == {"n": 0}
    assert old.object["metadata"]["resourceVersion"] == "1"


def test_the_encoded_form_is_made_once() -> None:
    """All who send a version share its bytes."""
    record = Record(_key("a"), _obj("a"), 1)
    assert record.encoded is record.encoded
    assert record.copy() == record.object
    assert record.copy() is not record.object


def test_a_watch_line_is_made_once() -> None:
    """All who watch share the line."""
    table = Store(first=0).table("xs")
    table.put(_key("a"), _obj("a"))
    (change,) = table.changes(0)
    assert change.line is change.line
    assert change.line.startswith(b'{"type":"ADDED","object":{"kind":"X"')
    assert change.line.endswith(b"}}\n")


def test_objects_are_listed_by_namespace_and_name() -> None:
    """A namespace's objects are found without looking at the others."""
    table = Store(first=0).table("xs")
    for namespace, name in (("b", "x"), ("a", "z"), ("ab", "y"), ("a", "y")):
        table.put(_key(name, namespace), _obj(name))
    assert [str(k) for k in table.keys("")] == ["a/y", "a/z", "ab/y", "b/x"]
    assert [str(k) for k in table.keys("a")] == ["a/y", "a/z"]
    assert [r.key.name for r in table.records("ab")] == ["y"]
    assert [r.key.name for r in table.at(0)] == []
    assert [str(r.key) for r in table.at(2, "a")] == ["a/z"]
    assert len(table) == 4


def test_a_deletion_has_a_version_of_its_own_and_the_last_state() -> None:
    """Watchers resume after the deletion, not before it."""
    table = Store(first=0).table("xs")
    table.put(_key("a"), _obj("a"))
    table.remove(_key("a"))
    change = table.changes(1)[0]
    assert change.type == "DELETED"
    assert change.record.object["metadata"]["resourceVersion"] == "2"
    assert change.previous is not None
    assert change.previous.revision == 1


def test_a_busy_kind_does_not_expire_a_quiet_one() -> None:
    """Each kind has a log of its own."""
    store = Store(window=2, first=0)
    quiet, busy = store.table("quiet"), store.table("busy")
    quiet.put(_key("a"), _obj("a"))
    for n in range(50):
        busy.put(_key("b"), _obj("b", n))
    assert [c.revision for c in quiet.changes(0)] == [1]
    with pytest.raises(Expired, match="too old resource version: 0"):
        busy.changes(0)


def test_record_shortcuts() -> None:
    """Labels and uid may be missing."""
    bare = Record(_key("a"), {"metadata": {"name": "a"}}, 1)
    assert (bare.uid, bare.labels, bare.is_deleting) == ("", {}, False)
    full = Record(_key("a"), {"metadata": {"labels": {"x": "y"}, "deletionTimestamp": "t"}}, 1)
    assert (full.labels, full.is_deleting) == ({"x": "y"}, True)


def test_what_can_not_be_encoded_is_not_stored() -> None:
    """Otherwise every list, and the state file, would fail on it for ever."""
    store = Store(first=0)
    table = store.table("xs")
    bad = {**_obj("a"), "spec": "\ud800"}
    with pytest.raises(UnicodeEncodeError):
        table.put(_key("a"), bad)
    assert (len(table), table.keys(), table.changes(0)) == (0, [], [])
    table.put(_key("a"), _obj("a"))
    with pytest.raises(UnicodeEncodeError):
        table.put(_key("a"), bad)
    with pytest.raises(UnicodeEncodeError):
        table.remove(_key("a"), bad)
    assert [r.object["spec"] for r in table.records()] == [{"n": 0}]
    assert len(table.changes(0)) == 1


def test_the_log_is_bounded_in_bytes_and_says_what_is_lost() -> None:
    """A large object that changes often must not fill the memory."""
    table = Store(first=0).table("xs")
    large = "x" * 900_000
    for number in range(400):
        table.put(_key("a"), {**_obj("a"), "spec": {"n": number, "text": large}})
    with pytest.raises(Expired) as caught:
        table.changes(0)
    kept = table.changes(caught.value.oldest)
    assert len(kept) >= 10
    assert sum(len(change.record.encoded) for change in kept) <= 32 * 1024 * 1024
    assert kept[-1].revision == table.revision == 400
    assert [c.revision for c in kept] == list(range(caught.value.oldest + 1, 401))


def test_the_newest_changes_are_kept_however_large_they_are() -> None:
    """A watch that is close behind need not list again."""
    table = Store(first=0).table("xs")
    for number in range(12):
        table.put(_key(f"a{number}"), {**_obj("a"), "spec": "x" * 4_000_000})
    assert len(table.changes(2)) == 10
    with pytest.raises(Expired):
        table.changes(1)
