"""Jobs that do not fit the types of this program: an older CRD, or none, let them through."""

from __future__ import annotations

import msgspec

from gm.api.meta import Json, ObjectKey, PartialObject
from gm.api.resources import FEDERATED_LEARNING_JOBS
from gm.controllers.conditions import now, set_condition, status_of, status_patch
from gm.controllers.federatedlearning.state import Phase
from gm.controllers.federatedlearning.status import notices
from gm.controllers.federatedlearning.verdict import is_finished
from gm.errors import NotFound
from gm.kube import nesting
from gm.kube.client import Client
from gm.kube.recorder import EventRecorder, ObjectRef

__all__ = ["explained", "tell_unreadable"]

_decode_partial = msgspec.json.Decoder(PartialObject).decode


async def tell_unreadable(
    client: Client, recorder: EventRecorder, key: ObjectKey, why: str
) -> None:
    """Say in status and event of job ``key`` what is wrong with it; what runs goes on.

    ``why`` is what the decoder said.

    Raises: ServiceError; a Conflict is to be tried again.
    """
    try:
        raw = await client.get(FEDERATED_LEARNING_JOBS, key)
        if nesting.is_too_deep(raw):
            raw = nesting.outline(raw)
        meta = _decode_partial(raw).metadata
        old = status_of(raw)
        if meta.deletion_timestamp is not None or is_finished(old):
            return
        new = _with_problem(old, meta.generation, why)
        patch = status_patch(old, new, resource_version=meta.resource_version)
        if patch is None:
            return
        await client.patch(FEDERATED_LEARNING_JOBS, key, patch, subresource="status")
    except NotFound:
        return
    involved = ObjectRef(
        api_version=FEDERATED_LEARNING_JOBS.api_version,
        kind=FEDERATED_LEARNING_JOBS.kind,
        namespace=key.namespace,
        name=key.name,
        uid=meta.uid,
    )
    for notice in notices(old, new):
        recorder.event(involved, type=notice.type, reason=notice.reason, message=notice.message)


def _with_problem(old: Json, generation: int, why: str) -> Json:
    status: Json = {**old, "observedGeneration": generation}
    status.setdefault("phase", str(Phase.PENDING))
    message = f"{explained(why)}; correct it, until then the job is left as it is"
    set_condition(status, "InvalidSpec", at=now(), reason="InvalidSpec", message=message)
    return status


def explained(why: str) -> str:
    """The decoder's words with the field first, as all problems of a spec are told."""
    words, _, place = why.partition(" - at ")
    words = words.replace("`", "").replace(" | null", "")
    field = place.strip("`").removeprefix("$").removeprefix(".") or "the object"
    return f"{field}: {words[:1].lower()}{words[1:]}"
