"""Manifests reach the API server just as kubectl apply sends them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gm.api.meta import ObjectKey
from gm.api.resources import CONFIG_MAPS, DATASETS
from gm.errors import BadRequest, ConfigError
from gm.local.apply import LAST_APPLIED, apply, load_manifests
from tests.cluster.cluster import Cluster

DATASET = {
    "apiVersion": "sedna.io/v1alpha1",
    "kind": "Dataset",
    "metadata": {"name": "d"},
    "spec": {"url": "/data/a.txt", "format": "txt", "nodeName": "edge1"},
}


async def test_an_object_is_created_then_unchanged_then_configured(cluster: Cluster) -> None:
    """The three answers of kubectl, with its annotation on the object."""
    async with cluster.client() as client:
        assert await apply(client, DATASET, namespace=cluster.namespace) == (
            "dataset.sedna.io/d created"
        )
        assert await apply(client, DATASET, namespace=cluster.namespace) == (
            "dataset.sedna.io/d unchanged"
        )
        changed = {**DATASET, "spec": {**DATASET["spec"], "format": "csv"}}  # type: ignore[dict-item]
        assert await apply(client, changed, namespace=cluster.namespace) == (
            "dataset.sedna.io/d configured"
        )
        live = msgspec.json.decode(await client.get(DATASETS, ObjectKey(cluster.namespace, "d")))
    assert live["spec"]["format"] == "csv"
    applied = msgspec.json.decode(live["metadata"]["annotations"][LAST_APPLIED])
    assert applied["spec"] == changed["spec"]


async def test_a_core_object_is_named_as_kubectl_names_it(cluster: Cluster) -> None:
    """Kinds without a group have no dot in their name."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    async with cluster.client() as client:
        assert await apply(client, manifest, namespace=cluster.namespace) == "configmap/c created"
        await client.get(CONFIG_MAPS, ObjectKey(cluster.namespace, "c"))


async def test_an_unknown_field_is_refused_by_name(cluster: Cluster) -> None:
    """Strict validation, as kubectl asks for it."""
    wrong = {**DATASET, "spec": {**DATASET["spec"], "formt": "csv"}}  # type: ignore[dict-item]
    async with cluster.client() as client:
        with pytest.raises(BadRequest, match="formt"):
            await apply(client, wrong, namespace=cluster.namespace)


async def test_a_kind_that_is_not_ours_is_left_to_kubectl(cluster: Cluster) -> None:
    """The message says what to use instead."""
    async with cluster.client() as client:
        with pytest.raises(ConfigError, match="use kubectl apply"):
            await apply(
                client, {"apiVersion": "batch/v1", "kind": "Job"}, namespace=cluster.namespace
            )


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """No YAML, no object and no file each say which file."""
    path = tmp_path / "job.yaml"
    with pytest.raises(ConfigError, match=r"job\.yaml"):
        load_manifests(path)
    path.write_text("a: [")
    with pytest.raises(ConfigError, match=r"job\.yaml"):
        load_manifests(path)
    path.write_text("- just\n- a list\n")
    with pytest.raises(ConfigError, match="every document must be an object"):
        load_manifests(path)
