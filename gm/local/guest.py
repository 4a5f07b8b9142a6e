"""What a demo makes in a cluster that is not its own, and how it is removed again."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from gm.api.crd import crds
from gm.api.meta import Json, ObjectKey, ResourceType
from gm.api.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EDGE_NODES,
    LEASES,
    NAMESPACES,
    NODES,
)
from gm.errors import AlreadyExists, ConfigError, NotFound, ServiceError, api_error
from gm.kube import Client

__all__ = ["LABEL", "Visit", "relocate", "visiting"]

LABEL = "sedna.io/demo"
"""Label of the namespaces that demos make: ``kubectl get namespaces -l sedna.io/demo``."""

_LEASE_NAMESPACE = "kube-node-lease"
_SERVED_SECONDS = 60.0
_GONE_SECONDS = 90.0
_LOOK_SECONDS = 0.2


def relocate(objects: Sequence[Json], *, namespace: str, nodes: Mapping[str, str]) -> list[Json]:
    """Copies of ``objects`` for another namespace and with other nodes' names."""

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: nodes.get(inner, inner)
                if key == "nodeName" and isinstance(inner, str)
                else moved(inner)
                for key, inner in value.items()
            }
        return [moved(each) for each in value] if isinstance(value, list) else value

    return [
        {**moved(each), "metadata": {**(each.get("metadata") or {}), "namespace": namespace}}
        for each in objects
    ]


@contextlib.asynccontextmanager
async def visiting(
    client: Client, nodes: Sequence[str], *, say: Callable[[str], None]
) -> AsyncIterator[Visit]:
    """CRDs and a namespace of one's own as long as the body; then all that was made is removed.

    ``nodes`` are short names; ``Visit.nodes`` maps them to those that this visit may use. CRDs that
    were there before are left as they are.
    Raises: ConfigError if one of them is not what this gm needs, before anything is made.
    """
    missing = await _missing_definitions(client)
    visit = Visit(client, f"gm-demo-{secrets.token_hex(3)}", nodes, say=say)
    try:
        await visit.arrive(missing)
        yield visit
    finally:
        await visit.leave()


class Visit:
    """One demo's stay in a cluster; made by :func:`visiting`."""

    def __init__(
        self, client: Client, name: str, nodes: Sequence[str], *, say: Callable[[str], None]
    ) -> None:
        self.namespace = name
        self.nodes = {node: f"{name}-{node}" for node in nodes}
        self._client, self._say = client, say
        self._definitions: dict[str, str] = {}  # names of the CRDs that are ours -> uids
        self._has_namespace = False

    async def arrive(self, definitions: Sequence[Json]) -> None:
        """Create the CRDs that are missing, and the namespace. Raises: ServiceError."""
        for definition in definitions:
            await self._define(definition)
        for definition in definitions:
            await self._wait_served(definition)
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": {LABEL: ""}},
        }
        await self._client.create(NAMESPACES, "", body)
        self._has_namespace = True
        self._say(f"namespace {self.namespace} created; it is removed at the end, with the nodes")

    @contextlib.asynccontextmanager
    async def staying(self) -> AsyncIterator[None]:
        """The namespace is emptied and removed at the end of the body.

        The nodes must still run then: only they can say that their pods have ended.
        """
        try:
            yield
        finally:
            await self._drop_namespace()

    async def leave(self) -> None:
        """Remove everything that was made; GM and the nodes must have stopped."""
        await self._drop_namespace()
        for name in self.nodes.values():
            await self._drop(EDGE_NODES, ObjectKey("", name))
            await self._drop(NODES, ObjectKey("", name))
            await self._drop(LEASES, ObjectKey(_LEASE_NAMESPACE, name))
        await self._drop_definitions()

    # -- CRDs -----------------------------------------------------------------------------

    async def _define(self, definition: Json) -> None:
        name = definition["metadata"]["name"]
        try:
            created = await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        except AlreadyExists:
            return  # somebody was quicker: it is theirs
        self._definitions[name] = msgspec.json.decode(created)["metadata"]["uid"]
        self._say(f"customresourcedefinition.apiextensions.k8s.io/{name} created")

    async def _wait_served(self, definition: Json) -> None:
        kind = _defined(definition)

        async def is_served() -> bool:
            try:
                await self._client.list(kind, limit=1)
            except NotFound:
                return False
            return True

        if not await _come_true(is_served, _SERVED_SECONDS):
            raise ConfigError(
                f"the cluster does not serve {kind.qualified} {_SERVED_SECONDS:.0f} s after its "
                f"definition was created; see `kubectl describe crd {kind.qualified}`"
            )

    async def _drop_definitions(self) -> None:
        """Remove the CRDs that this visit made, unless somebody has begun to use them."""
        if not self._definitions:
            return
        if used := await self._users():
            names = " ".join(self._definitions)
            self._say(f"left in the cluster, since {used}: crd {names}")
            return
        for name, uid in self._definitions.items():
            await self._drop(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey("", name), uid=uid)

    async def _users(self) -> str:
        """Why the CRDs must stay; empty if nobody uses them."""
        try:
            listed = await self._client.list(NAMESPACES, label_selector=LABEL)
            names = [msgspec.json.decode(raw)["metadata"]["name"] for raw in listed.items]
            if others := [name for name in names if name != self.namespace]:
                return f"another demo may need them (namespace {others[0]})"
            for definition in crds():
                kind = _defined(definition)
                if kind.qualified not in self._definitions:
                    continue
                found = [msgspec.json.decode(raw) for raw in (await self._client.list(kind)).items]
                for each in found:
                    if each["metadata"].get("namespace") != self.namespace:
                        return f"{kind.kind} {each['metadata']['name']} is not of this demo"
        except ServiceError as exc:
            return f"it can not be told whether they are used ({exc})"
        return ""

    # -- removal --------------------------------------------------------------------------

    async def _drop_namespace(self) -> None:
        if not self._has_namespace:
            return
        self._has_namespace = False
        self._say(f"removing namespace {self.namespace} and what is in it")
        await self._drop(NAMESPACES, ObjectKey("", self.namespace))

    async def _drop(
        self, resource: ResourceType, key: ObjectKey, *, uid: str | None = None
    ) -> None:
        """Remove an object and wait until it is gone; what fails is said, and how to do it."""
        why = ""
        try:
            await self._client.delete(resource, key, uid=uid, propagation_policy="Background")

            async def is_gone() -> bool:
                try:
                    await self._client.get(resource, key)
                except NotFound:
                    return True
                return False

            if not await _come_true(is_gone, _GONE_SECONDS):
                why = f"it is still there after {_GONE_SECONDS:.0f} s"
        except NotFound:
            return
        except ServiceError as exc:
            why = str(exc)
        if why:
            command = f"kubectl delete {resource.qualified} {key.name}"
            where = f" -n {key.namespace}" if key.namespace else ""
            self._say(f"{resource.kind} {key.name} was not removed: {why}; try {command}{where}")


