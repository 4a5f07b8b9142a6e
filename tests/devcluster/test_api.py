"""Create, update and patch, without HTTP."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from gm.api.meta import Json, ObjectKey
from gm.devcluster.api import WriteOptions
from gm.devcluster.gotime import timestamp
from gm.devcluster.patch import merge_patch
from gm.devcluster.status import StatusError
from tests.devcluster.core import Plain, msgspec_copy, plain, pod, widget

CONFIG_MAP: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.fixture
def api() -> Plain:
    """An API with the Widget CRD."""
    return plain()


def _refused(call: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        call()
    return caught.value


def _merge(api: Plain, plural: str, name: str, change: Json, subresource: str = "") -> Json:
    return api.patch(plural, name, lambda obj: merge_patch(obj, change), subresource=subresource)


def _replace(api: Plain, plural: str, obj: Json, subresource: str = "") -> Json:
    key = api.key(plural, obj["metadata"]["name"])
    written = api.api.replace(
        api.info(plural), key, msgspec_copy(obj), subresource=subresource, options=WriteOptions()
    )
    return written.record.object


def test_create_sets_what_the_server_owns(api: Plain) -> None:
    """uid, version, time and generation are the server's, whatever the client says."""
    meta = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    created = api.create("widgets.example.com", widget("w", **meta))
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["generation"] == 1
    assert created["metadata"]["creationTimestamp"] > "2002"
    assert created["metadata"]["namespace"] == "default"
    assert created["metadata"]["resourceVersion"] == str(api.store.revision)
    assert created["spec"] == {"size": 1, "color": "red"}


def test_built_ins_without_generation_have_none(api: Plain) -> None:
    """A ConfigMap's spec can not change."""
    assert "generation" not in api.create("configmaps", CONFIG_MAP)["metadata"]
    assert api.create("pods", pod("p"))["metadata"]["generation"] == 1


def test_names_are_generated_until_one_is_free(api: Plain, monkeypatch: Any) -> None:
    """Five letters without vowels; long prefixes are cut."""
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}}
    assert re.fullmatch(r"c-[bcdfghjklmnpqrstvwxz2456789]{5}", _name(api, nameless))
    letters = iter("bbbbb" * 2 + "ccccc")
    monkeypatch.setattr("gm.devcluster.api.secrets.choice", lambda _: next(letters))
    assert [_name(api, nameless), _name(api, nameless)] == ["c-bbbbb", "c-ccccc"]
    monkeypatch.undo()
    nameless["metadata"] = {"generateName": "x" * 100}
    assert len(_name(api, nameless)) == 63


def _name(api: Plain, obj: Json) -> str:
    return str(api.create("configmaps", obj)["metadata"]["name"])


def test_a_name_is_taken_once_in_a_namespace(api: Plain) -> None:
    """409 AlreadyExists; elsewhere it is free."""
    api.create("configmaps", CONFIG_MAP)
    error = _refused(lambda: api.create("configmaps", CONFIG_MAP))
    assert (error.code, error.reason) == (409, "AlreadyExists")
    api.create("configmaps", CONFIG_MAP, namespace="kube-system")


@pytest.mark.parametrize(
    ("obj", "namespace", "code", "message"),
    [
        ({}, "default", 422, 'ConfigMap "" is invalid: metadata.name: Required value: name or'),
        (
            {"metadata": {"name": "c", "namespace": "x"}},
            "default",
            400,
            "the namespace of the",
        ),
        (CONFIG_MAP, "nope", 404, 'namespaces "nope" not found'),
        (CONFIG_MAP, "", 400, "an empty namespace may not be set during creation"),
        (
            {"metadata": {"name": "c", "resourceVersion": "1"}},
            "default",
            500,
            "resourceVersion",
        ),
        ({"metadata": "x"}, "default", 400, 'ConfigMap in version "v1" cannot be handled as a'),
        ({"kind": "Pod", "metadata": {}}, "default", 400, 'Pod in version "v1" cannot be handled'),
        ({"apiVersion": "v2"}, "default", 400, 'ConfigMap in version "v2" cannot be handled as a'),
    ],
)
def test_what_can_not_be_created(
    api: Plain, obj: Json, namespace: str, code: int, message: str
) -> None:
    """Each with the words of a real API server."""
    error = _refused(lambda: api.create("configmaps", obj, namespace=namespace))
    assert error.code == code
    assert error.message.startswith(message)


