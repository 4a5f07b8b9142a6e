"""Which changes of objects concern a job."""

from __future__ import annotations

from gm.api.core import Node
from gm.api.sedna import Dataset, FederatedLearningJob, Model
from gm.kube.lister import Event, EventType

__all__ = ["node_changed", "only_status_changed", "spec_changed"]


def spec_changed(event: Event[Model] | Event[Dataset]) -> bool:
    """Metrics and sample counts come often and mean nothing to a job's children."""
    if event.new is None or event.old is None:
        return True
    return event.new.view.spec != event.old.view.spec


def only_status_changed(event: Event[FederatedLearningJob]) -> bool:
    """Our own write comes back, or an edge has reported."""
    if event.type is not EventType.MODIFIED or event.new is None or event.old is None:
        return False
    new, old = event.new.view.metadata, event.old.view.metadata
    return new.generation == old.generation and not new.deletion_timestamp


def node_changed(event: Event[Node]) -> bool:
    """Kubelets write their Node's heartbeat every few minutes at least."""
    if event.new is None or event.old is None:
        return True
    return _node_facts(event.new.view) != _node_facts(event.old.view)


def _node_facts(node: Node) -> tuple[object, ...]:
    ready = [c.status for c in node.status.conditions or () if c.type == "Ready"]
    return node.status.addresses, tuple(ready)
