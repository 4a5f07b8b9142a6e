"""What edges get, compared with the recorded frames, and what counts as a change."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from gm.controllers.edge_copy import edge_copy
from gm.messagelayer import Desired, WireKey
from tests.controllers.support import golden


def copied(obj: dict[str, Any], **options: Any) -> Desired:
    """The edge copy of an object."""
    key = WireKey(obj["kind"].lower(), obj["metadata"]["namespace"], obj["metadata"]["name"])
    raw = msgspec.json.encode({"apiVersion": "sedna.io/v1alpha1", **obj})
    return edge_copy(key, obj["kind"], raw, **options)


def frames() -> list[Any]:
    """Recorded objects."""
    return [
        pytest.param(frame, id=f"{name}-{frame['header']['resourceKind']}")
        for name in ("fl-hostpath", "fl-s3", "il", "ji-basic")
        for frame in golden(name)["steps"][0]["frames"]
    ]


@pytest.mark.parametrize("frame", frames())
def test_the_content_is_what_sedna_sends(frame: dict[str, Any]) -> None:
    """The whole object with kind set; the credential as its own annotation."""
    theirs = copy.deepcopy(frame["object"])
    credential = (theirs["metadata"].get("annotations") or {}).get("sedna.io/credential")
    plain = copy.deepcopy(theirs)
    plain["metadata"].pop("annotations", None)
    ours = json.loads(copied(plain, credential=credential).content)
    if not theirs["metadata"].get("annotations", True):
        del theirs["metadata"]["annotations"]  # an empty map says nothing
    assert ours == theirs


def dataset(**metadata: Any) -> dict[str, Any]:
    """A Dataset as the API server gives it."""
    meta = {"name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "1", **metadata}
    return {
        "kind": "Dataset",
        "metadata": meta,
        "spec": {"url": "/a", "format": "txt", "nodeName": "edge1"},
        "status": {"numberOfSamples": 1},
    }


def test_status_version_and_bookkeeping_are_no_change_P1_087() -> None:
    """An edge is not told what it has reported itself."""
    first = copied(dataset())
    other = dataset(
        resourceVersion="2",
        managedFields=[{"manager": "x"}],
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    )
    other["status"] = {"numberOfSamples": 2}
    assert copied(other).same_version(first)
    assert b"managedFields" not in copied(other).content
    assert b"last-applied" not in copied(other).content


def test_spec_labels_and_credentials_are_a_change() -> None:
    """And a url is another object for a v1 node."""
    first = copied(dataset())
    assert not copied(dataset(labels={"a": "b"})).same_version(first)
    assert not copied(dataset(), credential="{}").same_version(first)
    moved = dataset()
    moved["spec"]["url"] = "/b"
    assert copied(moved).spec_identity != first.spec_identity


def test_status_and_annotations_of_an_incremental_job_are_a_change() -> None:
    """Its LC is driven by them."""
    job = {**dataset(), "kind": "IncrementalLearningJob"}
    other = copy.deepcopy(job)
    other["status"] = {"conditions": [{"type": "Ready"}]}
    assert not copied(other).same_version(copied(job))


def test_a_credential_that_somebody_wrote_on_the_object_is_not_passed_on() -> None:
    """Only GM vouches for it."""
    forged = dataset(annotations={"sedna.io/credential": "forged", "kept": "yes"})
    content = json.loads(copied(forged).content)
    assert content["metadata"]["annotations"] == {"kept": "yes"}