def test_a_custom_resource_must_say_what_it_is(api: Plain) -> None:
    """Another kind is 422, another version 400."""
    wrong = _refused(lambda: api.create("widgets.example.com", {**widget("w"), "kind": "Wrong"}))
    assert wrong.message == (
        'Wrong.example.com "w" is invalid: kind: Invalid value: "Wrong": must be Widget'
    )
    old = {**widget("w"), "apiVersion": "example.com/v0"}
    assert "does not match the expected API version (example.com/v1)" in (
        _refused(lambda: api.create("widgets.example.com", old)).message
    )


def test_nothing_is_created_in_a_namespace_that_goes_away(api: Plain) -> None:
    """403 with the cause that clients look for."""
    record = api.find("namespaces", "kube-public")
    assert record is not None
    meta = {**record.meta, "deletionTimestamp": timestamp()}
    table = api.store.table("namespaces")
    table.put(record.key, {**record.object, "metadata": meta})
    error = _refused(lambda: api.create("configmaps", CONFIG_MAP, namespace="kube-public"))
    assert error.code == 403
    assert error.causes[0].reason == "NamespaceTerminating"


def test_a_dry_run_stores_nothing(api: Plain) -> None:
    """But answers as if it did, and refuses what would be refused."""
    before = api.store.revision
    shown = api.create("configmaps", CONFIG_MAP, dry_run=True)
    assert shown["metadata"]["uid"]
    assert "resourceVersion" not in shown["metadata"]
    assert api.store.revision == before
    api.create("configmaps", CONFIG_MAP)
    assert _refused(lambda: api.create("configmaps", CONFIG_MAP, dry_run=True)).code == 409


def test_warnings_reach_the_client(api: Plain) -> None:
    """Unknown fields, unless they are to be ignored or refused."""
    odd = widget("w")
    odd["spec"]["bogus"] = 1
    written = api.written("widgets.example.com", odd)
    assert list(written.warnings) == ['unknown field "spec.bogus"']
    odd["metadata"]["name"] = "w2"
    assert api.written("widgets.example.com", odd, field_validation="Ignore").warnings == []
    error = _refused(lambda: api.create("widgets.example.com", odd, field_validation="Strict"))
    assert 'strict decoding error: unknown field "spec.bogus"' in error.message


# -- update ---------------------------------------------------------------------------------


def test_the_generation_of_an_endpoint_slice_counts_all_but_annotations(api: Plain) -> None:
    """It has no spec: its content and its labels are what it says."""
    slices = "endpointslices.discovery.k8s.io"
    made = api.create(slices, {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []})
    assert made["metadata"]["generation"] == 1
    changes: list[tuple[Json, int]] = [
        ({"annotations": {"a": "b"}}, 1),
        ({"labels": {"a": "b"}}, 2),
    ]
    for change, generation in changes:
        changed = api.patch(
            slices, "s", lambda s, c=change: {**s, "metadata": {**s["metadata"], **c}}
        )
        assert changed["metadata"]["generation"] == generation
    endpoint = {"addresses": ["10.0.0.1"]}
    changed = api.patch(slices, "s", lambda s: {**s, "endpoints": [endpoint]})
    assert changed["metadata"]["generation"] == 3


def test_spec_changes_raise_generation_and_others_do_not(api: Plain) -> None:
    """Labels and status are no spec."""
    api.create("widgets.example.com", widget("w"))
    changes: list[tuple[Json, str, int]] = [
        ({"spec": {"size": 2}}, "", 2),
        ({"metadata": {"labels": {"a": "b"}}}, "", 2),
        ({"status": {"phase": "X"}}, "status", 2),
        ({"spec": {"size": 3}}, "", 3),
    ]
    for change, subresource, generation in changes:
        changed = _merge(api, "widgets.example.com", "w", change, subresource)
        assert changed["metadata"]["generation"] == generation
    assert changed["status"] == {"phase": "X"}


