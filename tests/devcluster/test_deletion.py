"""DELETE, without HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.deletion import CRD_CLEANUP, DeleteOptions, delete
from gm.devcluster.query import Query
from gm.devcluster.status import StatusError
from tests.devcluster.core import Plain, plain, pod, widget

WIDGETS = "widgets.example.com"


@pytest.fixture
def api() -> Plain:
    """An API with the Widget CRD."""
    return plain()


def _delete(api: Plain, plural: str, name: str, **options: Any) -> Json:
    return delete(api.api, api.info(plural), api.key(plural, name), DeleteOptions(**options))


def _types(api: Plain, table: str, count: int) -> list[str]:
    changes = api.store.table(table).changes(api.store.first)
    return [change.type for change in changes[-count:]]


def test_an_object_without_finalizers_is_gone_at_once(api: Plain) -> None:
    """The answer is a Status with the uid; watchers see the last state."""
    created = api.create(WIDGETS, widget("w"))
    answer = _delete(api, WIDGETS, "w")
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"]["uid"] == created["metadata"]["uid"]
    assert api.find(WIDGETS, "w") is None
    (last,) = api.store.table(WIDGETS).changes(api.store.revision - 1)
    assert last.type == "DELETED"
    assert "deletionTimestamp" not in last.record.meta
    assert last.record.meta["generation"] == 1


def test_what_does_not_exist(api: Plain) -> None:
    """404."""
    with pytest.raises(StatusError, match='"w" not found'):
        _delete(api, WIDGETS, "w")


def test_finalizers_hold_an_object(api: Plain) -> None:
    """It is marked, its generation grows once, deleting it again changes nothing."""
    api.create(WIDGETS, widget("w", finalizers=["x.io/f"]))
    answer = _delete(api, WIDGETS, "w")
    meta = answer["metadata"]
    assert meta["deletionTimestamp"]
    assert (meta["deletionGracePeriodSeconds"], meta["generation"]) == (0, 2)
    before = api.store.revision
    assert _delete(api, WIDGETS, "w") == answer
    assert api.store.revision == before


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_propagation_policies_become_finalizers(api: Plain, policy: str, finalizer: str) -> None:
    """The garbage collector lifts them; a later policy replaces the former."""
    api.create(WIDGETS, widget("w"))
    answer = _delete(api, WIDGETS, "w", propagation_policy=policy)
    assert answer["metadata"]["finalizers"] == [finalizer]
    assert _delete(api, WIDGETS, "w", propagation_policy="Background")["kind"] == "Status"
    assert api.find(WIDGETS, "w") is None


def test_preconditions(api: Plain) -> None:
    """uid and resourceVersion, with the words of a real API server."""
    meta = api.create(WIDGETS, widget("w"))["metadata"]
    with pytest.raises(StatusError, match=r"the UID in the precondition \(zzz\)") as caught:
        _delete(api, WIDGETS, "w", uid="zzz")
    assert caught.value.code == 409
    assert 'fulfilled on Widget.example.com "w": ' in caught.value.message
    with pytest.raises(StatusError, match=r"the ResourceVersion in the precondition \(1\)"):
        _delete(api, WIDGETS, "w", resource_version="1")
    _delete(api, WIDGETS, "w", uid=meta["uid"], resource_version=meta["resourceVersion"])


def test_a_pod_without_node_vanishes(api: Plain) -> None:
    """But is seen terminating first; the answer is the pod."""
    api.create("pods", pod("p"))
    answer = _delete(api, "pods", "p")
    assert answer["kind"] == "Pod"
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 0
    assert answer["metadata"]["generation"] == 2
    assert api.find("pods", "p") is None
    assert _types(api, "pods", 3) == ["ADDED", "MODIFIED", "DELETED"]


def test_a_pod_on_a_node_gets_its_grace(api: Plain) -> None:
    """Its agent confirms the end with grace 0."""
    api.create("pods", pod("p", nodeName="n", terminationGracePeriodSeconds=7))
    first = _delete(api, "pods", "p")
    assert first["metadata"]["deletionGracePeriodSeconds"] == 7
    assert _delete(api, "pods", "p") == first
    assert _delete(api, "pods", "p", grace_period_seconds=50) == first
    shorter = _delete(api, "pods", "p", grace_period_seconds=3)["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 3
    earlier = datetime.fromisoformat(shorter["deletionTimestamp"])
    later = datetime.fromisoformat(first["metadata"]["deletionTimestamp"])
    assert (later - earlier).total_seconds() == 4
    assert api.find("pods", "p") is not None
    _delete(api, "pods", "p", grace_period_seconds=0)
    assert api.find("pods", "p") is None


@pytest.mark.parametrize("grace", [None, 5])
def test_the_default_grace_is_thirty_seconds(api: Plain, grace: int | None) -> None:
    """Unless the request says otherwise."""
    api.create("pods", pod("p", nodeName="n"))
    answer = _delete(api, "pods", "p", grace_period_seconds=grace)
    assert answer["metadata"]["deletionGracePeriodSeconds"] == (grace or 30)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_needs_no_grace(api: Plain, phase: str) -> None:
    """Nothing runs any more."""
    api.create("pods", pod("p", nodeName="n"))
    api.patch("pods", "p", lambda p: {**p, "status": {"phase": phase}}, subresource="status")
    _delete(api, "pods", "p")
    assert api.find("pods", "p") is None


def test_a_pod_with_finalizer_stays_after_its_grace(api: Plain) -> None:
    """Both have to go."""
    api.create("pods", pod("p", nodeName="n", meta={"finalizers": ["x.io/f"]}))
    _delete(api, "pods", "p")
    _delete(api, "pods", "p", grace_period_seconds=0)
    record = api.find("pods", "p")
    assert record is not None
    assert record.meta["deletionGracePeriodSeconds"] == 0
    api.patch("pods", "p", lambda p: {**p, "metadata": {**p["metadata"], "finalizers": []}})
    assert api.find("pods", "p") is None


def test_a_namespace_begins_to_terminate(api: Plain) -> None:
    """Its finalizer holds it until it is empty."""
    api.create("namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "x"}})
    answer = _delete(api, "namespaces", "x")
    assert answer["status"] == {"phase": "Terminating"}
    assert answer["spec"] == {"finalizers": ["kubernetes"]}
    assert "deletionGracePeriodSeconds" not in answer["metadata"]
    assert _delete(api, "namespaces", "x") == answer


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(api: Plain, name: str) -> None:
    """403."""
    with pytest.raises(StatusError, match="this namespace may not be deleted") as caught:
        _delete(api, "namespaces", name)
    assert caught.value.code == 403


def test_a_crd_waits_for_its_objects(api: Plain) -> None:
    """Its finalizer is lifted when they are gone."""
    crds = "customresourcedefinitions.apiextensions.k8s.io"
    answer = _delete(api, crds, "widgets.example.com")
    assert answer["metadata"]["finalizers"] == [CRD_CLEANUP]
    assert _delete(api, crds, "widgets.example.com") == answer


@pytest.mark.parametrize("kind", ["widgets.example.com", "pods"])
def test_a_dry_run_deletes_nothing(api: Plain, kind: str) -> None:
    """It answers as if it did."""
    api.create(kind, widget("x") if kind.startswith("w") else pod("x"))
    before = api.store.revision
    assert _delete(api, kind, "x", dry_run=True)
    assert api.store.revision == before


def test_services_answer_with_what_was_deleted(api: Plain) -> None:
    """As upstream does for some kinds."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    api.create("services", {**service, "spec": {"ports": [{"port": 80}]}})
    assert _delete(api, "services", "s")["kind"] == "Service"
    assert api.find("services", "s") is None


