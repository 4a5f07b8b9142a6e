"""Children compared with what a real Sedna GM made of the same input.

Every difference that is meant is taken out by one function of ``INTENDED``, under the name that
docs/compatibility.md has for it. What is left must be equal. The docstrings name the line that asks
for the difference in the pages that the program was designed on: design.md, and contract.md, the
contract with Sedna, whose parts docs/compatibility.md retells.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gm.api.core import Secret
from gm.api.sedna import Dataset, FederatedLearningJob, Model
from gm.controllers.federatedlearning.status import notices
from gm.controllers.federatedlearning.world import JobSettings, World
from gm.controllers.reports import TrainingUpdate
from tests.controllers.support import NOW, golden, node, set_pods, settle, view, with_status

Pod = dict[str, Any]

SERVER_DEFAULTS = {
    "enableServiceLinks",
    "preemptionPolicy",
    "priority",
    "schedulerName",
    "securityContext",
    "terminationGracePeriodSeconds",
    "tolerations",
}
CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
}


def containers(pod: Pod) -> list[Pod]:
    """All of them."""
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]


def names_are_deterministic(pod: Pod) -> None:
    """design.md 4: names of children are deterministic."""
    metadata = pod["metadata"]
    metadata.pop("generateName", None)
    metadata["name"] = re.sub(r"-(train|aggregation)-[a-z0-9]+$", r"-\1", metadata["name"])


def worker_name_suffix_is_a_hash(pod: Pod) -> None:
    """design.md 4: the 5 characters of WORKER_NAME are a hash of (job uid, role, index)."""
    for container in containers(pod):
        for variable in container.get("env") or []:
            if variable["name"] == "WORKER_NAME":
                assert re.fullmatch(r"(agg|train)worker-[a-z0-9]{5}", variable["value"])
                variable["value"] = variable["value"][:-5]


def annotations_tell_worker_and_hash(pod: Pod) -> None:
    """Issue "the controller, complete": an annotation with a hash of the worker's spec."""
    annotations = pod["metadata"].pop("annotations", {})
    assert set(annotations) <= {"sedna.io/worker", "sedna.io/worker-hash"}


def grace_is_told(pod: Pod) -> None:
    """contract.md 1: pods get completionGraceSeconds as env COMPLETION_GRACE_SECONDS."""
    for container in pod["spec"]["containers"]:
        container["env"] = [e for e in container["env"] if e["name"] != "COMPLETION_GRACE_SECONDS"]


def host_network_resolves_cluster_names(pod: Pod) -> None:
    """Issue "the controller, complete" 4: hostNetwork pods get ClusterFirstWithHostNet."""
    if pod["spec"].get("dnsPolicy") == "ClusterFirstWithHostNet":
        assert pod["spec"]["hostNetwork"]
        pod["spec"]["dnsPolicy"] = "ClusterFirst"


def volume_names_never_collide(pod: Pod) -> None:
    """contract.md 3: Sedna names the volume after the path, lossily; ours never collide."""
    renamed = {}
    for number, volume in enumerate(pod["spec"].get("volumes") or []):
        renamed[volume["name"]] = f"volume-{number}"
        volume["name"] = f"volume-{number}"
    for container in containers(pod):
        for mount in container.get("volumeMounts") or []:
            mount["name"] = renamed[mount["name"]]


def model_directories_are_made(pod: Pod) -> None:
    """contract.md 3: a Model's directory is DirectoryOrCreate."""
    for volume in pod["spec"].get("volumes") or []:
        path = volume.get("hostPath")
        if path and path["path"] == "/model/" and path["type"] == "DirectoryOrCreate":
            path["type"] = "Directory"


def secrets_come_by_reference(pod: Pod) -> None:
    """design.md 6: pods get S3 credentials by secretKeyRef (inlineCredentials false)."""
    for container in containers(pod):
        for variable in container.get("env") or []:
            reference = (variable.pop("valueFrom", None) or {}).get("secretKeyRef")
            if reference:
                assert reference == {"name": "s3-secret", "key": variable["name"]}
                known = {"ACCESS_KEY_ID": "AKEXAMPLE", "SECRET_ACCESS_KEY": "topsecret"}
                variable["value"] = known[variable["name"]]


def last_words_are_kept(pod: Pod) -> None:
    """contract.md 4, "how a job ends": a job that fails tells what its worker said last."""
    for container in containers(pod):
        if container["terminationMessagePolicy"] == "FallbackToLogsOnError":
            container["terminationMessagePolicy"] = "File"


