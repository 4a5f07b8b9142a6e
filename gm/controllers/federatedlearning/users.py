"""Which jobs refer to a thing, and which of them train the same model."""

from __future__ import annotations

import bisect
from datetime import UTC, datetime

from gm.api.meta import ObjectKey
from gm.api.sedna import FederatedLearningJob
from gm.controllers.conditions import status_of
from gm.controllers.federatedlearning.references import names_of
from gm.controllers.federatedlearning.verdict import is_finished
from gm.controllers.placement import template_node
from gm.kube.lister import Stored

__all__ = ["Rivals", "Users"]

_LAST = datetime.max.replace(tzinfo=UTC)


class Users:
    """Which jobs refer to a model, dataset or node."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, ObjectKey], set[ObjectKey]] = {}
        self._things: dict[ObjectKey, set[tuple[str, ObjectKey]]] = {}

    def set(self, job: Stored[FederatedLearningJob]) -> None:
        """Remember what ``job`` refers to, in place of what it did before."""
        names, namespace = names_of(job.view), job.key.namespace
        things = {("model", ObjectKey(namespace, name)) for name in names.models}
        things |= {("dataset", ObjectKey(namespace, name)) for name in names.datasets}
        if not is_finished(status_of(job.raw)):
            aggregator = job.view.spec.aggregation_worker
            nodes = {template_node(aggregator.template, aggregator.node_name)}
            nodes |= {
                template_node(trainer.template, trainer.node_name)
                for trainer in job.view.spec.training_workers
            }
            nodes |= {entry.node for entry in job.view.status.workers or ()}
            things |= {("node", ObjectKey("", node)) for node in nodes if node}
        self.forget(job.key)
        self._things[job.key] = things
        for thing in things:
            self._jobs.setdefault(thing, set()).add(job.key)

    def forget(self, key: ObjectKey) -> None:
        """Job ``key`` is gone."""
        for thing in self._things.pop(key, ()):
            users = self._jobs[thing]
            users.discard(key)
            if not users:
                del self._jobs[thing]

    def of(self, kind: str, key: ObjectKey) -> frozenset[ObjectKey]:
        """Jobs that refer to it."""
        return frozenset(self._jobs.get((kind, key), ()))


_Place = tuple[ObjectKey, tuple[datetime, ObjectKey]]


class Rivals:
    """Unfinished jobs by the model that they train, the oldest first.

    Each is told of the one before it only: so the end of one concerns one other, however many
    there are.
    """

    def __init__(self) -> None:
        self._lines: dict[ObjectKey, list[tuple[datetime, ObjectKey]]] = {}
        self._places: dict[ObjectKey, _Place] = {}

    def set(self, job: Stored[FederatedLearningJob]) -> list[ObjectKey]:
        """``job`` is like this now. Returns: others that have another one before them."""
        place = _place(job)
        if place == self._places.get(job.key):
            return []
        concerned = self.forget(job.key)
        if place is not None:
            self._places[job.key] = place
            line = self._lines.setdefault(place[0], [])
            index = bisect.bisect_left(line, place[1])
            concerned += [key for _, key in line[index : index + 1]]
            line.insert(index, place[1])
        return concerned

    def forget(self, key: ObjectKey) -> list[ObjectKey]:
        """Job ``key`` is gone. Returns: others that have another one before them."""
        place = self._places.pop(key, None)
        if place is None:
            return []
        line = self._lines[place[0]]
        index = bisect.bisect_left(line, place[1])
        del line[index]
        if not line:
            del self._lines[place[0]]
        return [follower for _, follower in line[index : index + 1]]

    def before(self, key: ObjectKey) -> ObjectKey | None:
        """The unfinished job before job ``key`` that trains its model, if any."""
        place = self._places.get(key)
        if place is None:
            return None
        line = self._lines[place[0]]
        index = bisect.bisect_left(line, place[1])
        return line[index - 1][1] if index else None


def _place(job: Stored[FederatedLearningJob]) -> _Place | None:
    model = job.view.spec.aggregation_worker.model.name
    if not model or is_finished(status_of(job.raw)):
        return None
    created = job.view.metadata.creation_timestamp or _LAST
    return ObjectKey(job.key.namespace, model), (created, job.key)
