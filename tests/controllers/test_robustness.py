"""Objects of every shape that a lax API server lets through: nobody crashes."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gm.api.sedna import (
    Dataset,
    FederatedLearningJob,
    IncrementalLearningJob,
    JointInferenceService,
)
from gm.controllers.edge_copy import edge_copy
from gm.controllers.federatedlearning.plan import plan
from gm.controllers.placement import (
    dataset_nodes,
    federated_nodes,
    incremental_models,
    incremental_nodes,
    inference_nodes,
)
from gm.messagelayer import WireKey
from tests.controllers.support import job_json, view, world

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/:.$s3", max_size=6)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "spec", "containers", "env", "nodeName", "volumes", "volumeMounts", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
TEMPLATE = st.fixed_dictionaries({}, optional={"metadata": ANYTHING, "spec": ANYTHING}) | ANYTHING
WORKER = st.fixed_dictionaries(
    {"template": TEMPLATE},
    optional={
        "model": ANYTHING,
        "dataset": st.just({"name": "d0"}) | ANYTHING,
        "nodeName": SCALARS,
    },
)
SPEC = st.fixed_dictionaries(
    {"aggregationWorker": WORKER, "trainingWorkers": st.lists(WORKER, max_size=2)},
    optional={"transmitter": ANYTHING, "runPolicy": ANYTHING, "pretrainedModel": ANYTHING},
)


@settings(max_examples=300, deadline=None)
@given(SPEC)
def test_any_job_that_can_be_read_can_be_planned_P0_024(spec: dict[str, Any]) -> None:
    """What can not be read never reaches a controller."""
    job = job_json()
    job["spec"] = spec
    try:
        seen = world(job)
    except msgspec.ValidationError:
        return
    decided = plan(seen)
    assert decided.status is not None
    msgspec.json.encode(decided.status)


@settings(max_examples=300, deadline=None)
@given(
    ANYTHING,
    st.sampled_from([Dataset, FederatedLearningJob, JointInferenceService, IncrementalLearningJob]),
)
def test_any_object_that_can_be_read_can_be_placed_and_copied_P0_024(
    spec: Any, kind: type[Any]
) -> None:
    """Downstream has no place to put an error."""
    body = {"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, "spec": spec}
    try:
        stored = view(body, kind)
    except msgspec.ValidationError:
        return
    match stored.view:
        case Dataset() as dataset:
            dataset_nodes(dataset)
        case FederatedLearningJob() as job:
            federated_nodes(job)
        case JointInferenceService() as service:
            inference_nodes(service)
        case IncrementalLearningJob() as incremental:
            incremental_nodes(incremental, None)
            incremental_models(incremental)
    edge_copy(WireKey(kind.__name__.lower(), "ns", "x"), kind.__name__, stored.raw)