def _defined(definition: Json) -> ResourceType:
    """The kind that one of our CRDs defines."""
    spec = definition["spec"]
    return ResourceType(
        group=spec["group"],
        version=spec["versions"][0]["name"],
        kind=spec["names"]["kind"],
        plural=spec["names"]["plural"],
        namespaced=spec["scope"] == "Namespaced",
    )


async def _missing_definitions(client: Client) -> list[Json]:
    """Our CRDs that the cluster lacks. Raises: ConfigError if one that it has is another."""
    missing = []
    for definition in crds():
        name = definition["metadata"]["name"]
        try:
            raw = await client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey("", name))
        except NotFound:
            missing.append(definition)
            continue
        live: Json = msgspec.json.decode(raw)
        if "deletionTimestamp" in live["metadata"]:
            raise ConfigError(f"the cluster is just removing its CRD {name}; try again when it is")
        if not await _is_equal(client, live, definition["spec"]):
            raise ConfigError(
                f"the cluster has another version of the CRD {name}, and a demo does not change "
                "it: see `gm crds | kubectl diff -f -`, and `gm crds | kubectl apply -f -` if "
                "nothing there needs the old one"
            )
    return missing


async def _is_equal(client: Client, live: Json, spec: Json) -> bool:
    """Whether ``live`` would stay as it is if it got ``spec``.

    The server itself is asked, by a dry run: it knows what it fills in.
    """
    path = CUSTOM_RESOURCE_DEFINITIONS.path("", live["metadata"]["name"])
    answer = await client.raw(
        "PUT", path, query={"dryRun": "All"}, body=msgspec.json.encode({**live, "spec": spec})
    )
    if answer.status == 422:
        return False
    body: Json = msgspec.json.decode(answer.body)
    if answer.status != 200:
        reason, message = body.get("reason", ""), body.get("message", "")
        raise api_error(f"PUT {path}", code=answer.status, reason=reason, message=message)
    return bool(body["spec"] == live["spec"])


async def _come_true(condition: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Look again and again, for so long, whether ``condition`` has come true."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                if await condition():
                    return True
                await asyncio.sleep(_LOOK_SECONDS)
    return False
