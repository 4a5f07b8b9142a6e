"""Paths."""

from __future__ import annotations

import pytest

from gm.devcluster.routes import Target, parse_path


def _core(**fields: str) -> Target:
    return Target(**{"group": "", "version": "v1", "plural": "pods", **fields})


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", _core()),
        ("/api/v1/namespaces/ns/pods", _core(namespace="ns")),
        ("/api/v1/namespaces/ns/pods/p", _core(namespace="ns", name="p")),
        ("/api/v1/namespaces/ns/pods/p/log", _core(namespace="ns", name="p", subresource="log")),
        ("/api/v1/namespaces/ns/pods/a%2Fb", _core(namespace="ns", name="a", subresource="b")),
        ("/api/v1/namespaces", _core(plural="namespaces")),
        ("/api/v1/namespaces/ns", _core(plural="namespaces", name="ns")),
        (
            "/api/v1/namespaces/ns/status",
            _core(plural="namespaces", name="ns", subresource="status"),
        ),
        (
            "/api/v1/namespaces/ns/finalize",
            _core(plural="namespaces", name="ns", subresource="finalize"),
        ),
        ("/api/v1/nodes/n/proxy/a/b", _core(plural="nodes", name="n", subresource="proxy")),
        ("/api/v1/nodes/n/status", _core(plural="nodes", name="n", subresource="status")),
        (
            "/apis/sedna.io/v1alpha1/namespaces/ns/datasets/d",
            Target(
                group="sedna.io", version="v1alpha1", plural="datasets", namespace="ns", name="d"
            ),
        ),
    ],
)
def test_what_a_path_names(path: str, target: Target) -> None:
    """Collections, objects and parts of objects; names may be escaped."""
    assert parse_path(path) == target


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/g/v", "/nope/a/b/c", "/api/v1/pods/p/log/more"]
)
def test_other_paths(path: str) -> None:
    """They name no resource."""
    assert parse_path(path) is None
