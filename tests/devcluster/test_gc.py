"""Garbage collection along owner references."""

from __future__ import annotations

from typing import Any

import pytest

from gm.api.meta import Json
from gm.devcluster.deletion import DeleteOptions, delete
from gm.devcluster.gc import GarbageCollector
from gm.devcluster.namespaces import DefinitionCleaner
from tests.devcluster.core import Plain, Settler, crd, node, plain, pod, settle, widget

WIDGETS = "widgets.example.com"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class _World:
    """An API and its garbage collector, at rest between steps."""

    def __init__(self) -> None:
        self.api: Plain = plain()
        self.settler: Settler = settle(
            self.api, GarbageCollector(self.api.api), DefinitionCleaner(self.api.api)
        )

    def owner(self, name: str, **meta: Any) -> Json:
        return self.api.create(WIDGETS, widget(name, **meta))

    def pod(self, name: str, *owners: Json, block: bool = False, **meta: Any) -> Json:
        references = [_reference(owner, block=block) for owner in owners]
        return self.api.create("pods", pod(name, meta={"ownerReferences": references, **meta}))

    def delete(self, plural: str, name: str, policy: str = "") -> None:
        self.settler.settle()
        options = DeleteOptions(propagation_policy=policy)
        delete(self.api.api, self.api.info(plural), self.api.key(plural, name), options)
        self.settler.settle()

    @property
    def pods(self) -> list[str]:
        self.settler.settle()
        return self.api.names("pods")

    @property
    def owners(self) -> list[str]:
        self.settler.settle()
        return self.api.names(WIDGETS)


def _reference(owner: Json, *, block: bool = False, **fields: Any) -> Json:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
        **fields,
    }


@pytest.fixture
def world() -> _World:
    """An empty one."""
    return _World()


def test_dependents_go_with_their_owner(world: _World) -> None:
    """In the background; others stay."""
    owner = world.owner("w")
    world.pod("a", owner)
    world.pod("b", owner, block=True)
    world.pod("free")
    assert world.pods == ["a", "b", "free"]
    world.delete(WIDGETS, "w")
    assert world.pods == ["free"]


def test_a_chain_goes_link_by_link(world: _World) -> None:
    """Owner, dependent, and the dependent's dependent."""
    owner = world.owner("w")
    middle = world.owner("m", ownerReferences=[_reference(owner)])
    world.pod("p", middle)
    world.delete(WIDGETS, "w")
    assert (world.owners, world.pods) == ([], [])


def test_an_object_lives_as_long_as_one_owner_does(world: _World) -> None:
    """And forgets those that are gone."""
    one, two = world.owner("one"), world.owner("two")
    world.pod("p", one, two)
    world.delete(WIDGETS, "one")
    assert world.pods == ["p"]
    (left,) = world.api.get("pods", "p")["metadata"]["ownerReferences"]
    assert left["name"] == "two"
    world.delete(WIDGETS, "two")
    assert world.pods == []


def test_an_object_whose_owner_never_existed_goes(world: _World) -> None:
    """Created too late: the owner was deleted meanwhile."""
    owner = world.owner("w")
    world.delete(WIDGETS, "w")
    world.pod("late", owner)
    assert world.pods == []


def test_another_object_of_the_same_name_is_no_owner(world: _World) -> None:
    """The uid counts."""
    old = world.owner("w")
    world.delete(WIDGETS, "w")
    new = world.owner("w")
    world.pod("old", old)
    world.pod("new", new)
    assert world.pods == ["new"]


def test_an_owner_of_an_unknown_kind_is_left_alone(world: _World) -> None:
    """Nobody can tell whether it exists."""
    owner = {"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": "y", "uid": "u"}}
    world.pod("p", owner)
    assert world.pods == ["p"]


def test_owners_are_in_the_same_namespace(world: _World) -> None:
    """One elsewhere does not count."""
    owner = world.api.create(WIDGETS, widget("w"), namespace="kube-system")
    world.pod("p", owner)
    assert world.pods == []


def test_a_cluster_scoped_owner(world: _World) -> None:
    """Nodes own pods of any namespace."""
    world.pod("p", world.api.create("nodes", node("n")))
    assert world.pods == ["p"]
    world.delete("nodes", "n")
    assert world.pods == []


