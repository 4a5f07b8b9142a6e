"""Failures as ``Status`` objects."""

from __future__ import annotations

from gm.api.resources import DATASETS, PODS
from gm.devcluster import status
from gm.devcluster.status import Cause, StatusError


def test_not_found_names_plural_and_group() -> None:
    """The message and details are those that clients compare."""
    assert status.not_found(DATASETS, "d").body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'datasets.sedna.io "d" not found',
        "reason": "NotFound",
        "details": {"name": "d", "group": "sedna.io", "kind": "datasets"},
        "code": 404,
    }


def test_the_core_group_is_left_out() -> None:
    """Pods have no group in messages or details."""
    error = status.already_exists(PODS, "p")
    assert error.message == 'pods "p" already exists'
    assert error.details == {"name": "p", "kind": "pods"}
    assert error.code == 409


def test_one_cause_is_told_plainly_and_several_in_brackets() -> None:
    """422 lists its causes in message and details."""
    one = Cause("FieldValueRequired", "Required value", "spec.a")
    two = Cause("FieldValueInvalid", "Invalid value: 1: too small", "spec.b")
    assert status.invalid("Pod", "", "p", [one]).message == (
        'Pod "p" is invalid: spec.a: Required value'
    )
    error = status.invalid("Widget", "example.com", "w", [one, two])
    assert error.message == (
        'Widget.example.com "w" is invalid: '
        "[spec.a: Required value, spec.b: Invalid value: 1: too small]"
    )
    assert error.causes == [one, two]
    assert error.code == 422


def test_a_cause_that_is_given_twice_is_told_once() -> None:
    """Upstream's causes hold duplicates, its message does not."""
    cause = Cause("FieldValueForbidden", "Forbidden: no", "metadata.finalizers")
    error = status.invalid("Pod", "", "p", [cause, cause])
    assert error.message == 'Pod "p" is invalid: metadata.finalizers: Forbidden: no'
    assert len(error.causes) == 2


def test_conflicts_tell_what_to_do() -> None:
    """A stale version and a failed precondition differ in kind and text."""
    stale = status.stale(PODS, "p")
    assert stale.message.startswith('Operation cannot be fulfilled on pods "p": the object has')
    precondition = status.conflict(DATASETS, "d", "no", kind="Dataset")
    assert precondition.message == 'Operation cannot be fulfilled on Dataset.sedna.io "d": no'


def test_forbidden_names_the_object_if_there_is_one() -> None:
    """Without a name, only the resource is named."""
    assert status.forbidden(PODS, "", "no").message == "pods is forbidden: no"
    assert status.forbidden(PODS, "p", "no").message == 'pods "p" is forbidden: no'
    cause = Cause("NamespaceTerminating", "it goes", "metadata.namespace")
    assert status.forbidden(PODS, "p", "no", [cause]).causes == [cause]


def test_success_names_what_was_deleted() -> None:
    """The answer to a delete holds the uid."""
    answer = status.success(DATASETS, "d", "u-1")
    assert answer["details"] == {
        "name": "d",
        "group": "sedna.io",
        "kind": "datasets",
        "uid": "u-1",
    }
    assert "uid" not in status.success(PODS)["details"]


def test_a_reason_that_is_empty_is_left_out() -> None:
    """Some failures of upstream have no reason."""
    body = StatusError(500, "", "odd").body()
    assert "reason" not in body
    assert "details" not in body


def test_the_other_makers_have_their_codes() -> None:
    """Each kind of failure has its code and reason."""
    made = [
        status.bad_request("m"),
        status.method_not_allowed(PODS, "create"),
        status.unsupported_media_type(["a/b"], "do that"),
        status.expired("m"),
        status.too_large_version(9, 5),
        status.internal("m"),
    ]
    assert [(e.code, e.reason) for e in made] == [
        (400, "BadRequest"),
        (405, "MethodNotAllowed"),
        (415, "UnsupportedMediaType"),
        (410, "Expired"),
        (504, "Timeout"),
        (500, "InternalError"),
    ]
    assert made[2].message.endswith("include: a/b (do that)")
