"""Who may do what: whoever has the token, everything."""

from __future__ import annotations

import pytest

from gm.api.meta import Json
from gm.devcluster import reviews
from gm.devcluster.info import User
from gm.devcluster.status import StatusError


def test_everything_is_allowed_and_it_says_why() -> None:
    """A person must not take this for RBAC."""
    asked = {"spec": {"resourceAttributes": {"verb": "get"}}}
    answer = reviews.access_review(asked, User())
    assert answer["spec"] == asked["spec"]
    assert answer["status"]["allowed"] is True
    assert "no RBAC" in answer["status"]["reason"]
    assert "status" not in asked


def test_the_rules_are_one() -> None:
    """All verbs on all resources."""
    status = reviews.rules_review({"spec": {"namespace": "n"}}, User())["status"]
    assert status["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert status["incomplete"] is False


def test_a_client_learns_who_it_is() -> None:
    """Name and groups."""
    answer = reviews.self_review({}, User(name="me", uid="1", groups=("g",)))
    assert answer["status"]["userInfo"] == {"username": "me", "uid": "1", "groups": ["g"]}
    assert answer["metadata"]["creationTimestamp"]


@pytest.mark.parametrize(
    "spec", [{}, {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/x"}}]
)
def test_a_question_about_nothing_or_two_things_is_refused(spec: Json) -> None:
    """422."""
    with pytest.raises(StatusError, match="exactly one of nonResourceAttributes or resource"):
        reviews.access_review({"spec": spec}, User())


def test_rules_are_those_of_a_namespace() -> None:
    """400 without one."""
    with pytest.raises(StatusError, match="no namespace on request"):
        reviews.rules_review({"spec": {}}, User())
