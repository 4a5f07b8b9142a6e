"""Which pod plays which worker: labels and annotations tell, names never."""

from __future__ import annotations

from typing import Any

import msgspec

from gm.api.core import Pod
from gm.api.sedna import FederatedLearningJob
from gm.controllers.federatedlearning.workers import (
    HASH_ANNOTATION,
    WORKER_ANNOTATION,
    Worker,
    match,
    workers_of,
)
from gm.controllers.stored import stored
from gm.kube.lister import Stored
from tests.controllers.support import job_json, template, view

LABEL = "federatedlearningjob.sedna.io/worker-type"


def workers(job: dict[str, Any] | None = None) -> list[Worker]:
    """The workers of a job."""
    return workers_of(view(job or job_json(), FederatedLearningJob))


def pod(name: str, role: str, *, told: str = "", dataset: str = "", node: str = "") -> Stored[Pod]:
    """A pod of the job; without ``told`` as a Sedna GM left it."""
    env = [{"name": "DATASET_NAME", "value": dataset}] if dataset else []
    body = {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "resourceVersion": "1",
            "labels": {LABEL: role},
            "annotations": {WORKER_ANNOTATION: told} if told else {},
        },
        "spec": {"nodeName": node or None, "containers": [{"name": "c", "env": env}]},
    }
    return stored(msgspec.json.encode(body), Pod)


def played(*pods: Stored[Pod]) -> tuple[dict[str, list[str]], list[str]]:
    """Names of the pods that play each worker, and of those that play none."""
    playing, surplus = match(workers(), pods)
    named = {worker: [p.key.name for p in found] for worker, found in playing.items() if found}
    return named, [p.key.name for p in surplus]


def test_the_role_is_read_from_labels_not_from_names_P2_109() -> None:
    """Whatever words a name holds."""
    assert played(
        pod("a-train-b-eval-xyz", "aggregation"),
        pod("aggregation-of-train-1", "train", dataset="d1"),
        pod("job-train-0", "eval", dataset="d0"),
    ) == (
        {"aggregation-0": ["a-train-b-eval-xyz"], "train-1": ["aggregation-of-train-1"]},
        ["job-train-0"],
    )


def test_a_pod_that_says_whom_it_plays_is_believed_P2_109() -> None:
    """Our own annotation goes before everything else."""
    assert played(
        pod("job-train-0", "train", told="train-1", dataset="d0"),
        pod("job-train-7", "train", told="train-7"),
    ) == ({"train-1": ["job-train-0"]}, ["job-train-7"])


def test_a_pod_without_annotation_is_matched_by_dataset_and_node() -> None:
    """One for each worker; the rest play none."""
    assert played(
        pod("x", "train", dataset="d0", node="edge0"),
        pod("y", "train", dataset="d0", node="edge0"),
        pod("z", "train", dataset="d1", node="elsewhere"),
    ) == ({"train-0": ["x"]}, ["y", "z"])


def test_a_digest_holds_what_the_spec_says_about_the_worker_only() -> None:
    """One trainer's image is no business of the others; the number of trainers is."""
    before = {w.id: w.digest for w in workers()}
    job = job_json()
    job["spec"]["trainingWorkers"][1]["template"] = template("example:v2", nodeName="edge1")
    after = {w.id: w.digest for w in workers(job)}
    assert {worker for worker in before if before[worker] != after[worker]} == {"train-1"}
    more = {w.id: w.digest for w in workers(job_json(trainers=3))}
    assert all(more[worker] != before[worker] for worker in before)
    assert HASH_ANNOTATION == "sedna.io/worker-hash"


def test_titles_name_the_node_if_the_spec_does() -> None:
    """What messages call a worker."""
    job = job_json(trainers=1)
    job["spec"]["trainingWorkers"][0]["template"] = template()
    assert [w.title for w in workers(job)] == ["aggregator on cloud", "trainer 0"]
