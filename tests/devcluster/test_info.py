"""What a resource is to the rest of the server."""

from __future__ import annotations

from gm.devcluster.info import VERBS, version_order
from gm.devcluster.registry import Registry


def test_a_resource_knows_its_verbs_parts_and_patch_schema() -> None:
    """Pods, for one."""
    pods = Registry().lookup("", "v1", "pods")
    assert pods is not None
    assert pods.verbs == VERBS
    assert pods.subresources == {"binding", "eviction", "log", "status"}
    assert pods.patch_schema is pods.schema
    assert pods.storage == pods.resource
    assert pods.from_storage(pods.to_storage(obj := {"a": 1})) is obj


def test_versions_are_in_the_order_of_their_age() -> None:
    """The most stable and newest first."""
    names = ["v1alpha1", "v1", "v2beta1", "foo", "v10", "v2", "v2beta2"]
    ordered = sorted(names, key=version_order)
    assert ordered == ["v10", "v2", "v1", "v2beta2", "v2beta1", "v1alpha1", "foo"]
