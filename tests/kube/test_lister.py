"""The lister: by key, namespace and owner."""

from __future__ import annotations

import pytest

from gm.api.meta import ObjectKey, ObjectMeta, OwnerReference, PartialObject
from gm.kube.lister import Lister, Stored


def stored(
    name: str, *, namespace: str = "ns", owner: str = "", version: str = "1", controls: bool = True
) -> Stored[PartialObject]:
    """An object, owned by the controller with uid ``owner``."""
    owners = (
        OwnerReference(api_version="v1", kind="Job", name="j", uid="other"),
        OwnerReference(
            api_version="v1", kind="Job", name="j", uid=owner, controller=controls or None
        ),
    )
    meta = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"uid-{name}",
        resource_version=version,
        owner_references=owners if owner else None,
    )
    view = PartialObject(metadata=meta)
    return Stored(meta.key, meta.uid, meta.resource_version, view, b"{}")


@pytest.fixture
def lister() -> Lister[PartialObject]:
    """Two pods of owner o, one of owner p, one without, in two namespaces."""
    filled: Lister[PartialObject] = Lister()
    filled.put(stored("a", owner="o"))
    filled.put(stored("b", owner="o"))
    filled.put(stored("c", owner="p"))
    filled.put(stored("d", namespace="other"))
    return filled


def names(found: list[Stored[PartialObject]]) -> list[str]:
    """Their names."""
    return [each.key.name for each in found]


def test_objects_are_found_by_key(lister: Lister[PartialObject]) -> None:
    """And None where there is none."""
    found = lister.get(ObjectKey("ns", "a"))
    assert found is not None
    assert found.uid == "uid-a"
    assert lister.get(ObjectKey("ns", "x")) is None
    assert ObjectKey("ns", "a") in lister
    assert ObjectKey("other", "a") not in lister
    assert len(lister) == len(list(lister)) == 4


def test_objects_are_listed_by_namespace(lister: Lister[PartialObject]) -> None:
    """All without one."""
    assert names(lister.list("ns")) == ["a", "b", "c"]
    assert names(lister.list("other")) == ["d"]
    assert names(lister.list()) == ["a", "b", "c", "d"]


def test_objects_are_found_by_their_controller(lister: Lister[PartialObject]) -> None:
    """Only owners that control count."""
    assert names(lister.owned_by("o")) == ["a", "b"]
    assert names(lister.owned_by("other")) == []
    lister.put(stored("e", owner="o", controls=False))
    assert names(lister.owned_by("o")) == ["a", "b"]


def test_a_new_version_moves_an_object_to_its_new_owner(lister: Lister[PartialObject]) -> None:
    """Adoption: the index follows."""
    lister.put(stored("a", owner="p", version="2"))
    assert names(lister.owned_by("o")) == ["b"]
    assert sorted(names(lister.owned_by("p"))) == ["a", "c"]
    assert len(lister) == 4


def test_a_removed_object_leaves_nothing(lister: Lister[PartialObject]) -> None:
    """Neither under its key nor with its owner."""
    for name in "abc":
        lister.remove(ObjectKey("ns", name))
    lister.remove(ObjectKey("ns", "never there"))
    lister.remove(ObjectKey("other", "d"))
    assert len(lister) == 0
    assert not lister._by_owner
