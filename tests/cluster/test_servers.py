"""Servers for a test run: shared, named when they are missing, and gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import servers

ROOT = Path(__file__).parents[2]

RUN = """
import sys, time
from tests.cluster import servers
servers.begin_run()
one, two = servers.server("embedded"), servers.server("embedded")
assert one == two
print(servers._run()[1], flush=True)
sys.stdin.readline()
servers.end_run()
"""


def start_run() -> tuple[subprocess.Popen[str], Path]:
    """A process that owns a run with an embedded server; gives the run's directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for the process and close its pipes."""
    process.wait(60)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()


def wait_gone(keeper: int, directory: Path) -> None:
    """Wait until neither process nor directory are left."""
    deadline = time.monotonic() + 60
    while servers._is_alive(keeper) or directory.exists():
        assert time.monotonic() < deadline, f"{keeper} or {directory} is left"
        time.sleep(0.05)


def test_a_run_ends_its_servers() -> None:
    """Process and files."""
    process, directory = start_run()
    keeper = int((directory / "embedded" / "keeper.pid").read_text())
    assert servers._is_alive(keeper)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    finish(process)
    assert process.returncode == 0
    assert not servers._is_alive(keeper)
    assert not directory.exists()


def test_servers_end_with_a_run_that_is_killed() -> None:
    """kill -9 gives nobody a chance to clean up, so the servers notice by themselves."""
    process, directory = start_run()
    keeper = int((directory / "embedded" / "keeper.pid").read_text())
    process.send_signal(signal.SIGKILL)
    finish(process)
    wait_gone(keeper, directory)


def test_a_server_that_does_not_start_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The end of its log is in the message, at the second asking too."""
    for program in servers._PROGRAMS:
        path = tmp_path / program
        path.write_text("#!/bin/sh\necho this one is broken; exit 3\n")
        path.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv(servers._RUN, os.environ[servers._RUN])
    servers.begin_run()
    for _ in range(2):
        with pytest.raises(AssertionError, match="this one is broken"):
            servers.server("real")
    servers.end_run()


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable, the directory and what it lacks."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert (servers.assets_problem() or "").startswith("KUBEBUILDER_ASSETS is not set: ")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert servers.assets_problem() == (
        f"KUBEBUILDER_ASSETS={tmp_path} lacks "
        "etcd, kube-apiserver, kubectl, kube-controller-manager"
    )
    for kind in ("real", "controllers"):
        with pytest.raises(servers.RealUnavailable):
            servers.server(kind)


def test_why_there_is_no_kubelet_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable, the program, and what it needs; never an error, as not all can have one."""
    monkeypatch.delenv("GM_KUBELET_CLUSTER", raising=False)
    assert (servers.kubelet_problem() or "").startswith("GM_KUBELET_CLUSTER is not set: ")
    monkeypatch.setenv("GM_KUBELET_CLUSTER", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert servers.kubelet_problem() == f"GM_KUBELET_CLUSTER={tmp_path} is no program"
    program = tmp_path / "program"
    program.touch(mode=0o755)
    monkeypatch.setenv("GM_KUBELET_CLUSTER", str(program))
    assert servers.kubelet_problem() == "a real kubelet needs root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    assert (servers.kubelet_problem() or "").startswith("a real kubelet needs namespaces")
    (tmp_path / "unshare").write_text("#!/bin/sh\n")
    assert servers.kubelet_problem() is None
    monkeypatch.setenv("GM_REQUIRE_REAL", "1")
    monkeypatch.delenv("GM_KUBELET_CLUSTER")
    with pytest.raises(pytest.skip.Exception, match="GM_KUBELET_CLUSTER"):
        servers.server_or_skip("kubelet")


@pytest.fixture
def kubelet_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program that says what it is asked for, and a run of its own."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/asked\necho "$2/kubeconfig"\n')
    program.chmod(0o755)
    monkeypatch.setenv("GM_KUBELET_CLUSTER", str(program))
    monkeypatch.setattr(servers, "kubelet_problem", lambda: None)
    monkeypatch.setenv(servers._RUN, os.environ[servers._RUN])
    servers.begin_run()
    return program


def test_a_cluster_with_a_kubelet_is_started_once_and_ended(kubelet_program: Path) -> None:
    """And once more when it is asked for again; the last by the end of the run."""
    asked = kubelet_program.with_name("asked")
    first = servers.server("kubelet")
    assert servers.server("kubelet") == first
    assert asked.read_text().split() == ["up"]
    servers.end_server("kubelet")
    servers.end_server("kubelet")  # once more: nothing to do
    assert asked.read_text().split() == ["up", "down"]
    assert servers.server("kubelet") != first
    servers.end_run()
    assert asked.read_text().split() == ["up", "down", "up", "down"]


def test_a_cluster_that_does_not_start_says_why_and_is_ended(kubelet_program: Path) -> None:
    """A program that is there and fails is an error, no reason to skip."""
    kubelet_program.write_text(
        f'#!/bin/sh\necho "$1" >> {kubelet_program.parent}/asked\n'
        '[ "$1" = down ] || { echo no room >&2; exit 3; }\n'
    )
    with pytest.raises(AssertionError, match=r"exited with 3:\nno room"):
        servers.server_or_skip("kubelet")
    servers.end_run()
    assert kubelet_program.with_name("asked").read_text().split() == ["up", "down"]


@pytest.mark.xdist_group("told-apart")
def test_tests_of_a_group_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """pytest-xdist tells groups by the end of the ids; not every pytest lets it write there."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("not run with --dist loadgroup")
    assert request.node.nodeid.endswith("@told-apart")


USES_CLUSTER = """
import pytest

@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_it(cluster):
    pass
"""

SKIPS = """
import pytest

@pytest.mark.parametrize("cluster", ["real"])
def test_it(cluster):
    pytest.skip("no time")
"""


@pytest.mark.parametrize(
    ("test", "environment", "outcome"),
    [
        (USES_CLUSTER, {}, "1 skipped"),
        (USES_CLUSTER, {"GM_REQUIRE_REAL": "1"}, "1 error"),
        (USES_CLUSTER, {"KUBEBUILDER_ASSETS": "/nonexistent"}, "1 skipped"),
        (USES_CLUSTER, {"KUBEBUILDER_ASSETS": "/nonexistent", "GM_REQUIRE_REAL": "1"}, "1 error"),
        (SKIPS, {}, "1 skipped"),
        (SKIPS, {"KUBEBUILDER_ASSETS": "complete"}, "1 failed"),
    ],
)
def test_real_tests_skip_only_where_no_real_server_can_be_had(
    tmp_path: Path, test: str, environment: dict[str, str], outcome: str
) -> None:
    """A skip that nobody sees would be a hole in the suite."""
    complete = tmp_path / "complete"
    complete.mkdir()
    for program in servers._PROGRAMS:
        (complete / program).touch(mode=0o755)
    if environment.get("KUBEBUILDER_ASSETS") == "complete":
        environment = environment | {"KUBEBUILDER_ASSETS": str(complete)}
    (tmp_path / "test_it.py").write_text(test)
    unset = {"KUBEBUILDER_ASSETS", "GM_REQUIRE_REAL", servers._RUN, "PYTEST_ADDOPTS"}
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in unset and not name.startswith(("PYTEST_XDIST", "COV_"))
    }
    result = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"),
            *("-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}"),
            str(tmp_path / "test_it.py"),
        ],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in result.stdout, result.stdout + result.stderr
    assert "KUBEBUILDER_ASSETS" in result.stdout or test is SKIPS
