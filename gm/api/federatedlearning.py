"""FederatedLearningJob: workers on several nodes train one model."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from gm.api.common import CREDENTIAL_NAME, NODE_NAME, TEMPLATE, Metric, PodTemplate, Reference
from gm.api.meta import ObjectMeta
from gm.api.schema import View, doc

__all__ = [
    "AggregationWorker",
    "FederatedLearningJob",
    "FederatedLearningJobSpec",
    "FederatedLearningJobStatus",
    "JobCondition",
    "RunPolicy",
    "S3Transmitter",
    "TrainingWorker",
    "Transmitter",
    "WorkerStatus",
    "WsTransmitter",
]


class AggregationWorker(View, frozen=True, kw_only=True):
    """The worker that merges what the trainers learned."""

    model: Annotated[Reference, doc("Model that the job trains.", required=True)] = Reference()
    node_name: Annotated[str | None, NODE_NAME] = None
    template: Annotated[PodTemplate | None, TEMPLATE] = None


class TrainingWorker(View, frozen=True, kw_only=True):
    """A worker that trains on the data of its node."""

    dataset: Annotated[Reference, doc("Dataset to train on.", required=True)] = Reference()
    node_name: Annotated[str | None, NODE_NAME] = None
    template: Annotated[PodTemplate | None, TEMPLATE] = None


class WsTransmitter(View, frozen=True, kw_only=True):
    """Weights travel over a websocket from trainer to aggregator; there is nothing to set."""


class S3Transmitter(View, frozen=True, kw_only=True):
    """Weights travel through an S3 store."""

    agg_data_path: Annotated[
        str, doc("Where the weights are exchanged: s3://bucket/prefix.", required=True)
    ] = ""
    credential_name: Annotated[str | None, CREDENTIAL_NAME] = None


class Transmitter(View, frozen=True, kw_only=True):
    """How weights travel: at most one of the two; none means ws."""

    ws: Annotated[WsTransmitter | None, doc("Over a websocket to the aggregator.")] = None
    s3: Annotated[S3Transmitter | None, doc("Through an S3 store.")] = None


class RunPolicy(View, frozen=True, kw_only=True):
    """How the job runs and ends; names and meanings as in Kubeflow."""

    clean_pod_policy: Annotated[
        str | None,
        doc(
            "Which pods are removed when the job has finished: None, Running or All.",
            enum=["None", "Running", "All"],
            default="Running",
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        doc("Remove the job this long after it finished; unset: never.", minimum=0, format="int32"),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        doc("The job fails when it has been active this long.", minimum=0, format="int64"),
    ] = None
    backoff_limit: Annotated[
        int | None,
        doc(
            "Container restarts that each worker may need before it counts as failed; "
            "an edit of the worker starts its count anew.",
            minimum=0,
            format="int32",
            default=6,
        ),
    ] = None
    suspend: Annotated[bool | None, doc("Stop the workers, and start them again when unset.")] = (
        None
    )


class FederatedLearningJobSpec(View, frozen=True, kw_only=True):
    """Who trains what, where, and how the results meet."""

    aggregation_worker: Annotated[
        AggregationWorker,
        doc("The worker that merges what the trainers learned.", required=True),
    ] = AggregationWorker()
    training_workers: Annotated[
        tuple[TrainingWorker, ...],
        doc("The workers that train, each on the data of its node.", required=True),
    ] = ()
    pretrained_model: Annotated[Reference | None, doc("Model that training starts from.")] = None
    transmitter: Annotated[Transmitter | None, doc("How weights travel; unset: ws.")] = None
    min_participants: Annotated[
        int | None,
        doc(
            "The job goes on while this many trainers live; unset: all of them must.",
            minimum=1,
            format="int32",
        ),
    ] = None
    run_policy: Annotated[RunPolicy | None, doc("How the job runs and ends.")] = None


class JobCondition(View, frozen=True, kw_only=True):
    """One statement about the job; at most one of each type is kept."""

    type: Annotated[str, doc("Training, Complete, Failed or another type.", required=True)] = ""
    status: Annotated[
        str, doc("True, False or Unknown.", required=True, enum=["True", "False", "Unknown"])
    ] = ""
    last_probe_time: Annotated[datetime | None, doc("When the condition was last looked at.")] = (
        None
    )
    last_heartbeat_time: Annotated[datetime | None, doc("When the condition was last written.")] = (
        None
    )
    last_transition_time: Annotated[datetime | None, doc("When the status last changed.")] = None
    reason: Annotated[str | None, doc("One word for programs.")] = None
    message: Annotated[str | None, doc("A sentence for people.")] = None


class WorkerStatus(View, frozen=True, kw_only=True):
    """How one worker of the job is doing."""

    name: Annotated[str, doc("WORKER_NAME of the worker.", required=True)] = ""
    role: Annotated[str, doc("aggregation or train.", required=True)] = ""
    index: Annotated[int | None, doc("Place in trainingWorkers.", format="int32")] = None
    node: Annotated[str | None, doc("Node that the worker's pod was last bound to.")] = None
    pod_name: Annotated[str | None, doc("The worker's newest pod.")] = None
    phase: Annotated[
        str | None,
        doc("Pending, Running, Succeeded, Failed, or Stopped when the job's end stopped it."),
    ] = None
    restarts: Annotated[int | None, doc("Container restarts so far.", format="int32")] = None
    spec_hash: Annotated[
        str | None, doc("Which version of the worker's spec phase and restarts are about.")
    ] = None
    reason: Annotated[str | None, doc("Why the worker is not running, or has failed.")] = None
    message: Annotated[
        str | None, doc("The same for people: exit code and last line of a container that failed.")
    ] = None
    round: Annotated[int | None, doc("Round that the worker reported last.", format="int32")] = None
    metrics: Annotated[tuple[Metric, ...] | None, doc("Metrics that the worker reported last.")] = (
        None
    )
    last_report_time: Annotated[datetime | None, doc("When the worker last reported.")] = None


class FederatedLearningJobStatus(View, frozen=True, kw_only=True):
    """How the job is doing."""

    phase: Annotated[str | None, doc("Pending, Running, Suspended, Succeeded or Failed.")] = None
    reason: Annotated[
        str | None,
        doc("Reason of the newest problem, as its condition has it; unset: all is well."),
    ] = None
    message: Annotated[str | None, doc("What the newest problem is, for people.")] = None
    observed_generation: Annotated[
        int | None, doc("Generation of the spec that this status speaks of.", format="int64")
    ] = None
    round: Annotated[int | None, doc("Training round that was reported last.", format="int32")] = (
        None
    )
    active: Annotated[int | None, doc("Pods that are pending or running.", format="int32")] = None
    succeeded: Annotated[int | None, doc("Pods that succeeded.", format="int32")] = None
    failed: Annotated[int | None, doc("Pods that failed.", format="int32")] = None
    start_time: Annotated[datetime | None, doc("When the job was first acted on.")] = None
    completion_time: Annotated[datetime | None, doc("When the job completed.")] = None
    conditions: Annotated[
        tuple[JobCondition, ...] | None, doc("Statements about the job, one of each type.")
    ] = None
    workers: Annotated[tuple[WorkerStatus, ...] | None, doc("How each worker is doing.")] = None


class FederatedLearningJob(View, frozen=True, kw_only=True):
    """Workers on several nodes train one model; the data stays where it lies."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[FederatedLearningJobSpec, doc("Who trains what, where.", required=True)] = (
        FederatedLearningJobSpec()
    )
    status: Annotated[FederatedLearningJobStatus, doc("How the job is doing.")] = (
        FederatedLearningJobStatus()
    )
