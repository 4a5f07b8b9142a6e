"""Who may do what: whoever has the token, everything."""

from __future__ import annotations

from gm.devcluster import reviews
from gm.devcluster.info import User


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
    status = reviews.rules_review({}, User())["status"]
    assert status["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert status["incomplete"] is False


def test_a_client_learns_who_it_is() -> None:
    """Name and groups."""
    info = reviews.self_review({}, User(name="me", uid="1", groups=("g",)))["status"]["userInfo"]
    assert info == {"username": "me", "uid": "1", "groups": ["g"]}
