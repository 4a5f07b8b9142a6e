"""Questions about who may do what, and who asks: there are no rules here, so all is allowed."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster.info import User

__all__ = ["access_review", "rules_review", "self_review"]

_REASON = "the embedded API server has no RBAC: whoever has its token may do everything"


def access_review(obj: Json, _user: User) -> Json:
    """The answer to a (Self)SubjectAccessReview."""
    return {"metadata": {}, **obj, "status": {"allowed": True, "reason": _REASON}}


def rules_review(obj: Json, _user: User) -> Json:
    """The answer to a SelfSubjectRulesReview."""
    status = {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
    return {"metadata": {}, **obj, "status": status}


def self_review(obj: Json, user: User) -> Json:
    """The answer to a SelfSubjectReview (``kubectl auth whoami``)."""
    info = {"username": user.name, "uid": user.uid, "groups": [*user.groups]}
    return {"metadata": {}, **obj, "status": {"userInfo": info}}