INTENDED: dict[str, Callable[[Pod], None]] = {
    "names": names_are_deterministic,
    "worker-name": worker_name_suffix_is_a_hash,
    "annotations": annotations_tell_worker_and_hash,
    "grace": grace_is_told,
    "dns-policy": host_network_resolves_cluster_names,
    "volumes": volume_names_never_collide,
    "model-directory": model_directories_are_made,
    "credentials": secrets_come_by_reference,
    "last-words": last_words_are_kept,
}


def normal(pod: Pod) -> Pod:
    """``pod`` without what differs from run to run, and without what the server defaults."""
    pod = copy.deepcopy(pod)
    metadata = pod["metadata"]
    fields = ("creationTimestamp", "resourceVersion", "uid", "generation", "managedFields")
    for field in fields:
        metadata.pop(field, None)
    metadata["ownerReferences"][0]["uid"] = "uid"
    metadata["labels"]["federatedlearningjob.sedna.io/uid"] = "uid"
    pod.pop("status", None)
    for field in SERVER_DEFAULTS:
        pod["spec"].pop(field, None)
    pod["spec"].setdefault("dnsPolicy", "ClusterFirst")
    for container in containers(pod):
        for field, value in CONTAINER_DEFAULTS.items():
            container.setdefault(field, value)
        container["resources"].pop("requests", None)  # defaulted from limits
        container["env"] = sorted(container.get("env") or [], key=lambda e: str(e["name"]))
    for change in INTENDED.values():
        change(pod)
    return pod


def test_every_difference_is_documented_under_its_name() -> None:
    """docs/compatibility.md, so that users of Sedna find it."""
    text = (Path(__file__).parents[3] / "docs" / "compatibility.md").read_text()
    section = text.partition("## Children")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
    assert INTENDED.keys() <= documented
    # what no recording shows: tested in test_worker, test_plan and test_names
    assert documented - INTENDED.keys() == {"env", "external-ips", "labels", "minimum"}


def world_of(recording: dict[str, Any], settings: JobSettings) -> World:
    """The recording's input, as caches would show it."""
    given: dict[str, dict[str, Any]] = {}
    for item in recording["input"]:
        given.setdefault(item["kind"], {})[item["metadata"]["name"]] = item
    job = copy.deepcopy(next(iter(given["FederatedLearningJob"].values())))
    job["metadata"] |= {"namespace": recording["namespace"], "uid": "uid", "resourceVersion": "1"}
    secrets = {}
    for name, item in given.get("Secret", {}).items():
        data = {k: base64.b64encode(v.encode()).decode() for k, v in item["stringData"].items()}
        secrets[name] = msgspec.convert({**item, "data": data}, Secret)
    return World(
        now=NOW,
        job=view(job, FederatedLearningJob),
        settings=settings,
        models={n: msgspec.convert(i, Model) for n, i in given["Model"].items()},
        datasets={n: msgspec.convert(i, Dataset) for n, i in given["Dataset"].items()},
        secrets=secrets,
        nodes={n: node(n, "10.0.0.1") for n in ("cloud", "edge1", "edge2")},
    )


def by_dataset(pods: list[Pod]) -> dict[str, Pod]:
    """Pods by what tells them apart."""
    found = {}
    for pod in pods:
        env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
        found[env.get("DATASET_NAME") or "aggregation"] = pod
    return found


@pytest.mark.parametrize("inline", [False, True], ids=["by reference", "inline"])
@pytest.mark.parametrize("name", ["fl-hostpath", "fl-s3"])
def test_pods_are_what_sedna_makes_but_for_the_intended_differences(
    name: str, inline: bool
) -> None:
    """Aggregator and trainers, host paths and stores."""
    recording = golden(name)
    settings = JobSettings(aggregation_service="clusterDNS", inline_credentials=inline)
    seen, _ = settle(world_of(recording, settings))
    ours = by_dataset([msgspec.json.decode(pod.raw) for pod in seen.pods])
    theirs = by_dataset([c for c in recording["steps"][0]["children"] if c["kind"] == "Pod"])
    assert set(ours) == set(theirs)
    for which, pod in theirs.items():
        assert normal(ours[which]) == normal(pod), which