def test_annotations_of_a_deployment_count_as_spec(api: Plain) -> None:
    """As upstream; labels do not."""
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    api.create("deployments.apps", deployment)
    labelled = _merge(api, "deployments.apps", "d", {"metadata": {"labels": labels}})
    assert labelled["metadata"]["generation"] == 1
    annotated = _merge(api, "deployments.apps", "d", {"metadata": {"annotations": labels}})
    assert annotated["metadata"]["generation"] == 2


def test_a_write_that_changes_nothing_keeps_the_version(api: Plain) -> None:
    """No event comes of it, or controllers would run in circles."""
    created = api.create("widgets.example.com", widget("w", size=2))
    before = api.store.revision
    same = _merge(api, "widgets.example.com", "w", {"spec": {"size": 2}})
    again = _replace(api, "widgets.example.com", created)
    assert same is again is created
    assert api.store.revision == before


def test_status_and_spec_have_paths_of_their_own(api: Plain) -> None:
    """Status through the main path is ignored, spec through /status too."""
    api.create("widgets.example.com", widget("w"))
    main = _merge(api, "widgets.example.com", "w", {"status": {"phase": "X"}, "spec": {"size": 5}})
    assert "status" not in main
    assert main["spec"]["size"] == 5
    change = {"status": {"phase": "X"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}
    status = _merge(api, "widgets.example.com", "w", change, "status")
    assert status["spec"]["size"] == 5
    assert status["status"] == {"phase": "X"}
    assert "labels" not in status["metadata"]


def test_a_stale_version_is_a_conflict(api: Plain) -> None:
    """In a PUT and inside a patch."""
    created = api.create("widgets.example.com", widget("w"))
    _merge(api, "widgets.example.com", "w", {"spec": {"size": 2}})
    assert _refused(lambda: _replace(api, "widgets.example.com", created)).code == 409
    old = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}
    error = _refused(lambda: _merge(api, "widgets.example.com", "w", old))
    assert (error.code, error.reason) == (409, "Conflict")
    assert "the object has been modified" in error.message


def test_a_version_that_is_none(api: Plain) -> None:
    """500, as upstream."""
    created = api.create("configmaps", CONFIG_MAP)
    meta = {**created["metadata"], "resourceVersion": "abc"}
    error = _refused(lambda: _replace(api, "configmaps", {**created, "metadata": meta}))
    assert error.code == 500


