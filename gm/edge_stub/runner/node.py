"""The Node object and its Lease: what the cluster knows of this node, and that it lives."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gm import __version__
from gm.api.meta import Json, ObjectKey
from gm.api.resources import LEASES, NAMESPACES, NODES
from gm.edge_stub.runner.settings import RunnerSettings, Tuning
from gm.edge_stub.runner.status import stamp
from gm.errors import AlreadyExists, ConfigError, Conflict, NotFound, ServiceError
from gm.kube import MERGE_PATCH, Client

__all__ = ["NodeKeeper", "machine_resources", "runner_identity"]

logger = logging.getLogger(__name__)

IDENTITY = "sedna.io/runner"
"""Annotation of a Node: which runner made it."""

TAINT = "sedna.io/runner"
"""Taint that keeps other people's pods off, unless the node runs pods of any owner."""

NOT_READY = "node.kubernetes.io/not-ready"
_LEASE_NAMESPACE = "kube-node-lease"
_MAX_PODS = "110"
_REPEATED_CONDITIONS = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "gm runner does not watch memory"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "gm runner does not watch disks"),
    "PIDPressure": ("KubeletHasSufficientPID", "gm runner does not watch process ids"),
}


def runner_identity(directory: Path) -> str:
    """A random name of the runner whose state lies in ``directory``; made the first time."""
    path = directory / "runner-id"
    if not path.exists():
        temporary = path.with_suffix(".new")
        temporary.write_text(str(uuid.uuid4()))
        temporary.replace(path)
    return path.read_text().strip()


