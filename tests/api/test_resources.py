"""The kinds that this program reads or writes."""

from __future__ import annotations

from gm.api import resources, sedna
from gm.api.meta import ResourceType

KINDS = [value for value in vars(resources).values() if isinstance(value, ResourceType)]


def test_every_kind_is_exported_once() -> None:
    """No two names for one kind."""
    exported = [getattr(resources, name) for name in resources.__all__]
    assert [kind for kind in exported if isinstance(kind, ResourceType)] != []
    assert len({kind.qualified for kind in KINDS}) == len(KINDS)
    assert {id(kind) for kind in KINDS} <= {id(value) for value in exported}


def test_every_kind_of_ours_has_a_view_of_that_name() -> None:
    """The informer's view is found by the kind's name."""
    ours = [kind for kind in KINDS if kind.group == resources.GROUP]
    assert len(ours) == 6
    for kind in ours:
        assert kind.api_version == "sedna.io/v1alpha1"
        assert hasattr(sedna, kind.kind)


def test_only_edge_nodes_lie_outside_namespaces() -> None:
    """As Sedna's kinds do, all others lie in one."""
    ours = [kind for kind in KINDS if kind.group == resources.GROUP]
    assert [kind.plural for kind in ours if not kind.namespaced] == ["edgenodes"]
