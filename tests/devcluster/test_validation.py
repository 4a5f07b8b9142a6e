"""Mistakes in objects of other built-in kinds; the words are those of a real server."""

from __future__ import annotations

from typing import Any

from tests.devcluster.core import mistakes, stored


def test_events_lie_where_their_object_does() -> None:
    """Those about cluster-wide objects in ``default``."""

    def event(namespace: str, about: str, **more: Any) -> list[str]:
        meta = {"namespace": namespace}
        obj = {"metadata": meta, "involvedObject": {"namespace": about}, **more}
        return mistakes("events", obj)

    assert event("default", "default") == event("default", "") == []
    wrong = 'involvedObject.namespace: Invalid value: "%s": does not match event.namespace'
    assert event("default", "other") == [wrong % "other"]
    assert event("kube-system", "") == [wrong % ""]
    at = "2024-01-01T00:00:00.000000Z"
    assert event("default", "", eventTime=at, type="Odd") == [
        "reportingComponent: Required value",
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
    ]


def test_keys_of_config_maps_and_secrets_are_file_names() -> None:
    """And some types of secrets need certain ones."""
    told = mistakes("configmaps", {"data": {"a b": "", "..": "", "a": ""}, "binaryData": {"a": ""}})
    assert [line.split(":")[0] for line in told] == ["data[a]", "data[a b]", "data[..]"]
    assert "a valid config key must consist of" in told[1]
    assert mistakes("secrets", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}) == [
        "data[tls.key]: Required value"
    ]


def test_what_is_immutable_stays() -> None:
    """A secret's type always, data when it says so."""
    old = stored("secrets", {"data": {"a": "YQ=="}})
    assert mistakes("secrets", {**old, "type": "x"}, old=old) == [
        'type: Invalid value: "x": field is immutable'
    ]
    fixed = stored("configmaps", {"data": {"a": "b"}, "immutable": True})
    assert mistakes("configmaps", fixed, old=fixed) == []
    why = "Forbidden: field is immutable when `immutable` is set"
    assert mistakes("configmaps", {**fixed, "data": {}, "immutable": False}, old=fixed) == [
        f"immutable: {why}",
        f"data: {why}",
    ]


def test_taints_and_leases_are_checked() -> None:
    """An effect that is known, a duration that is one."""
    assert mistakes("nodes", {"spec": {"taints": [{"key": "a", "effect": "x"}]}}) == [
        'metadata.taints[0].effect: Unsupported value: "x": supported values: "NoSchedule", '
        '"PreferNoSchedule", "NoExecute"'
    ]
    group = "coordination.k8s.io"
    assert mistakes("leases", {"spec": {"leaseDurationSeconds": 0}}, group=group) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]
    assert mistakes("leases", {"spec": {}}, group=group) == []
