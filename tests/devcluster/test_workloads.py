"""Mistakes in deployments and replica sets; the words are those of a real server."""

from __future__ import annotations

import copy
from typing import Any

from gm.api.meta import Json
from tests.devcluster.core import mistakes, stored

C: Json = {"name": "c", "image": "i"}


def deployment(**spec: Any) -> Json:
    """A deployment."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [C]}}
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}}


def test_mistakes_in_deployments_are_told() -> None:
    """Selector, replicas, strategy, template."""

    def told(**spec: Any) -> list[str]:
        return mistakes("deployments", deployment(**spec), group="apps")

    assert told() == []
    assert mistakes("replicasets", deployment(), group="apps") == []
    assert told(replicas=-1) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]
    mismatch = "`selector` does not match template `labels`"
    assert told(selector=None, template={}) == [
        "spec.selector: Required value",
        f"spec.template.metadata.labels: Invalid value: null: {mismatch}",
        "spec.template.spec.containers: Required value",
    ]
    assert told(selector={"matchLabels": {"z": "b"}}) == [
        f'spec.template.metadata.labels: Invalid value: {{"a":"b"}}: {mismatch}'
    ]
    assert told(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}) == [
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is "
        "'Recreate'"
    ]
    template = deployment()["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    assert told(template=template) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]


def test_a_deployment_keeps_its_selector() -> None:
    """Or its pods would be lost."""
    old = stored("deployments", deployment(), group="apps")
    new = copy.deepcopy(old)
    new["spec"]["selector"]["matchLabels"] = {"a": "b", "c": "d"}
    new["spec"]["template"]["metadata"]["labels"]["c"] = "d"
    assert mistakes("deployments", new, group="apps", old=old) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable'
    ]
