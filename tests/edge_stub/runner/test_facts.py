"""fieldRef and resourceFieldRef."""

from __future__ import annotations

import pytest

from tests.edge_stub.runner.support import facts


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "uid-p"),
        ("metadata.labels['app']", "a"),
        ("metadata.labels['missing']", ""),
        ("metadata.annotations['note']", "hello"),
        ("metadata.labels", 'app="a"\nb="q\\""'),
        ("metadata.annotations", 'note="hello"'),
        ("spec.nodeName", "edge1"),
        ("spec.serviceAccountName", ""),
        ("status.hostIP", "127.1.1.11"),
        ("status.hostIPs", "127.1.1.11"),
        ("status.podIP", "127.1.1.64"),
        ("status.podIPs", "127.1.1.64"),
    ],
)
def test_every_field_that_a_kubelet_knows(path: str, value: str) -> None:
    """The fields of the downward API."""
    assert facts().field(path) == value


def test_an_unknown_field_is_refused() -> None:
    """As a kubelet words it."""
    with pytest.raises(ValueError, match=r"field label not supported: spec\.x"):
        facts().field("spec.x")


def test_resources_are_divided_and_unset_limits_are_the_nodes() -> None:
    """Requests that are not set are 0."""
    container = {"name": "c", "resources": {"limits": {"memory": "64Mi"}}}
    known = facts()
    mebibytes = {"resource": "limits.memory", "divisor": "1Mi"}
    assert known.resource(mebibytes, container) == "64"
    assert known.resource({"resource": "limits.cpu"}, container) == "4"
    assert known.resource({"resource": "requests.cpu"}, container) == "0"


def test_another_containers_resources_can_be_named() -> None:
    """In volumes they must be."""
    containers = [{"name": "other", "resources": {"requests": {"cpu": "250m"}}}]
    known = facts(containers=containers)
    reference = {"containerName": "other", "resource": "requests.cpu", "divisor": "1m"}
    assert known.resource(reference, {}) == "250"
    with pytest.raises(ValueError, match="container nobody not found"):
        known.resource({"containerName": "nobody", "resource": "limits.cpu"}, {})


@pytest.mark.parametrize("resource", ["", "cpu", "limits", "caps.cpu"])
def test_what_is_no_resource_is_refused(resource: str) -> None:
    """Limits and requests only."""
    with pytest.raises(ValueError, match="resource not supported"):
        facts().resource({"resource": resource}, {})
