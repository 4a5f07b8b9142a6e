"""Objects as people apply them, one of each kind; each call makes new ones."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

__all__ = ["dataset", "federated", "incremental", "joint", "model", "read", "sample_objects"]

Json = dict[str, Any]
T = TypeVar("T")


def read(obj: Json, view: type[T]) -> T:
    """``obj`` as an API server would hand it over, through ``view``."""
    return msgspec.json.decode(msgspec.json.encode(obj), type=view)


def _object(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _template(node: str, name: str) -> Json:
    return {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "x"}},
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": name,
                    "image": f"example/{name}:v1",
                    "args": ["-i", "1"],
                    "env": [
                        {"name": "batch_size", "value": "32"},
                        {
                            "name": "POD_IP",
                            "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
                        },
                    ],
                    "resources": {"limits": {"memory": "2Gi", "cpu": 1}},
                }
            ],
        },
    }


def dataset(url: str = "/data/edge1/train.txt") -> Json:
    """A Dataset at ``url``."""
    return _object("Dataset", "ds1", {"url": url, "format": "txt", "nodeName": "edge1"})


def model(url: str = "/model/m1") -> Json:
    """A Model at ``url``."""
    return _object("Model", "m1", {"url": url, "format": "pb"})


def federated(trainers: int = 2) -> Json:
    """A FederatedLearningJob with ``trainers`` trainers."""
    return _object(
        "FederatedLearningJob",
        "surface",
        {
            "aggregationWorker": {"model": {"name": "m1"}, "template": _template("cloud", "agg")},
            "trainingWorkers": [
                {"dataset": {"name": f"ds{n}"}, "template": _template(f"edge{n}", "train")}
                for n in range(1, trainers + 1)
            ],
        },
    )


def joint() -> Json:
    """A JointInferenceService."""
    return _object(
        "JointInferenceService",
        "helmet",
        {
            "edgeWorker": {
                "model": {"name": "little"},
                "hardExampleMining": {
                    "name": "IBT",
                    "parameters": [{"key": "threshold_img", "value": "0.5"}],
                },
                "template": _template("edge1", "little"),
            },
            "cloudWorker": {
                "model": {"name": "big"},
                "template": _template("cloud", "big"),
                "hpa": {"maxReplicas": 3, "metrics": [{"type": "Resource"}], "behavior": {}},
            },
        },
    )


def incremental() -> Json:
    """An IncrementalLearningJob."""
    condition = {"operator": ">", "threshold": 500, "metric": "num_of_samples"}
    return _object(
        "IncrementalLearningJob",
        "retrain",
        {
            "initialModel": {"name": "initial"},
            "dataset": {"name": "ds1", "trainProb": 0.8},
            "trainSpec": {
                "template": _template("edge1", "train"),
                "trigger": {
                    "checkPeriodSeconds": 60,
                    "timer": {"start": "02:00", "end": "24:00"},
                    "condition": condition,
                },
            },
            "evalSpec": {"template": _template("edge1", "eval")},
            "deploySpec": {
                "model": {"name": "deploy", "hotUpdateEnabled": True, "pollPeriodSeconds": 10},
                "trigger": {"condition": {**condition, "threshold": 0.1}},
                "hardExampleMining": {"name": "IBT"},
                "template": _template("edge1", "infer"),
            },
            "outputDir": "/il/output",
        },
    )


def sample_objects() -> list[Json]:
    """One object of each kind that users write."""
    return [dataset(), model(), federated(), joint(), incremental()]
