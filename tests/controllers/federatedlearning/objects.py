"""Pods, owners and conditions as an API server has them."""

from __future__ import annotations

from typing import Any

from gm.api.meta import ResourceType
from gm.api.resources import FEDERATED_LEARNING_JOBS


def uids(pods: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Name -> uid."""
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def owner_reference(
    name: str, uid: str, resource: ResourceType = FEDERATED_LEARNING_JOBS
) -> dict[str, Any]:
    """The controller owner of a child, by default a job."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def condition(status: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """A condition by type."""
    return next((c for c in status.get("conditions") or [] if c["type"] == kind), None)


def waiting_reason(status: dict[str, Any]) -> str:
    """What a job waits for, in a word; empty if it does not wait."""
    waiting = condition(status, "Waiting")
    return waiting["reason"] if waiting else ""
