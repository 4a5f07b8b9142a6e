"""Writes of built-in kinds: what is dropped, kept, filled in and refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.info import ResourceInfo
from gm.devcluster.registry import Registry
from gm.devcluster.status import StatusError

REGISTRY = Registry()


def info_of(plural: str, group: str = "") -> ResourceInfo:
    """A built-in resource."""
    found = REGISTRY.lookup(group, "v1", plural)
    assert found is not None
    return found


PODS = info_of("pods")


def pod(**spec: Any) -> Json:
    """A pod that was stored."""
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    PODS.prepare_create(obj)
    return obj


def test_unknown_fields_warn_by_default_and_fail_when_strict() -> None:
    """Ignore drops them quietly."""
    obj = {"metadata": {"name": "a", "namespace": "n"}, "kind": "ConfigMap", "x": 1, "data": {}}
    infos = info_of("configmaps")
    assert infos.prepare_create(copy.deepcopy(obj)) == ['unknown field "x"']
    assert infos.prepare_create(copy.deepcopy(obj), field_validation="Ignore") == []
    with pytest.raises(StatusError) as caught:
        infos.prepare_create(obj, field_validation="Strict", duplicates=['duplicate field "data"'])
    assert (caught.value.code, caught.value.message) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'duplicate field "data", unknown field "x"',
    )


def test_wrong_types_are_a_bad_request() -> None:
    """As decoding them is."""
    with pytest.raises(StatusError, match="cannot unmarshal number into Go struct field") as caught:
        PODS.prepare_create({"metadata": {"name": 1}})
    assert caught.value.code == 400


def test_a_client_does_not_say_that_a_new_object_is_being_deleted() -> None:
    """Nor whose fields are whose, nor how its pod is doing."""
    meta = {
        "name": "p",
        "namespace": "n",
        "managedFields": [{"manager": "x"}],
        "selfLink": "/x",
        "deletionTimestamp": "2024-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 1,
    }
    spec = {"containers": [{"name": "c", "image": "i"}]}
    obj = {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}
    PODS.prepare_create(obj)
    assert obj["metadata"] == {"name": "p", "namespace": "n"}
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_an_update_that_changes_nothing_changes_nothing() -> None:
    """Whatever a client says of what only the server writes."""
    old = pod()
    old["metadata"] |= {"creationTimestamp": "2024-01-01T00:00:00Z", "generation": 3}
    new = copy.deepcopy(old)
    new["metadata"] |= {"generation": 9, "creationTimestamp": None, "selfLink": "x"}
    new["status"] = {"phase": "Running"}
    assert PODS.prepare_update(new, old) == []
    assert new == old


@pytest.mark.parametrize("field", ["uid", "deletionTimestamp"])
def test_what_the_server_says_once_can_not_be_said_anew(field: str) -> None:
    """Refused, as upstream does, and not passed over."""
    new = copy.deepcopy(old := pod())
    new["metadata"][field] = "2024-01-01T00:00:00Z"
    with pytest.raises(StatusError, match=f"metadata.{field}: .*: field is immutable"):
        PODS.prepare_update(new, old)


def test_the_status_path_writes_status_and_metadata_only() -> None:
    """A spec that comes with it is ignored; the old object is left as it is."""
    old = pod()
    before = copy.deepcopy(old)
    new = copy.deepcopy(old)
    new["spec"]["restartPolicy"] = "Never"
    new["status"]["phase"] = "Running"
    new["metadata"]["labels"] = {"a": "b"}
    PODS.prepare_update(new, old, subresource="status")
    assert new["spec"] == old["spec"]
    assert (new["status"]["phase"], new["metadata"]["labels"]) == ("Running", {"a": "b"})
    new["spec"]["containers"].append({})
    assert old == before


def test_a_kind_without_status_path_writes_all() -> None:
    """A lease, for one."""
    leases = info_of("leases", "coordination.k8s.io")
    old = {"metadata": {"name": "l", "namespace": "n"}, "spec": {"holderIdentity": "a"}}
    new = copy.deepcopy(old) | {"spec": {"holderIdentity": "b"}}
    leases.prepare_update(new, old)
    assert new["spec"] == {"holderIdentity": "b"}


def test_causes_of_change_and_of_content_come_together() -> None:
    """422 with both."""
    old = pod()
    new = copy.deepcopy(old)
    new["spec"] |= {"restartPolicy": "Sometimes"}
    new["metadata"]["labels"] = {"a b": "c"}
    with pytest.raises(StatusError) as caught:
        PODS.prepare_update(new, old)
    assert caught.value.code == 422
    assert [cause.field for cause in caught.value.causes] == [
        "metadata.labels",
        "spec.restartPolicy",
        "spec",
    ]


def test_a_review_needs_no_name() -> None:
    """It is a question, not an object."""
    reviews = info_of("selfsubjectaccessreviews", "authorization.k8s.io")
    obj: Json = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert reviews.prepare_create(obj) == []