@pytest.mark.parametrize("name", ["fl-hostpath", "fl-s3"])
def test_the_service_is_what_sedna_makes(name: str) -> None:
    """Port tcp-0, selector with the job's uid (P1-067)."""
    recording = golden(name)
    seen, _ = settle(world_of(recording, JobSettings(aggregation_service="clusterDNS")))
    ours = msgspec.json.decode(seen.services[0].raw)
    theirs = next(c for c in recording["steps"][0]["children"] if c["kind"] == "Service")
    assert ours["metadata"]["name"] == theirs["metadata"]["name"]
    for field in ("type", "ports"):
        assert ours["spec"][field] == theirs["spec"][field]
    uid = theirs["metadata"]["ownerReferences"][0]["uid"]
    for labels in (theirs["metadata"]["labels"], theirs["spec"]["selector"]):
        assert labels.pop("federatedlearningjob.sedna.io/uid") == uid
    for labels in (ours["metadata"]["labels"], ours["spec"]["selector"]):
        assert labels.pop("federatedlearningjob.sedna.io/uid") == "uid"
    assert ours["metadata"]["labels"] == theirs["metadata"]["labels"]
    assert ours["spec"]["selector"] == theirs["spec"]["selector"]


@pytest.mark.parametrize("name", ["fl-hostpath", "fl-s3"])
def test_pods_that_sedna_left_are_adopted(name: str) -> None:
    """The recording's own children: nothing starts twice."""
    from gm.api.core import Pod as PodView
    from gm.api.core import Service

    recording = golden(name)
    seen = world_of(recording, JobSettings())
    uid = recording["steps"][0]["children"][0]["metadata"]["ownerReferences"][0]["uid"]
    job = msgspec.json.decode(seen.job.raw)
    job["metadata"]["uid"] = uid
    children = recording["steps"][0]["children"]
    seen = msgspec.structs.replace(
        seen,
        job=view(job, FederatedLearningJob),
        pods=tuple(view(c, PodView) for c in children if c["kind"] == "Pod"),
        services=tuple(view(c, Service) for c in children if c["kind"] == "Service"),
        secrets={},
    )
    from gm.controllers.federatedlearning.plan import plan

    decided = plan(seen)
    assert not decided.create
    assert not decided.delete
    assert not decided.secrets
    assert len(decided.patch) == 3
    assert decided.status is not None
    assert decided.status["active"] == 3


FIELDS = ("phase", "active", "succeeded", "failed")


def told(status: dict[str, Any]) -> dict[str, Any]:
    """What a status says in Sedna's fields, times left out."""
    kept = ("type", "status", "reason", "message")
    return {
        **{field: status.get(field) for field in FIELDS},
        "started": "startTime" in status,
        "completed": "completionTime" in status,
        "conditions": [
            {field: condition[field] for field in kept if field in condition}
            for condition in status.get("conditions") or []
        ],
    }


@pytest.mark.parametrize("name", ["fl-hostpath", "fl-s3"])
def test_statuses_are_what_sedna_writes_but_for_the_intended_differences(name: str) -> None:
    """Replayed: pods run, a round is reported, pods succeed."""
    recording = golden(name)
    steps = {step["step"]: step for step in recording["steps"]}

    def theirs(step: str) -> dict[str, Any]:
        key = next(k for k in steps[step]["statuses"] if k.startswith("FederatedLearningJob/"))
        return told(steps[step]["statuses"][key])

    def ours() -> dict[str, Any]:
        return told(msgspec.json.decode(seen.job.raw)["status"])

    seen, _ = settle(world_of(recording, JobSettings(aggregation_service="clusterDNS")))
    # contract.md 4, "(ours: Pending until every worker runs)"
    assert ours() == theirs("applied") | {"phase": "Pending"}
    seen, _ = settle(set_pods(seen, "Running"))
    assert ours() == theirs("pods running")
    status = msgspec.json.decode(seen.job.raw)["status"]
    report = TrainingUpdate(
        node="edge1", round=1, reached_at="2026-11-30 01:00:00", metrics={"accuracy": "0.91"}
    )
    report.apply(status, NOW)
    seen = with_status(seen, status)
    assert ours() == theirs("round 1 reported")
    seen, _ = settle(set_pods(seen, "Succeeded"))
    assert ours() == theirs("pods succeeded")
    events = notices(status, msgspec.json.decode(seen.job.raw)["status"])
    # Sedna's message says "FederatedLearningJob completed"; ours tells what is behind it
    ending = {"message": "the aggregator succeeded after 1 round; 2 trainers"}
    assert [msgspec.structs.asdict(e) for e in events] == [
        event | ending for event in steps["pods succeeded"]["events"]
    ]
