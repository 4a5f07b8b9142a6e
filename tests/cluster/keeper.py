"""A process that keeps an API server alive for one test run: ``python -m tests.cluster.keeper``.

It ends, with all that it started, on SIGTERM and when the test run's process is gone, even by
kill -9. What came of the start is written to ``DIR/started.json``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

ADMIN_TOKEN = "admin-token"  # on loopback, for the time of a test run
LIMITED_TOKEN = "limited-token"

_PR_SET_PDEATHSIG = 1
_START_SECONDS = 90
_STOP_SECONDS = 10
_CRDS = Path(__file__).parents[2] / "deploy" / "crds"


class StartError(Exception):
    """The server did not come up; the message holds the end of its log."""


def write_kubeconfig(path: Path, *, server: str, ca: Path, token: str) -> None:
    """Write a kubeconfig (JSON, which is YAML) for one user of one server."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": server, "certificate-authority": str(ca)}}
        ],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Programs:
    """Programs that end with this process; ended in reverse order of their start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, program: Path, *arguments: str) -> None:
        log = self._log(program.name)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                preexec_fn=_die_with_parent,
            )
        self._running.append((program.name, process))

    def check(self) -> None:
        for name, process in self._running:
            if process.poll() is not None:
                tail = self._log(name).read_text(errors="replace")[-2000:]
                raise StartError(f"{name} exited with {process.returncode}:\n{tail}")

    def stop(self) -> None:
        for _, process in reversed(self._running):
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


def _service_account_key(path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


async def _wait_ready(programs: _Programs, url: str, ca: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    request = urllib.request.Request(
        f"{url}/readyz", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}
    )
    while True:
        programs.check()
        with contextlib.suppress(OSError, urllib.error.URLError):
            context = ssl.create_default_context(cafile=ca)
            with urllib.request.urlopen(request, timeout=5, context=context):
                return
        if time.monotonic() > deadline:
            raise StartError(f"no answer from {url} after {_START_SECONDS} s")
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _real(directory: Path) -> AsyncIterator[dict[str, str]]:
    """etcd and kube-apiserver from KUBEBUILDER_ASSETS, without any controllers."""
    assets = Path(os.environ["KUBEBUILDER_ASSETS"])
    etcd_port, peer_port, port = _free_port(), _free_port(), _free_port()
    etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    url, ca = f"https://127.0.0.1:{port}", directory / "certs" / "apiserver.crt"
    key, tokens = directory / "sa.key", directory / "tokens.csv"
    _service_account_key(key)
    tokens.write_text(
        f"{ADMIN_TOKEN},admin,admin,system:masters\n{LIMITED_TOKEN},limited,limited\n"
    )
    programs = _Programs(directory)
    try:
        programs.start(
            assets / "etcd",
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            "--log-level=error",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )
        programs.start(
            assets / "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--cert-dir=certs",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            # pods would wait for the default ServiceAccount, which a controller makes
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        )
        await _wait_ready(programs, url, ca)
        admin, limited = directory / "kubeconfig", directory / "limited.kubeconfig"
        write_kubeconfig(admin, server=url, ca=ca, token=ADMIN_TOKEN)
        write_kubeconfig(limited, server=url, ca=ca, token=LIMITED_TOKEN)
        await _install_crds(admin)
        yield {"kubeconfig": str(admin), "limited": str(limited)}
    finally:
        programs.stop()


@contextlib.asynccontextmanager
async def _embedded(directory: Path) -> AsyncIterator[dict[str, str]]:
    """The API server of gm.devcluster, with all its controllers."""
    from gm.devcluster.apiserver import running

    async with running(directory=directory / "state") as server:
        kubeconfig = str(server.kubeconfig)
        await _install_crds(Path(kubeconfig))
        yield {"kubeconfig": kubeconfig}


@contextlib.asynccontextmanager
async def _controllers(directory: Path) -> AsyncIterator[dict[str, str]]:
    """Garbage collector and namespace controller of Kubernetes, beside the real server."""
    kubeconfig = os.environ["GM_TEST_KUBECONFIG"]
    programs = _Programs(directory)
    try:
        programs.start(
            Path(os.environ["KUBEBUILDER_ASSETS"]) / "kube-controller-manager",
            f"--kubeconfig={kubeconfig}",
            "--secure-port=0",
            "--leader-elect=false",
            "--controllers=garbage-collector-controller,namespace-controller",
        )
        programs.check()
        yield {"kubeconfig": kubeconfig}
    finally:
        programs.stop()


@contextlib.asynccontextmanager
async def _kubelet(directory: Path) -> AsyncIterator[dict[str, str]]:
    """A whole cluster with one real node, from the program that GM_KUBELET_CLUSTER names.

    Beside its kubeconfig it gives a directory for files of pods.
    """
    program = os.environ["GM_KUBELET_CLUSTER"]
    # not below ``directory``: memory file systems often do not let programs be executed
    with tempfile.TemporaryDirectory(prefix="gm-kubelet-", ignore_cleanup_errors=True) as base:
        state, pods = Path(base, "cluster"), Path(base, "pods")
        pods.mkdir()
        try:
            up = await _call(directory, program, "up", str(state), "node1")
            yield {"kubeconfig": up.splitlines()[-1], "directory": str(pods)}
        finally:
            await _call(directory, program, "down", str(state))


async def _call(directory: Path, *command: str) -> str:
    """What a program prints. Raises: StartError if it fails."""
    out, err = directory / "program.out", directory / "program.err"
    with out.open("wb") as output, err.open("wb") as errors:  # what it starts may keep these open
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if code:
        tail = err.read_text(errors="replace")[-2000:]
        raise StartError(f"{' '.join(command)} exited with {code}:\n{tail}")
    return out.read_text()


def crd_paths() -> list[Path]:
    """The CRDs of this project."""
    return sorted(_CRDS.glob("*.yaml"))


async def _install_crds(kubeconfig: Path) -> None:
    """Install the CRDs of deploy/crds and wait until their kinds are served."""
    import yaml

    from gm.api.meta import ResourceType
    from gm.api.resources import CUSTOM_RESOURCE_DEFINITIONS
    from gm.errors import NotFound
    from gm.kube import Client

    async with await Client.connect(kubeconfig=str(kubeconfig)) as client:
        for path in crd_paths():
            crd = yaml.safe_load(path.read_text())
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", crd)
            names = crd["spec"]["names"]
            kind = ResourceType(
                group=crd["spec"]["group"],
                version=crd["spec"]["versions"][0]["name"],
                kind=names["kind"],
                plural=names["plural"],
            )
            async with asyncio.timeout(_START_SECONDS):
                while True:
                    with contextlib.suppress(NotFound):
                        await client.list(kind)
                        break
                    await asyncio.sleep(0.05)


_KINDS = {
    "real": _real,
    "embedded": _embedded,
    "controllers": _controllers,
    "kubelet": _kubelet,
}


async def _wait_end(run_pid: int) -> None:
    """Wait for SIGTERM or for the end of the test run's process."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, ended.set)
    try:
        descriptor = os.pidfd_open(run_pid)
    except ProcessLookupError:
        return
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _report(directory: Path, outcome: dict[str, str]) -> None:
    """Write the outcome in one step: a reader sees all of it or nothing."""
    path = directory / f"started.{secrets.token_hex(4)}"
    path.write_text(json.dumps(outcome))
    path.rename(directory / "started.json")


async def keep(kind: str, directory: Path, run_pid: int) -> None:
    """Keep a server of ``kind`` alive until the test run ends."""
    async with asyncio.TaskGroup() as group:
        end = group.create_task(_wait_end(run_pid))
        serve = group.create_task(_serve(kind, directory, end))
        await end
        serve.cancel()


async def _serve(kind: str, directory: Path, end: asyncio.Task[None]) -> None:
    try:
        async with _KINDS[kind](directory) as outcome:
            _report(directory, outcome)
            await end
    except Exception:
        _report(directory, {"error": traceback.format_exc()})
        raise


def main() -> None:
    """``keeper KIND DIR PID``."""
    kind, directory, run_pid = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    failed = True
    try:
        asyncio.run(keep(kind, directory, run_pid))
        failed = False
    finally:
        if not failed:
            shutil.rmtree(directory, ignore_errors=True)
            # the last keeper takes the run's directory along, should the run have been killed
            if not any(path.is_dir() for path in directory.parent.glob("*")):
                shutil.rmtree(directory.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