# -- options --------------------------------------------------------------------------------


def test_options_come_from_body_or_query() -> None:
    """Where there is a body, even an empty one, the query does not count."""
    body = {
        "gracePeriodSeconds": 5,
        "propagationPolicy": "Orphan",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "dryRun": ["All"],
    }
    assert DeleteOptions.parse(body, Query([("gracePeriodSeconds", "9")])) == DeleteOptions(
        grace_period_seconds=5,
        propagation_policy="Orphan",
        uid="u",
        resource_version="7",
        dry_run=True,
    )
    query = {"gracePeriodSeconds": "0", "propagationPolicy": "Foreground", "dryRun": "All"}
    assert DeleteOptions.parse(None, Query(query.items())) == DeleteOptions(
        grace_period_seconds=0, propagation_policy="Foreground", dry_run=True
    )
    assert DeleteOptions.parse({}, Query(query.items())) == DeleteOptions()
    assert DeleteOptions.parse(None, Query()) == DeleteOptions()


def test_old_and_odd_options() -> None:
    """orphanDependents is older than the policy; a negative grace means one second."""

    def parsed(body: Json | None, **query: str) -> DeleteOptions:
        return DeleteOptions.parse(body, Query(query.items()))

    assert parsed({"orphanDependents": True}).propagation_policy == "Orphan"
    assert parsed({"orphanDependents": False}).propagation_policy == "Background"
    assert parsed(None, orphanDependents="true").propagation_policy == "Orphan"
    assert parsed({"gracePeriodSeconds": -1}).grace_period_seconds == 1


@pytest.mark.parametrize(
    ("body", "query", "message"),
    [
        ({"propagationPolicy": "Foo"}, {}, 'Unsupported value: "Foo"'),
        ({"dryRun": ["Some"]}, {}, "dryRun: Unsupported value"),
        ({"orphanDependents": True, "propagationPolicy": "Orphan"}, {}, "cannot be both set"),
        ({"gracePeriodSeconds": "x"}, {}, "cannot unmarshal string into .* of type int64"),
        (None, {"gracePeriodSeconds": "x"}, 'ParseInt: parsing "x": invalid syntax'),
        (None, {"gracePeriodSeconds": ""}, 'ParseInt: parsing "": invalid syntax'),
        (None, {"propagationPolicy": ""}, 'Unsupported value: "": supported values: "Foreground"'),
        (None, {"dryRun": ""}, r'dryRun: Unsupported value: \[""\]: supported values: "All"'),
        ({"dryRun": ["All", "x"]}, {}, r'Unsupported value: \["All","x"\]'),
        ({"dryRun": "All"}, {}, r"cannot unmarshal string into .* of type \[\]string"),
        ({"kind": "Foo", "apiVersion": "v1"}, {}, 'no kind "Foo" is registered'),
    ],
)
def test_options_that_make_no_sense(body: Json | None, query: dict[str, str], message: str) -> None:
    """400 or 422."""
    with pytest.raises(StatusError, match=message) as caught:
        DeleteOptions.parse(body, Query(query.items()))
    assert caught.value.code in (400, 422)
