"""What a test does with an API server; plays scheduler and kubelet where it must."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, overload

import msgspec
import yaml

from gm.api.meta import ObjectKey, ResourceType
from gm.api.resources import NAMESPACES, PODS
from gm.errors import NotFound
from gm.kube import Client
from tests.cluster.servers import server

__all__ = ["Cluster"]

R = TypeVar("R")


class Cluster:
    """An API server (``kind``: "embedded" or "real") and a namespace of the test's own."""

    def __init__(self, kind: str, paths: dict[str, str], namespace: str) -> None:
        self.kind = kind
        self.kubeconfig = paths["kubeconfig"]
        self.namespace = namespace
        self._paths = paths

    @property
    def limited_kubeconfig(self) -> str:
        """Kubeconfig of user ``limited``, who has no rights; only the real server has it."""
        return self._paths["limited"]

    def read_kubeconfig(self) -> dict[str, Any]:
        """The kubeconfig, for tests that change it."""
        config: dict[str, Any] = yaml.safe_load(Path(self.kubeconfig).read_text())
        return config

    @contextlib.asynccontextmanager
    async def client(self, kubeconfig: str | None = None) -> AsyncIterator[Client]:
        """A client with all rights, or that of another ``kubeconfig``."""
        async with await Client.connect(kubeconfig=kubeconfig or self.kubeconfig) as client:
            yield client

    def key(self, name: str) -> ObjectKey:
        """``name`` in the test's namespace."""
        return ObjectKey(self.namespace, name)

    async def start_controllers(self) -> None:
        """Have deletions of owners and namespaces carried out; the embedded server always does."""
        if self.kind == "real":
            await asyncio.to_thread(server, "controllers")

    async def create_namespace(self) -> str:
        """One more namespace of the test's own."""
        name = f"t-{secrets.token_hex(5)}"
        async with self.client() as client:
            await client.create(NAMESPACES, "", {"metadata": {"name": name}})
        return name

    async def get(self, resource: ResourceType, name: str) -> dict[str, Any] | None:
        """An object of the test's namespace (or a cluster-scoped one), or None."""
        key = self.key(name) if resource.namespaced else ObjectKey("", name)
        async with self.client() as client:
            try:
                found: dict[str, Any] = msgspec.json.decode(await client.get(resource, key))
            except NotFound:
                return None
        return found

    async def list(self, resource: ResourceType, selector: str = "") -> list[dict[str, Any]]:
        """Objects of the test's namespace."""
        async with self.client() as client:
            listed = await client.list(
                resource,
                namespace=self.namespace if resource.namespaced else "",
                label_selector=selector,
            )
        return [msgspec.json.decode(item) for item in listed.items]

    async def bind(self, pod: str, node: str) -> None:
        """Put a pod on a node, as the scheduler does."""
        async with self.client() as client:
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod, "namespace": self.namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
            path = PODS.path(self.namespace, pod, "binding")
            answer = await client.raw("POST", path, body=msgspec.json.encode(binding))
            assert answer.status == 201, answer.body

    async def set_pod_status(self, pod: str, **status: Any) -> None:
        """Change fields of a pod's status, named as in JSON, as its kubelet does."""
        async with self.client() as client:
            await client.patch(PODS, self.key(pod), {"status": status}, subresource="status")

    async def finish_delete(self, pod: str) -> None:
        """Confirm that a pod has ended, as its kubelet does: it is gone afterwards."""
        async with self.client() as client:
            with contextlib.suppress(NotFound):
                await client.delete(PODS, self.key(pod), grace_period_seconds=0)

    @overload
    async def wait_for(
        self,
        predicate: Callable[[], Coroutine[Any, Any, R]],
        *,
        timeout_seconds: float = 30,
        what: str = "",
    ) -> R: ...
    @overload
    async def wait_for(
        self, predicate: Callable[[], R], *, timeout_seconds: float = 30, what: str = ""
    ) -> R: ...
    async def wait_for(
        self,
        predicate: Callable[[], Any],
        *,
        timeout_seconds: float = 30,
        what: str = "",
    ) -> Any:
        """Ask ``predicate`` until what it gives is true; returns that."""
        last: Any = None
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    answer = predicate()
                    last = await answer if inspect.isawaitable(answer) else answer
                    if last:
                        return last
                    await asyncio.sleep(0.03)
        except TimeoutError:
            what = what or "the condition"
            raise AssertionError(
                f"{what} did not come true in {timeout_seconds} s; last: {last!r}"
            ) from None

    async def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """What kubectl prints, in the test's namespace."""
        process = await asyncio.create_subprocess_exec(
            _kubectl(),
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(stdin.encode())
        assert not check or process.returncode == 0, f"kubectl {arguments}: {err.decode()}"
        return out.decode()


def _kubectl() -> str:
    """The kubectl of KUBEBUILDER_ASSETS, or the one that the test dependencies bring."""
    path = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nonexistent")) / "kubectl"
    if path.exists():
        return str(path)
    import sys

    return str(Path(sys.executable).parent / "kubectl")
