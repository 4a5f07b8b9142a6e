"""Identity of objects, and where they are served."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from gm.api.meta import (
    Condition,
    ObjectKey,
    ObjectMeta,
    OwnerReference,
    PartialObject,
    ResourceType,
    controller_of,
)

PODS = ResourceType(version="v1", kind="Pod", plural="pods")
NODES = ResourceType(version="v1", kind="Node", plural="nodes", namespaced=False)
JOBS = ResourceType(group="sedna.io", version="v1alpha1", kind="Job", plural="jobs")


def test_a_key_reads_as_namespace_and_name() -> None:
    """Or as the name alone, where there is no namespace; keys sort."""
    assert str(ObjectKey("a", "b")) == "a/b"
    assert str(ObjectKey("", "b")) == "b"
    assert sorted([ObjectKey("b", "a"), ObjectKey("a", "b")])[0].namespace == "a"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("a"), "/api/v1/namespaces/a/pods"),
        (PODS.path("a", "b", "status"), "/api/v1/namespaces/a/pods/b/status"),
        (NODES.path("a", "b"), "/api/v1/nodes/b"),
        (JOBS.path("a", "b"), "/apis/sedna.io/v1alpha1/namespaces/a/jobs/b"),
    ],
)
def test_a_resource_knows_its_path(path: str, expected: str) -> None:
    """Of the core group, of others, cluster-wide and below a namespace."""
    assert path == expected


def test_a_resource_knows_its_names() -> None:
    """As objects and as messages write it."""
    assert (PODS.api_version, PODS.qualified) == ("v1", "pods")
    assert (JOBS.api_version, JOBS.qualified) == ("sedna.io/v1alpha1", "jobs.sedna.io")


def test_the_controller_is_the_owner_that_is_marked_so() -> None:
    """Other owners only keep the object alive."""
    other = OwnerReference(api_version="v1", kind="A", name="a", uid="1")
    controller = OwnerReference(api_version="v1", kind="B", name="b", uid="2", controller=True)
    assert controller_of(ObjectMeta(owner_references=(other, controller))) is controller
    assert controller_of(ObjectMeta(owner_references=(other,))) is None
    assert controller_of(ObjectMeta()) is None


def test_removal_was_asked_for_before_the_grace_period_began() -> None:
    """deletionTimestamp is when it ends."""
    end = datetime(2026, 11, 30, 4, 18, 0, tzinfo=UTC)
    meta = ObjectMeta(deletion_timestamp=end, deletion_grace_period_seconds=30)
    assert meta.deletion_requested == datetime(2026, 11, 30, 4, 17, 30, tzinfo=UTC)
    assert ObjectMeta(deletion_timestamp=end).deletion_requested == end
    assert ObjectMeta().deletion_requested is None


def test_any_object_can_be_seen_as_its_metadata() -> None:
    """Unknown fields are ignored."""
    raw = b'{"kind":"X","apiVersion":"v1","metadata":{"name":"a","labels":null},"spec":{"b":1}}'
    seen = msgspec.json.decode(raw, type=PartialObject)
    assert (seen.kind, seen.metadata.name, seen.metadata.labels) == ("X", "a", None)


def test_a_condition_is_written_without_what_it_lacks() -> None:
    """CRDs refuse null for a time."""
    written = msgspec.json.encode(Condition(type="Complete", status="True"))
    assert written == b'{"type":"Complete","status":"True"}'
