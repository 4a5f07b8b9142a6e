"""Which pods this node runs, when it is a guest in somebody's cluster."""

from __future__ import annotations

import msgspec

from gm.api import resources
from gm.api.meta import ObjectKey, OwnerReference, PartialObject, ResourceType, controller_of
from gm.edge_stub.settings import RunnerSettings
from gm.errors import NotFound
from gm.kube import Client

__all__ = ["refusal"]

_KINDS = {
    known.kind: known
    for known in (
        resources.FEDERATED_LEARNING_JOBS,
        resources.JOINT_INFERENCE_SERVICES,
        resources.INCREMENTAL_LEARNING_JOBS,
    )
}
_decode = msgspec.json.Decoder(PartialObject).decode


async def refusal(client: Client, settings: RunnerSettings, pod: PartialObject) -> str:
    """Why this node does not run ``pod``; empty if it does.

    Local processes have no walls around them, so on a shared cluster only pods of sedna.io
    objects are run: the controller must exist with that very uid, as an owner reference alone
    can be written by anybody.
    Raises: ServiceError if the controller can not be read.
    """
    if settings.any_pod:
        return ""
    meta = pod.metadata
    if settings.namespace and meta.namespace != settings.namespace:
        return f"this node runs pods of namespace {settings.namespace} only (gm runner)"
    owner = controller_of(meta)
    if owner is None or owner.api_version.partition("/")[0] != resources.GROUP:
        return "this node runs pods of sedna.io objects only (gm runner, not a kubelet)"
    try:
        found = _decode(await client.get(_resource(owner), ObjectKey(meta.namespace, owner.name)))
    except NotFound:
        found = None
    if found is None or found.metadata.uid != owner.uid:
        return f"the pod's controller, {owner.kind} {owner.name} with uid {owner.uid}, is not there"
    return ""


def _resource(owner: OwnerReference) -> ResourceType:
    known = _KINDS.get(owner.kind)
    if known is not None and known.api_version == owner.api_version:
        return known
    group, _, version = owner.api_version.partition("/")
    return ResourceType(
        group=group, version=version, kind=owner.kind, plural=f"{owner.kind.lower()}s"
    )