def machine_resources(directory: Path) -> dict[str, str]:
    """Capacity of this machine as a Node tells it; disk space is that of ``directory``."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    disk = os.statvfs(directory)
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{pages * page_bytes // 1024}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
        "pods": _MAX_PODS,
    }


class NodeKeeper:
    """Registers the Node and keeps it and its Lease fresh.

    ``port`` is where the log endpoint listens.
    """

    def __init__(
        self,
        client: Client,
        settings: RunnerSettings,
        tuning: Tuning,
        *,
        identity: str,
        resources: Mapping[str, str],
        port: int,
    ) -> None:
        self._client, self._settings, self._tuning = client, settings, tuning
        self._identity, self._resources, self._port = identity, dict(resources), port
        self._key = ObjectKey("", settings.node)
        self._lease_key = ObjectKey(_LEASE_NAMESPACE, settings.node)
        self._heartbeat_at = 0.0
        self._is_stopping = False

    async def register(self) -> None:
        """Create the Node, or take the one that this runner made earlier; then it is Ready.

        Raises: ConfigError if a Node of this name is somebody else's; ServiceError.
        """
        await self._refresh()
        await self._renew_lease()

    async def run(self) -> None:
        """Keep Node and Lease fresh until cancelled; retries for ever."""
        while True:
            await asyncio.sleep(self._tuning.lease_renew_seconds)
            try:
                await self._renew_lease()
                await self._refresh()
            except ServiceError as exc:
                logger.warning(
                    "node not kept fresh", extra={"node": self._key.name, "why": str(exc)}
                )

    async def mark_not_ready(self) -> None:
        """Say that the node has stopped. Raises: ServiceError."""
        self._is_stopping = True
        await self._refresh()

    async def _refresh(self) -> None:
        """Make the Node what it should be; writes only what differs."""
        while True:
            try:
                node = await self._own_node()
                node = await self._patch(node, {"status": self._status_patch(node)}, "status")
                await self._patch(node, {"spec": self._spec_patch(node)})
                return
            except (AlreadyExists, Conflict):
                continue  # somebody wrote meanwhile: look again

    async def _own_node(self) -> Json:
        try:
            node: Json = msgspec.json.decode(await self._client.get(NODES, self._key))
        except NotFound:
            created = await self._client.create(NODES, "", self._new_node())
            node = msgspec.json.decode(created)
        maker = (node["metadata"].get("annotations") or {}).get(IDENTITY)
        if maker != self._identity:
            name = self._key.name
            whose = "by another runner" if maker else "not by a gm runner"
            raise ConfigError(
                f"node {name} exists already and was made {whose}: choose another --name, or "
                f"remove it with `kubectl delete node {name}` if nothing uses it"
            )
        return node

    async def _patch(self, node: Json, change: Json, subresource: str = "") -> Json:
        """Merge ``change``, whose one field may be empty, into ``node`` as it was read."""
        if not any(change.values()):
            return node
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        answer = await self._client.patch(
            NODES,
            self._key,
            {"metadata": version, **change},
            subresource=subresource,
            content_type=MERGE_PATCH,
        )
        patched: Json = msgspec.json.decode(answer)
        return patched

    def _new_node(self) -> Json:
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(
            platform.machine(), platform.machine()
        )
        labels = {
            "kubernetes.io/hostname": self._key.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": machine,
            **self._settings.labels,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self._key.name,
                "labels": labels,
                "annotations": {IDENTITY: self._identity},
            },
            "spec": {"taints": self._wanted_taints([])},
        }

    def _wanted_taints(self, current: list[Json]) -> list[Json]:
        own = {TAINT} if self._is_stopping else {TAINT, NOT_READY}
        taints = [taint for taint in current if taint["key"] not in own]
        if not self._settings.any_pod:
            taints.append({"key": TAINT, "effect": "NoSchedule"})
        return taints

    def _spec_patch(self, node: Json) -> Json:
        current = (node.get("spec") or {}).get("taints") or []
        wanted = self._wanted_taints(current)
        same = sorted(map(_taint, wanted)) == sorted(map(_taint, current))
        return {} if same else {"taints": wanted or None}

    def _status_patch(self, node: Json) -> Json:
        current = node.get("status") or {}
        now, clock = datetime.now(UTC), asyncio.get_running_loop().time()
        is_due = clock >= self._heartbeat_at
        conditions, changed = self._conditions(current.get("conditions") or [], now, is_due=is_due)
        wanted: Json = {
            "addresses": [{"type": "InternalIP", "address": self._settings.address}],
            "capacity": self._resources,
            "allocatable": self._resources,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": _node_info(),
        }
        patch = {field: value for field, value in wanted.items() if current.get(field) != value}
        if changed or is_due:
            patch["conditions"] = conditions
            self._heartbeat_at = clock + self._tuning.heartbeat_seconds
        return patch

    def _conditions(
        self, current: list[Json], now: datetime, *, is_due: bool
    ) -> tuple[list[Json], bool]:
        """All conditions, those of others unchanged, and whether one of ours must be written."""
        ready = (
            ("Ready", "False", "RunnerStopped", "the gm runner was stopped")
            if self._is_stopping
            else ("Ready", "True", "KubeletReady", "the gm runner is posting ready status")
        )
        wanted = [(kind, "False", *why) for kind, why in _REPEATED_CONDITIONS.items()]
        conditions = {condition["type"]: condition for condition in current}
        changed = False
        for kind, state, reason, message in [*wanted, ready]:
            old = conditions.get(kind, {})
            is_new = (old.get("status"), old.get("reason")) != (state, reason)
            changed |= is_new
            conditions[kind] = {
                "type": kind,
                "status": state,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": stamp(now)
                if is_due or is_new
                else old.get("lastHeartbeatTime"),
                "lastTransitionTime": stamp(now)
                if old.get("status") != state
                else old.get("lastTransitionTime"),
            }
        return list(conditions.values()), changed

    async def _renew_lease(self) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._key.name,
            "leaseDurationSeconds": self._tuning.lease_seconds,
            "renewTime": now,
        }
        try:
            await self._client.patch(LEASES, self._lease_key, {"spec": spec})
        except NotFound:
            await self._create_lease(spec)

    async def _create_lease(self, spec: Json) -> None:
        node = await self._own_node()
        owner = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": self._key.name,
            "uid": node["metadata"]["uid"],
        }
        body: dict[str, Any] = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._key.name, "ownerReferences": [owner]},
            "spec": spec,
        }
        try:
            await self._client.create(LEASES, _LEASE_NAMESPACE, body)
        except AlreadyExists:
            return  # the next renewal finds it
        except NotFound:  # a very young cluster has no such namespace yet
            namespace = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": _LEASE_NAMESPACE},
            }
            await self._client.create(NAMESPACES, "", namespace)
            await self._client.create(LEASES, _LEASE_NAMESPACE, body)


def _taint(taint: Json) -> tuple[str, str, str]:
    return taint["key"], taint.get("value") or "", taint["effect"]


def _node_info() -> dict[str, str]:
    """What ``kubectl get nodes -o wide`` shows: plainly no kubelet and no containers."""
    return {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(
            platform.machine(), platform.machine()
        ),
        "bootID": _text("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": f"gm-runner://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": f"gm-runner-v{__version__}",
        "machineID": _text("/etc/machine-id"),
        "operatingSystem": "linux",
        "osImage": "gm runner (processes of this machine, no containers)",
        "systemUUID": "",
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
