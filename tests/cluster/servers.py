"""One API server of each kind for a whole test run, however many processes run it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = [
    "RealUnavailable",
    "assets_problem",
    "begin_run",
    "end_run",
    "end_server",
    "kubelet_problem",
    "server",
    "server_or_skip",
]

_RUN = "GM_TEST_RUN"  # "PID:DIRECTORY", inherited by the workers of pytest-xdist
_PROGRAMS = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager")
_START_SECONDS = 110
_STOP_SECONDS = 20


class RealUnavailable(Exception):
    """There are no programs of a real cluster to run; the message says what to do."""


def begin_run() -> None:
    """Name the run's directory, in the process that owns the run; nothing is started yet."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    os.environ[_RUN] = f"{os.getpid()}:{base / f'gm-test-{os.getpid()}-{time.time_ns():x}'}"


def end_run() -> None:
    """End every server that the run started, and wait for it."""
    pid, directory = _run()
    if pid != os.getpid():
        return
    for path in directory.glob("*/keeper.pid"):
        _end(int(path.read_text()))
    shutil.rmtree(directory, ignore_errors=True)
    del os.environ[_RUN]


def assets_problem() -> str | None:
    """Why no real API server can be started; None when it can."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not assets:
        return (
            "KUBEBUILDER_ASSETS is not set: name a directory with etcd, kube-apiserver and kubectl "
            "(setup-envtest makes one) to run against a real API server"
        )
    missing = [name for name in _PROGRAMS if not os.access(Path(assets) / name, os.X_OK)]
    return f"KUBEBUILDER_ASSETS={assets} lacks {', '.join(missing)}" if missing else None


def kubelet_problem() -> str | None:
    """Why no cluster with real kubelets can be started; None when it can be tried."""
    program = os.environ.get("GM_KUBELET_CLUSTER", "")
    if not program:
        return (
            "GM_KUBELET_CLUSTER is not set: name a program that starts a cluster with a real "
            "kubelet (docs/testing.md) to compare with one"
        )
    if not Path(program).is_file() or not os.access(program, os.X_OK):
        return f"GM_KUBELET_CLUSTER={program} is no program"
    if os.geteuid() != 0:
        return "a real kubelet needs root"
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True).returncode:
        return "a real kubelet needs namespaces, which can not be made here"
    return None


def server(kind: str) -> dict[str, str]:
    """The running server of ``kind``, started if this is the first process that asks for it.

    Kinds: "embedded", "real", "controllers" (beside the real one), and "kubelet" (a whole cluster
    with one node). Gives the paths of its kubeconfigs.
    Raises: RealUnavailable; AssertionError with the reason if it does not start.
    """
    if kind != "embedded":
        problem = kubelet_problem() if kind == "kubelet" else assets_problem()
        if problem is not None:
            raise RealUnavailable(problem)
    _, directory = _run()
    environment = dict(os.environ)
    if kind == "controllers":
        environment["GM_TEST_KUBECONFIG"] = server("real")["kubeconfig"]
    with _locked(directory, kind):
        outcome = directory / kind / "started.json"
        if not outcome.exists():
            _start(kind, directory / kind, environment)
        started: dict[str, str] = json.loads(outcome.read_text())
    assert "error" not in started, f"the {kind} API server did not start:\n{started['error']}"
    return started


def end_server(kind: str) -> None:
    """End a server that nobody needs any more; asked for again, it is started again."""
    _, directory = _run()
    with _locked(directory, kind):
        keeper = directory / kind / "keeper.pid"
        if keeper.exists():
            _end(int(keeper.read_text()))
            shutil.rmtree(directory / kind, ignore_errors=True)


def server_or_skip(kind: str) -> dict[str, str]:
    """As ``server``; the test skips where there is no real one, or fails if one is required.

    A kubelet is never required, since not every machine can run one.
    """
    try:
        return server(kind)
    except RealUnavailable as exc:
        if os.environ.get("GM_REQUIRE_REAL") == "1" and kind != "kubelet":
            pytest.fail(str(exc))
        pytest.skip(str(exc))


def _run() -> tuple[int, Path]:
    pid, _, directory = os.environ[_RUN].partition(":")
    return int(pid), Path(directory)


@contextlib.contextmanager
def _locked(directory: Path, name: str) -> Iterator[None]:
    directory.mkdir(mode=0o700, exist_ok=True)
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(kind: str, directory: Path, environment: dict[str, str]) -> None:
    run_pid, _ = _run()
    directory.mkdir()
    with (directory / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.keeper", kind, str(directory), str(run_pid)],
            cwd=Path(__file__).parents[2],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # a Ctrl-C ends the tests first; they end the servers
        )
    (directory / "keeper.pid").write_text(str(keeper.pid))
    # it outlives this process if that is a worker of pytest-xdist: not ours to wait for
    keeper.returncode = 0
    deadline = time.monotonic() + _START_SECONDS
    while not (directory / "started.json").exists():
        log_text = (directory / "keeper.log").read_text(errors="replace")
        assert _is_alive(keeper.pid), f"the {kind} API server's keeper died:\n{log_text}"
        assert time.monotonic() < deadline, f"the {kind} API server takes too long:\n{log_text}"
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"
    return False


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
