"""Pods and Services of workers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gm.api.meta import ObjectMeta
from gm.api.resources import FEDERATED_LEARNING_JOBS
from gm.api.sedna import PodTemplate
from gm.controllers.storage import Location, Storage
from gm.controllers.worker import Owner, PodRequest, build_pod, build_service, uid_label
from gm.errors import InvalidSpec
from tests.controllers.support import env_of, template

OWNER = Owner(FEDERATED_LEARNING_JOBS, ObjectMeta(name="job", namespace="ns", uid="u-1"))


def build(body: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """A pod from a template."""
    request: dict[str, Any] = {
        "name": "job-train-0",
        "worker_type": "Train",
        "template": msgspec.convert(body, PodTemplate) if body is not None else None,
        "env": {"JOB_NAME": "job"},
        "storage": Storage.of(()),
        **fields,
    }
    return build_pod(OWNER, PodRequest(**request), initializer_image="init:v1")


def test_everything_that_the_user_wrote_survives_P2_099_P2_100() -> None:
    """Known fields and unknown ones; defaults only where unset."""
    body = template(
        restartPolicy="Never",
        dnsPolicy="None",
        schedulerName="volcano",
        tolerations=[{"operator": "Exists"}],
        imagePullSecrets=[{"name": "pull"}],
        securityContext={"runAsUser": 1},
        initContainers=[{"name": "mine", "image": "i"}],
        someNewField={"a": 1},
        hostNetwork=False,
        nodeName="edge7",
    )
    body["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    pod = build(body, host_network=True, node_name="elsewhere")
    for field, value in body["spec"].items():
        if field != "containers":
            assert pod["spec"][field] == value, field
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"]["note"] == "b"


def test_labels_and_owner_are_those_of_the_contract() -> None:
    """Prefix is the kind; worker-type is lower case; the user can not take them over."""
    body = template()
    body["metadata"] = {"labels": {"federatedlearningjob.sedna.io/uid": "stolen"}}
    metadata = build(body)["metadata"]
    assert metadata["labels"] == {
        "federatedlearningjob.sedna.io/name": "job",
        "federatedlearningjob.sedna.io/uid": "u-1",
        "federatedlearningjob.sedna.io/worker-type": "train",
    }
    assert uid_label(FEDERATED_LEARNING_JOBS) == "federatedlearningjob.sedna.io/uid"
    owner = metadata["ownerReferences"][0]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("u-1", True, True)


def test_injected_variables_win_and_come_once_in_every_container_P2_099() -> None:
    """A clash has a defined winner, and what is the user's own stays."""
    body = template()
    body["spec"]["containers"] = [
        {"name": "a", "image": "i", "env": [{"name": "JOB_NAME", "value": "mine"}]},
        {"name": "b", "image": "i", "env": [{"name": "OWN", "value": "$(JOB_NAME)"}]},
    ]
    pod = build(body)
    assert env_of(pod, 0) == {"JOB_NAME": "job"}
    assert env_of(pod, 1) == {"JOB_NAME": "job", "OWN": "$(JOB_NAME)"}
    names = [entry["name"] for entry in pod["spec"]["containers"][1]["env"]]
    assert names.index("JOB_NAME") < names.index("OWN"), "else $(JOB_NAME) stays as it is"


def test_the_template_is_not_changed() -> None:
    """It belongs to a cache."""
    body = template(volumes=[{"name": "v", "emptyDir": {}}])
    before = msgspec.json.encode(body)
    build(body, storage=Storage.of((Location(variable="M", urls=("/a/b",)),)), host_network=True)
    assert msgspec.json.encode(body) == before


@pytest.mark.parametrize(
    "body",
    [
        None,
        {"spec": None},
        {"spec": {"containers": []}},
        {"spec": {"containers": "x"}},
        {"spec": {"containers": ["x"]}},
        {"spec": {"containers": [{"env": ["A=1"]}]}},
        {"spec": {"containers": [{"name": "a"}], "volumes": 3}},
    ],
)
def test_a_template_that_can_not_become_a_pod_is_invalid(body: dict[str, Any] | None) -> None:
    """And says where."""
    storage = Storage.of((Location(variable="M", urls=("/a/b",)),))
    with pytest.raises(InvalidSpec, match=r"template\.spec"):
        build(body, storage=storage)


def test_a_service_selects_by_uid() -> None:
    """So two jobs of one name never share endpoints."""
    service = build_service(OWNER, name="s", worker_type="aggregation", port=1, node_port=True)
    assert service["spec"]["type"] == "NodePort"
    assert service["spec"]["selector"]["federatedlearningjob.sedna.io/uid"] == "u-1"
    assert "externalIPs" not in service["spec"]
    assert service["spec"]["ports"][0]["name"] == "tcp-0"


def test_a_kubelet_is_asked_for_the_last_words_of_workers() -> None:
    """Unless the template says where its message comes from."""
    body = template()
    body["spec"]["containers"].append(
        {"name": "other", "image": "i", "terminationMessagePolicy": "File"}
    )
    containers = build(body)["spec"]["containers"]
    policies = [container["terminationMessagePolicy"] for container in containers]
    assert policies == ["FallbackToLogsOnError", "File"]
