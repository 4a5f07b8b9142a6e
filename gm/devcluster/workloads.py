"""What is wrong with deployments and replica sets, in the words of kube-apiserver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gm.api.meta import Json
from gm.devcluster.metadata import (
    dns_label_problems,
    forbidden,
    invalid_value,
    required,
    unsupported,
)
from gm.devcluster.podspec import pod_spec, spec_warnings
from gm.devcluster.rules import label_selector, not_negative
from gm.devcluster.selectors import selects
from gm.devcluster.status import Cause

__all__ = ["deployment", "replica_set", "selector_change", "workload_warnings"]

_PERCENT = re.compile("[0-9]+%")
_TEMPLATE = "spec.template.spec"
_COUNTS = ("updatedReplicas", "readyReplicas", "availableReplicas")


def deployment(obj: Json) -> Iterator[Cause]:
    """A deployment."""
    spec = obj["spec"]
    yield from _workload(obj)
    yield from _strategy(spec.get("strategy") or {})
    yield from not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        yield from not_negative(spec, "spec", "progressDeadlineSeconds")
        if deadline <= (spec.get("minReadySeconds") or 0):
            why = "must be greater than minReadySeconds"
            yield invalid_value("spec.progressDeadlineSeconds", deadline, why)


def replica_set(obj: Json) -> Iterator[Cause]:
    """A replica set."""
    yield from _workload(obj)
    yield from not_negative(obj["spec"], "spec", "minReadySeconds")


def _workload(obj: Json) -> Iterator[Cause]:
    spec = obj["spec"]
    yield from not_negative(spec, "spec", "replicas")
    selector, template = spec.get("selector"), spec.get("template") or {}
    wrong = [*label_selector(selector or {}, "spec.selector")]
    if selector is None:
        yield required("spec.selector")
    elif not (selector.get("matchLabels") or selector.get("matchExpressions")):
        why = "empty selector is invalid for deployment"  # upstream says so of replica sets, too
        yield invalid_value("spec.selector", selector, why)
    yield from wrong
    labels = (template.get("metadata") or {}).get("labels") or {}
    if wrong:
        yield invalid_value("spec.selector", selector, "invalid label selector")
    elif selector is None or not selects(selector, labels):
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels or None, why)
    pod = template.get("spec") or {}
    yield from pod_spec(pod, _TEMPLATE)
    if (policy := pod.get("restartPolicy", "Always")) != "Always":
        yield unsupported(f"{_TEMPLATE}.restartPolicy", policy, ["Always"])
    if pod.get("activeDeadlineSeconds") is not None:
        why = "activeDeadlineSeconds in ReplicaSet is not Supported"
        yield forbidden(f"{_TEMPLATE}.activeDeadlineSeconds", why)


def _strategy(strategy: Json) -> Iterator[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            why = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden("spec.strategy.rollingUpdate", why)
    elif kind != "RollingUpdate":
        shown = {"Type": kind or "", "RollingUpdate": rolling}
        yield unsupported("spec.strategy", shown, ["Recreate", "RollingUpdate"])
    else:
        yield from _rolling(rolling or {}, "spec.strategy.rollingUpdate")


def _rolling(rolling: Json, path: str) -> Iterator[Cause]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    yield from _number_or_percent(unavailable, f"{path}.maxUnavailable")
    yield from _number_or_percent(surge, f"{path}.maxSurge")
    if _is_none(unavailable) and _is_none(surge):
        why = "may not be 0 when `maxSurge` is 0"
        yield invalid_value(f"{path}.maxUnavailable", unavailable, why)
    if _is_percent(unavailable) and int(unavailable[:-1]) > 100:
        yield invalid_value(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%")


def _is_percent(value: Any) -> bool:
    return isinstance(value, str) and _PERCENT.fullmatch(value) is not None


def _is_none(value: Any) -> bool:
    return value == 0 or (_is_percent(value) and int(value[:-1]) == 0)


def _number_or_percent(value: Any, path: str) -> Iterator[Cause]:
    if isinstance(value, str) and not _is_percent(value):
        why = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. "
            f"'1%',  or '93%', regex used for validation is '{_PERCENT.pattern}')"
        )
        yield invalid_value(path, value, why)
    elif isinstance(value, int) and value < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")


def selector_change(new: Json, old: Json) -> Iterator[Cause]:
    """A deployment or replica set keeps its selector; its status must add up."""
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")
    if new.get("status") != old.get("status"):
        yield from _status_counts(new.get("status") or {})


def _status_counts(status: Json) -> Iterator[Cause]:
    yield from not_negative(status, "status", "replicas", *_COUNTS)
    replicas = status.get("replicas") or 0
    for field in _COUNTS:
        if (count := status.get(field) or 0) > replicas:
            why = "cannot be greater than status.replicas"
            yield invalid_value(f"status.{field}", count, why)
    available, ready = status.get("availableReplicas") or 0, status.get("readyReplicas") or 0
    if ready < available:
        yield invalid_value(
            "status.availableReplicas", available, "cannot be greater than readyReplicas"
        )


def workload_warnings(obj: Json) -> list[str]:
    """What the writer is told about what is taken nevertheless."""
    found = []
    if problems := dns_label_problems(obj["metadata"].get("name", "")):
        found.append(
            "metadata.name: this is used in Pod names and hostnames, which can result in "
            f"surprising behavior; a DNS label is recommended: [{' '.join(problems)}]"
        )
    return [*found, *spec_warnings(obj["spec"].get("template", {}).get("spec") or {}, _TEMPLATE)]
