"""Make gm/devcluster/data/openapi.json.gz from a running Kubernetes API server.

Usage: python scripts/openapi_data.py KUBECTL KUBECONFIG

Reads the server's OpenAPI v3 documents and keeps the schemas that the embedded API server's
built-in kinds refer to, word by word. Needed only when a newer Kubernetes is to be followed; the
result is checked in.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCUMENTS = (
    "api/v1",
    "apis/apps/v1",
    "apis/coordination.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/authentication.k8s.io/v1",
    "apis/autoscaling/v2",
)
ROOTS = (
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.apps.v1.ReplicaSet",
    "io.k8s.api.authentication.v1.SelfSubjectReview",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    "io.k8s.api.authorization.v1.SubjectAccessReview",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.core.v1.Endpoints",
    "io.k8s.api.core.v1.Event",
    "io.k8s.api.core.v1.Namespace",
    "io.k8s.api.core.v1.Node",
    "io.k8s.api.core.v1.PersistentVolumeClaim",
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.core.v1.ServiceAccount",
    "io.k8s.api.discovery.v1.EndpointSlice",
    "io.k8s.api.events.v1.Event",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
)
TARGET = Path(__file__).parents[1] / "gm/devcluster/data/openapi.json.gz"


def references(node: Any) -> Iterator[str]:
    """The names of the schemas that ``node`` refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def main(kubectl: str, kubeconfig: str) -> None:
    """Fetch, trim and write."""

    def raw(path: str) -> Any:
        command = [kubectl, "--kubeconfig", kubeconfig, "get", "--raw", path]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)  # noqa: S603

    everything: dict[str, Any] = {}
    for document in DOCUMENTS:
        everything |= raw(f"/openapi/v3/{document}")["components"]["schemas"]
    kept: set[str] = set()
    waiting = [name for root in ROOTS for name in (root, f"{root}List") if name in everything]
    while waiting:
        if (name := waiting.pop()) not in kept:
            kept.add(name)
            waiting += references(everything[name])
    for name in kept:
        schema = everything[name]
        # DeleteOptions and its like are registered in every group; a document names only its own.
        if name.startswith("io.k8s.apimachinery"):
            schema.pop("x-kubernetes-group-version-kind", None)
    data = {
        "gitVersion": raw("/version")["gitVersion"],
        "schemas": {name: everything[name] for name in sorted(kept)},
    }
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)
    TARGET.write_bytes(packed)
    sys.stdout.write(f"{TARGET}: {len(kept)} schemas, {len(packed)} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
