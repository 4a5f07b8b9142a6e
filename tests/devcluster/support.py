"""A real kubectl with nothing of the machine's in it, and a fake kubelet that serves logs."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["FakeKubelet", "Kubectl", "Outcome", "kubectl_path", "serving_kubelet"]

_SECONDS = 60


def kubectl_path() -> str:
    """The kubectl to test with: $KUBECTL, else the test dependency's, else that of the PATH."""
    beside = Path(sys.executable).parent / "kubectl"
    found = os.environ.get("KUBECTL") or (str(beside) if beside.exists() else "")
    found = found or shutil.which("kubectl") or ""
    assert found, "no kubectl: install the extra `test`, or name one in $KUBECTL"
    return found


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


class Kubectl:
    """Runs kubectl commands against one server, in one namespace, with caches of their own."""

    def __init__(self, kubeconfig: str, namespace: str, home: Path) -> None:
        self._options = [f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
        self._environment = {
            "HOME": str(home),
            "KUBECACHEDIR": str(home / "cache"),
            "PATH": os.environ["PATH"],
        }
        self._directory = home

    @contextlib.asynccontextmanager
    async def started(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """The running command, ended with the body."""
        process = await asyncio.create_subprocess_exec(
            *self._line(command),
            cwd=self._directory,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # to the end of both pipes, or their transports leak

    async def run(self, command: str, stdin: str = "", *, editor: str = "") -> Outcome:
        """The finished command; ``editor`` is what sed makes of a text that it opens."""
        editing = {"KUBE_EDITOR": f"sed -i {shlex.quote(editor)}"} if editor else {}
        done = await asyncio.to_thread(
            subprocess.run,
            self._line(command),
            cwd=self._directory,
            env=self._environment | editing,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def _line(self, command: str) -> list[str]:
        return [kubectl_path(), *self._options, *shlex.split(command)]


def _certificate(directory: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    path = directory / "kubelet.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)
    return context


class FakeKubelet:
    """Serves three lines for every container; with ``follow`` the third waits for ``release``."""

    def __init__(self) -> None:
        self.port = 0
        self.release = asyncio.Event()
        self.asked: list[str] = []
        self._transports: list[asyncio.BaseTransport] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """``/containerLogs/NAMESPACE/POD/CONTAINER``."""
        self.asked.append(request.path_qs)
        if request.transport is not None:
            self._transports.append(request.transport)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        lines = [f"{request.match_info['container']} line {n}\n".encode() for n in (1, 2)]
        tail = int(request.query.get("tailLines", 2))
        await response.write(b"".join(lines[len(lines) - tail :]))
        if request.query.get("follow"):
            await self.release.wait()
            await response.write(b"the last line\n")
        await response.write_eof()
        return response

    async def hang_up(self) -> None:
        """Close what is left of connections without waiting for the peer's TLS farewell."""
        for transport in self._transports:
            assert isinstance(transport, asyncio.WriteTransport)
            transport.abort()
        for _ in range(3):  # sockets are closed by callbacks of the loop's next rounds
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def serving_kubelet(directory: Path) -> AsyncIterator[FakeKubelet]:
    """A kubelet on a free loopback port, over HTTPS with a certificate of its own."""
    kubelet = FakeKubelet()
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", kubelet.handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    context = await asyncio.to_thread(_certificate, directory)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    kubelet.port = runner.addresses[0][1]
    try:
        yield kubelet
    finally:
        kubelet.release.set()
        await runner.cleanup()
        await kubelet.hang_up()
