"""Real kubectl against the embedded API server: what it can not do here is said clearly."""

from __future__ import annotations

import re

import pytest

from tests.devcluster.kubectl_manifests import DATASET, POD
from tests.devcluster.support import Kubectl

OUT_OF_SCOPE = {
    "exec p1 -- ls": "exec is not supported by this API server",
    "attach p1": "attach is not supported by this API server",
    "port-forward pod/p1 8080:80": "pod is not running|not supported",
    "top pods": "Metrics API not available",
    "apply --server-side -f -": "server-side apply",
    "drain edge-of-nowhere": "not found",
    "debug p1 --image=x": "ephemeralcontainers|ephemeral containers",
    "create job j --image=x": "could not find the requested resource",
    "create quota q": "could not find the requested resource",
    "create token default": "could not find the requested resource",
    "create deployment d --image=x": "dry-run=client -o yaml",
    "autoscale deploy/d --max=3": "not found",
    "cluster-info dump": "could not find the requested resource",
    "get componentstatuses": "doesn't have a resource type",
    "cp p1:/x x": "exec is not supported by this API server",
    "apply --server-side --force-conflicts --field-manager=me -f -": "server-side apply",
}


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
@pytest.mark.parametrize("command", OUT_OF_SCOPE)
async def test_what_is_out_of_scope_fails_with_a_clear_message(
    kubectl: Kubectl, command: str
) -> None:
    """A command that this server does not carry out says so, and exits non-zero."""
    assert (await kubectl.run("apply -f -", POD)).code == 0
    outcome = await kubectl.run(command, DATASET)
    assert outcome.code != 0, outcome
    assert re.search(OUT_OF_SCOPE[command], outcome.err), outcome.err