def test_foreground_keeps_the_owner_until_its_dependents_are_gone(world: _World) -> None:
    """Only those that block it."""
    owner = world.owner("w")
    world.pod("held", owner, block=True, finalizers=["x.io/f"])
    world.pod("quick", owner, block=True)
    world.pod("loose", owner)
    world.delete(WIDGETS, "w", "Foreground")
    assert (world.owners, world.pods) == (["w"], ["held"])
    assert world.api.get(WIDGETS, "w")["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.api.patch("pods", "held", _without_finalizers)
    assert (world.pods, world.owners) == ([], [])


def test_foreground_does_not_wait_for_those_that_do_not_block(world: _World) -> None:
    """They are deleted all the same."""
    world.pod("p", world.owner("w"), finalizers=["x.io/f"])
    world.delete(WIDGETS, "w", "Foreground")
    assert world.owners == []
    assert "deletionTimestamp" in world.api.get("pods", "p")["metadata"]


def test_foreground_without_dependents_ends_at_once(world: _World) -> None:
    """There is nothing to wait for."""
    world.owner("w")
    world.delete(WIDGETS, "w", "Foreground")
    assert world.owners == []


def test_foreground_goes_down_the_chain(world: _World) -> None:
    """The middle one waits for its own dependents in turn."""
    owner = world.owner("w")
    middle = world.owner("m", ownerReferences=[_reference(owner, block=True)])
    world.pod("p", middle, block=True, finalizers=["x.io/f"])
    world.delete(WIDGETS, "w", "Foreground")
    assert world.owners == ["m", "w"]
    assert world.api.get(WIDGETS, "m")["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.api.patch("pods", "p", _without_finalizers)
    assert (world.pods, world.owners) == ([], [])


def test_orphaning_leaves_the_dependents(world: _World) -> None:
    """Without the reference, so that nobody collects them later."""
    owner = world.owner("w")
    world.pod("p", owner)
    world.delete(WIDGETS, "w", "Orphan")
    assert (world.owners, world.pods) == ([], ["p"])
    assert "ownerReferences" not in world.api.get("pods", "p")["metadata"]


def test_dependents_of_a_kind_whose_definition_goes_are_collected(world: _World) -> None:
    """The CRD takes its objects along, and those take theirs."""
    world.api.create(CRDS, crd("Gadget"))
    gadget = {**widget("g"), "kind": "Gadget"}
    owner = world.api.create("gadgets.example.com", gadget)
    world.pod("p", owner)
    assert world.pods == ["p"]
    world.delete(CRDS, "gadgets.example.com")
    assert world.pods == []
    assert world.api.find(CRDS, "gadgets.example.com") is None


def test_a_reference_that_is_taken_away_frees_the_object(world: _World) -> None:
    """Adopted by nobody, it stays."""
    world.pod("p", world.owner("w"))
    world.api.patch(
        "pods", "p", lambda p: {**p, "metadata": {**p["metadata"], "ownerReferences": None}}
    )
    world.settler.settle()
    world.delete(WIDGETS, "w")
    assert world.pods == ["p"]


def test_what_is_known_of_deleted_owners_is_bounded(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with every deletion."""
    monkeypatch.setattr("gm.devcluster.gc._MAX_GONE", 3)
    collector = GarbageCollector(world.api.api)
    settler = settle(world.api, collector)
    for n in range(10):
        world.owner(f"w{n}")
        delete(
            world.api.api,
            world.api.info(WIDGETS),
            world.api.key(WIDGETS, f"w{n}"),
            DeleteOptions(),
        )
    settler.settle()
    assert len(collector._gone) == 3
    assert collector._dependents == {}


def _without_finalizers(obj: Json) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "finalizers": None}}


def test_an_object_may_name_itself(world: _World) -> None:
    """It exists as long as it is there; orphaning it ends well, too."""
    me = world.owner("w")
    world.api.patch(
        WIDGETS,
        "w",
        lambda w: {**w, "metadata": {**w["metadata"], "ownerReferences": [_reference(me)]}},
    )
    assert world.owners == ["w"]
    world.delete(WIDGETS, "w", "Orphan")
    assert world.owners == []


def test_objects_whose_kind_is_served_no_more_are_left_alone(world: _World) -> None:
    """There is no way to write them."""
    owner = world.owner("w")
    place = world.api.key(WIDGETS, "w")
    machine = world.api.create("nodes", node("n"))
    world.owner("dependent", ownerReferences=[_reference(machine), _reference(owner)])
    world.api.api.remove(world.api.info(WIDGETS), place)
    world.pod("p", machine)
    node_key = world.api.key("nodes", "n")
    options = DeleteOptions(propagation_policy="Orphan")
    delete(world.api.api, world.api.info("nodes"), node_key, options)
    world.api.api.registry.remove_crd("widgets.example.com")
    world.settler.settle()
    (left,) = world.api.store.table(WIDGETS).records()
    assert world.pods == ["p"]
    assert "deletionTimestamp" not in world.api.get("pods", "p")["metadata"]
    assert len(left.meta["ownerReferences"]) == 2
    assert world.api.names("nodes") == []


def test_an_object_that_asks_to_orphan_its_own_keeps_that_wish(world: _World) -> None:
    """The collector deletes it as its finalizer says."""
    owner = world.owner("w")
    middle = world.owner("m", ownerReferences=[_reference(owner)], finalizers=["orphan"])
    world.pod("p", middle)
    world.delete(WIDGETS, "w")
    assert (world.owners, world.pods) == ([], ["p"])
