"""What the LC reads out of objects: as little as it needs, from whatever comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.api.worker_names import worker_name
from gm.edge_stub.objects import (
    DatasetSpec,
    Held,
    JobIndex,
    NotAnObject,
    dataset_spec,
    identify,
)
from gm.messagelayer.message import WireKey
from tests.fakes.gm import dataset, job

D = WireKey("dataset", "default", "d")
FL = WireKey("federatedlearningjob", "default", "fl1")


def test_uid_is_read_and_the_name_has_to_agree() -> None:
    """An object under another's key would be deleted with it."""
    assert identify(D, json.dumps(dataset("d", uid="u9")).encode()) == "u9"
    assert identify(D, b"{}") == ""
    assert identify(D, b'{"metadata":{"name":null}}') == ""
    for name, namespace in (("e", "default"), ("d", "other")):
        content = json.dumps({"metadata": {"name": name, "namespace": namespace}}).encode()
        with pytest.raises(NotAnObject, match=f"content is of {namespace}/{name}"):
            identify(D, content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "metadata", "uid", "url", "format", "trainingWorkers", "x"]),
            inner,
        )
    ),
)


@given(JSON)
def test_any_json_is_read_or_refused(value: object) -> None:
    """Nothing else can happen."""
    content = json.dumps(value).encode()
    assert isinstance(dataset_spec(content), DatasetSpec)
    JobIndex().put(Held(FL, "u"), content)
    try:
        identify(D, content)
    except NotAnObject:
        return
    assert isinstance(value, dict)


def test_worker_is_found_by_its_name_first() -> None:
    """Each job's workers have names of their own, whatever they call their owner."""
    jobs = JobIndex()
    for name, uid in (("fl1", "u1"), ("fl2", "u2")):
        key = WireKey("federatedlearningjob", "default", name)
        jobs.put(Held(key, uid), json.dumps(job(name, uid=uid, trainers=3)).encode())
    for uid, name in (("u1", "fl1"), ("u2", "fl2")):
        for role, index in (("train", 0), ("train", 2), ("aggregation", 0)):
            found = jobs.owner(
                namespace="default", worker=worker_name(uid, role, index), owner="whoever"
            )
            assert found is not None
            assert found.name == name
    elsewhere = jobs.owner(namespace="other", worker=worker_name("u1", "train", 0), owner="fl1")
    assert elsewhere is None


def test_job_of_the_owners_name_is_next_if_there_is_only_one() -> None:
    """Sedna's own GM gives workers names that nobody can compute."""
    jobs = JobIndex()
    jobs.put(Held(FL, "u1"), b"{}")
    jobs.put(Held(D, "u1"), b"{}")
    assert jobs.owner(namespace="default", worker="w", owner="fl1") == FL
    assert jobs.owner(namespace="default", worker="w", owner="d") is None
    jobs.put(Held(WireKey("incrementallearningjob", "default", "fl1"), "u2"), b"{}")
    assert jobs.owner(namespace="default", worker="w", owner="fl1") is None
    jobs.remove(FL)
    assert jobs.owner(namespace="default", worker="w", owner="fl1") is not None
