"""Fixtures for all tests: ``cluster``, an embedded and a real Kubernetes API server."""

from __future__ import annotations

import asyncio
import collections
import os
import secrets
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from gm.api.resources import NAMESPACES
from tests import loops
from tests.cluster import servers
from tests.cluster.cluster import Cluster

# A busy machine is no failure, and a run is worth the same as the next: no deadlines, no chance.
settings.register_profile(
    "gm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gm")

loops.close_late_connections()
loops.end_closing_connections()


def pytest_configure(config: pytest.Config) -> None:
    """Begin the run, in the one process that owns it (not in pytest-xdist's workers)."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        os.environ.pop(name, None)  # tests must never find the cluster of whoever runs them
    if not hasattr(config, "workerinput"):
        servers.begin_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the run started."""
    if not hasattr(config, "workerinput"):
        servers.end_run()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test against the real API server must not skip where one can be had."""
    report = yield
    callspec = getattr(item, "callspec", None)
    is_real = callspec is not None and callspec.params.get("cluster") == "real"
    expected = hasattr(report, "wasxfail")
    if report.skipped and is_real and not expected and servers.assets_problem() is None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped although KUBEBUILDER_ASSETS is set: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason to skip, instead of one for each test."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = collections.Counter(
        report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in skipped
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.fixture(params=["embedded", "real"])
async def cluster(request: pytest.FixtureRequest) -> Cluster:
    """A Kubernetes API server with the CRDs of deploy/crds, and a fresh namespace.

    The servers are shared by the whole test run: touch nothing outside ``cluster.namespace`` but
    cluster-scoped objects with names of your own.
    """
    kind: str = request.param
    paths = await asyncio.to_thread(servers.server_or_skip, kind)
    namespace = f"t-{secrets.token_hex(5)}"
    found = Cluster(kind, paths, namespace)
    async with found.client() as client:
        await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    return found
