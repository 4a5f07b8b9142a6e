"""Questions about who may do what, and who asks: there are no rules here, so all is allowed."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster.gotime import timestamp
from gm.devcluster.info import User
from gm.devcluster.metadata import invalid_value
from gm.devcluster.status import bad_request, invalid

__all__ = ["access_review", "rules_review", "self_review"]

_REASON = "the embedded API server has no RBAC: whoever has its token may do everything"


def access_review(obj: Json, _user: User) -> Json:
    """The answer to a (Self)SubjectAccessReview. Raises: StatusError (422)."""
    spec = obj.get("spec") or {}
    if ("resourceAttributes" in spec) == ("nonResourceAttributes" in spec):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        value = spec.get("resourceAttributes")
        cause = invalid_value("spec.resourceAttributes", value, why)
        raise invalid("", "authorization.k8s.io", "", [cause])
    return {"metadata": {}, **obj, "status": {"allowed": True, "reason": _REASON}}


def rules_review(obj: Json, _user: User) -> Json:
    """The answer to a SelfSubjectRulesReview. Raises: StatusError (400)."""
    if not (obj.get("spec") or {}).get("namespace"):
        raise bad_request("no namespace on request")
    status = {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
    return {"metadata": {}, **obj, "spec": {}, "status": status}


def self_review(obj: Json, user: User) -> Json:
    """The answer to a SelfSubjectReview (``kubectl auth whoami``)."""
    info = {"username": user.name, "uid": user.uid, "groups": [*user.groups]}
    meta = {**(obj.get("metadata") or {}), "creationTimestamp": timestamp()}
    return {**obj, "metadata": meta, "status": {"userInfo": info}}
