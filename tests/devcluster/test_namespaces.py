"""Deletion of namespaces and CRDs."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.namespaces import DefinitionCleaner, NamespaceCleaner
from tests.devcluster.core import Plain, Settler, plain, pod, settle, widget

WIDGETS = "widgets.example.com"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
NAMESPACE: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}


def _world() -> tuple[Plain, Settler]:
    api = plain()
    api.create("namespaces", NAMESPACE)
    return api, settle(api, NamespaceCleaner(api.api), DefinitionCleaner(api.api))


def _delete(api: Plain, plural: str, name: str, namespace: str = "x", **options: int) -> None:
    key = api.key(plural, name, namespace)
    delete(api.api, api.info(plural), key, DeleteOptions(**options))  # type: ignore[arg-type]


def test_an_empty_namespace_goes_at_once() -> None:
    """Its finalizer has nothing to wait for."""
    api, settler = _world()
    _delete(api, "namespaces", "x")
    settler.settle()
    assert "x" not in api.names("namespaces")
    assert "default" in api.names("namespaces")


def test_everything_in_a_namespace_goes_with_it() -> None:
    """Built-in and custom; what is elsewhere stays."""
    api, settler = _world()
    for namespace in ("x", "default"):
        api.create(WIDGETS, widget("w"), namespace=namespace)
        api.create("pods", pod("p"), namespace=namespace)
    _delete(api, "namespaces", "x")
    settler.settle()
    assert api.names(WIDGETS, namespace="x") == api.names("pods", namespace="x") == []
    assert api.names(WIDGETS) == ["w"]
    assert "x" not in api.names("namespaces")


def test_a_namespace_waits_for_finalizers_and_for_running_pods() -> None:
    """And goes with the last of them."""
    api, settler = _world()
    api.create(WIDGETS, widget("w", finalizers=["x.io/f"]), namespace="x")
    api.create("pods", pod("p", nodeName="n"), namespace="x")
    _delete(api, "namespaces", "x")
    settler.settle()
    assert api.get("namespaces", "x")["status"] == {"phase": "Terminating"}
    assert "deletionTimestamp" in api.get("pods", "p", namespace="x")["metadata"]
    _delete(api, "pods", "p", grace_period_seconds=0)
    settler.settle()
    assert api.names(WIDGETS, namespace="x") == ["w"]
    record = api.find(WIDGETS, "w", namespace="x")
    assert record is not None
    meta = {k: v for k, v in record.meta.items() if k != "finalizers"}
    api.api.commit(api.info(WIDGETS), record, {**record.object, "metadata": meta})
    settler.settle()
    assert "x" not in api.names("namespaces")


def test_a_namespace_with_a_finalizer_of_its_own_is_emptied_and_stays() -> None:
    """metadata.finalizers belong to somebody else."""
    api = plain()
    meta = {"name": "x", "finalizers": ["x.io/f"]}
    api.create("namespaces", {**NAMESPACE, "metadata": meta})
    settler = settle(api, NamespaceCleaner(api.api))
    _delete(api, "namespaces", "x")
    settler.settle()
    left = api.get("namespaces", "x")
    assert left["spec"] == {"finalizers": []}
    api.patch("namespaces", "x", lambda n: {**n, "metadata": {**n["metadata"], "finalizers": None}})
    assert "x" not in api.names("namespaces")


def test_a_crd_takes_its_objects_along() -> None:
    """Then it is served no more."""
    api, settler = _world()
    api.create(WIDGETS, widget("w"))
    api.create(WIDGETS, widget("w"), namespace="x")
    _delete(api, CRDS, WIDGETS)
    settler.settle()
    assert api.names(CRDS) == []
    assert api.store.table(WIDGETS).keys() == []
    assert api.api.registry.lookup("example.com", "v1", "widgets") is None


def test_a_crd_waits_for_the_finalizers_of_its_objects() -> None:
    """It is served until they are gone."""
    api, settler = _world()
    api.create(WIDGETS, widget("w", finalizers=["x.io/f"]))
    _delete(api, CRDS, WIDGETS)
    settler.settle()
    assert api.names(CRDS) == [WIDGETS]
    api.patch(WIDGETS, "w", lambda w: {**w, "metadata": {**w["metadata"], "finalizers": None}})
    settler.settle()
    assert api.names(CRDS) == []