def test_put_without_a_version(api: Plain) -> None:
    """Most built-ins take it, custom resources do not."""
    api.create("configmaps", CONFIG_MAP)
    assert _replace(api, "configmaps", {**CONFIG_MAP, "data": {"a": "b"}})["data"] == {"a": "b"}
    api.create("widgets.example.com", widget("w"))
    error = _refused(lambda: _replace(api, "widgets.example.com", widget("w", size=2)))
    assert error.message == (
        'widgets.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


def test_put_of_another_incarnation_is_a_conflict(api: Plain) -> None:
    """The uid says which object is meant."""
    api.create("configmaps", CONFIG_MAP)
    other = {**CONFIG_MAP, "metadata": {"name": "c", "uid": "other"}}
    error = _refused(lambda: _replace(api, "configmaps", other))
    assert error.code == 409
    assert "UID in precondition: other" in error.message


def test_put_creates_a_lease_that_is_missing(api: Plain) -> None:
    """As upstream; other kinds are 404."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    key = ObjectKey("default", "l")
    written = api.api.replace(api.info("leases.coordination.k8s.io"), key, lease)
    assert written.created
    assert _refused(lambda: _replace(api, "configmaps", CONFIG_MAP)).code == 404


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"metadata": {"name": "x"}}, 400, "the name of the object (x) does not match the name on"),
        ({"metadata": None}, 400, "the name of the object (c based on URL) was undeterminable"),
        ({"metadata": {"namespace": "x"}}, 400, "the namespace of the provided object does not"),
        ({"metadata": {"uid": "x"}}, 422, 'ConfigMap "c" is invalid: metadata.uid: Invalid value'),
        ({"kind": "Secret"}, 422, ' "" is invalid: patch: Invalid value: "{'),
        ({"data": {"a": 1}}, 422, ' "" is invalid: patch: Invalid value: "{'),
    ],
)
def test_what_a_patch_may_not_change(api: Plain, change: Json, code: int, message: str) -> None:
    """Identity, and what can not be decoded afterwards."""
    api.create("configmaps", CONFIG_MAP)
    error = _refused(lambda: _merge(api, "configmaps", "c", change))
    assert error.code == code
    assert error.message.startswith(message)


def test_a_dry_run_patch_stores_nothing(api: Plain) -> None:
    """It shows the result."""
    api.create("widgets.example.com", widget("w"))
    before = api.store.revision
    written = api.api.patch(
        api.info("widgets.example.com"),
        api.key("widgets.example.com", "w"),
        lambda obj: merge_patch(obj, {"spec": {"size": 4}}),
        options=WriteOptions(dry_run=True),
    )
    assert written.record.object["spec"]["size"] == 4
    assert api.store.revision == before


def test_the_last_finalizer_lets_a_deleted_object_go(api: Plain) -> None:
    """The patch answers with the object, then it is gone."""
    api.create("widgets.example.com", widget("w", finalizers=["x.io/f"]))
    record = api.find("widgets.example.com", "w")
    assert record is not None
    meta = {**record.meta, "deletionTimestamp": timestamp(), "deletionGracePeriodSeconds": 0}
    table = api.store.table("widgets.example.com")
    table.put(record.key, {**record.object, "metadata": meta})
    change = {"metadata": {"finalizers": None}}
    written = api.api.patch(
        api.info("widgets.example.com"),
        record.key,
        lambda obj: merge_patch(obj, change),
        options=WriteOptions(dry_run=True),
    )
    assert "finalizers" not in written.record.meta
    assert api.find("widgets.example.com", "w") is not None
    assert "finalizers" not in _merge(api, "widgets.example.com", "w", change)["metadata"]
    assert api.find("widgets.example.com", "w") is None
    assert table.changes(table.revision - 1)[0].type == "DELETED"


def test_controllers_write_without_validation_of_fields(api: Plain) -> None:
    """``make`` fills in kind and version, ``modify`` patches."""
    info = api.info("configmaps")
    made = api.api.make(info, "default", {"metadata": {"name": "m"}, "data": {"a": "b"}})
    assert made.object["kind"] == "ConfigMap"
    changed = api.api.modify(info, made.key, lambda obj: {**obj, "data": {"a": "c"}})
    assert changed.object["data"] == {"a": "c"}


def test_resources_are_found_by_table(api: Plain) -> None:
    """Also after a CRD came or went."""
    found = api.api.of_table("widgets.example.com")
    assert found is not None
    assert found.resource.kind == "Widget"
    events = api.api.of_table("events")
    assert events is not None
    assert events.resource.group == ""
    api.api.registry.remove_crd("widgets.example.com")
    assert api.api.of_table("widgets.example.com") is None
    with pytest.raises(LookupError):
        api.api.builtin("widgets", "example.com")


def test_events_are_one_kind_in_two_groups(api: Plain) -> None:
    """What is written as one can be read as the other."""
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reason": "R",
        "note": "said",
        "type": "Normal",
        "action": "A",
        "reportingController": "x.io/c",
        "reportingInstance": "i",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    api.create("events.events.k8s.io", event)
    assert api.get("events", "e")["message"] == "said"


def test_timestamps_are_in_whole_seconds() -> None:
    """As ``metav1.Time``."""
    assert timestamp(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)) == "2026-01-02T03:04:05Z"
