"""IncrementalLearningJob: a model that is trained again as new data comes in."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from gm.api.common import (
    CREDENTIAL_NAME,
    TEMPLATE,
    HardExampleMining,
    PodTemplate,
    Reference,
)
from gm.api.meta import ObjectMeta
from gm.api.schema import View, doc

__all__ = [
    "DatasetShare",
    "DeployModel",
    "DeploySpec",
    "EvalSpec",
    "IncrementalLearningJob",
    "IncrementalLearningJobSpec",
    "IncrementalLearningJobStatus",
    "StageCondition",
    "Timer",
    "TrainSpec",
    "Trigger",
    "TriggerCondition",
]


class DatasetShare(View, frozen=True, kw_only=True):
    """The data, and how much of it is for training."""

    name: Annotated[str, doc("Name of the Dataset.", required=True)] = ""
    train_prob: Annotated[
        float, doc("Share of the samples that is for training, 0 to 1.", required=True)
    ] = 0.0


class Timer(View, frozen=True, kw_only=True):
    """A time of day in which the stage may start."""

    start: Annotated[str, doc("Not before this time: HH:MM.", required=True)] = ""
    end: Annotated[str, doc("Not after this time: HH:MM.", required=True)] = ""


class TriggerCondition(View, frozen=True, kw_only=True):
    """A comparison that must hold before the stage starts."""

    operator: Annotated[str, doc("One of >, >=, =, ==, <, <=.", required=True)] = ""
    threshold: Annotated[float, doc("What the metric is compared with.", required=True)] = 0.0
    metric: Annotated[str, doc("Name of the metric, such as num_of_samples.", required=True)] = ""


class Trigger(View, frozen=True, kw_only=True):
    """When a stage starts."""

    check_period_seconds: Annotated[
        int | None, doc("How often the Local Controller looks.", minimum=0)
    ] = None
    timer: Annotated[Timer | None, doc("The time of day in which the stage may start.")] = None
    condition: Annotated[
        TriggerCondition, doc("What must hold before the stage starts.", required=True)
    ] = TriggerCondition()


class TrainSpec(View, frozen=True, kw_only=True):
    """The training stage."""

    template: Annotated[PodTemplate | None, TEMPLATE] = None
    trigger: Annotated[Trigger, doc("When training starts.", required=True)] = Trigger()


class EvalSpec(View, frozen=True, kw_only=True):
    """The evaluation stage."""

    initial_eval_model: Annotated[
        Reference | None, doc("Model that the first trained one is compared with.")
    ] = None
    template: Annotated[PodTemplate | None, TEMPLATE] = None


class DeployModel(View, frozen=True, kw_only=True):
    """The model that inference serves."""

    name: Annotated[str, doc("Name of the Model.", required=True)] = ""
    hot_update_enabled: Annotated[
        bool | None, doc("The worker loads a new model without a restart.")
    ] = None
    poll_period_seconds: Annotated[
        int | None, doc("How often the worker looks for a new model.", minimum=1, default=60)
    ] = None


class DeploySpec(View, frozen=True, kw_only=True):
    """The deployment stage, and inference."""

    model: Annotated[DeployModel, doc("The model that inference serves.", required=True)] = (
        DeployModel()
    )
    trigger: Annotated[Trigger, doc("When a new model is deployed.", required=True)] = Trigger()
    hard_example_mining: Annotated[
        HardExampleMining, doc("Which examples are kept for training.", required=True)
    ] = HardExampleMining()
    template: Annotated[PodTemplate | None, TEMPLATE] = None


class IncrementalLearningJobSpec(View, frozen=True, kw_only=True):
    """The data, the models and the three stages."""

    dataset: Annotated[DatasetShare, doc("The data.", required=True)] = DatasetShare()
    initial_model: Annotated[Reference, doc("Model to start from.", required=True)] = Reference()
    train_spec: Annotated[TrainSpec, doc("The training stage.", required=True)] = TrainSpec()
    eval_spec: Annotated[EvalSpec, doc("The evaluation stage.", required=True)] = EvalSpec()
    deploy_spec: Annotated[
        DeploySpec, doc("The deployment stage, and inference.", required=True)
    ] = DeploySpec()
    output_dir: Annotated[str, doc("Where data and models of each round go.", required=True)] = ""
    credential_name: Annotated[str | None, CREDENTIAL_NAME] = None


class StageCondition(View, frozen=True, kw_only=True):
    """One entry of the job's history."""

    type: Annotated[
        str,
        doc("Waiting, Ready, Starting, Running, Completed, Failed or another type.", required=True),
    ] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    stage: Annotated[str, doc("Train, Eval or Deploy.", required=True)] = ""
    last_heartbeat_time: Annotated[datetime | None, doc("When the condition was last written.")] = (
        None
    )
    last_transition_time: Annotated[datetime | None, doc("When the status last changed.")] = None
    reason: Annotated[str | None, doc("One word for programs.")] = None
    message: Annotated[str | None, doc("A sentence for people.")] = None
    data: Annotated[str | None, doc("Input or output of the stage, as JSON.")] = None


class IncrementalLearningJobStatus(View, frozen=True, kw_only=True):
    """How the job is doing."""

    conditions: Annotated[
        tuple[StageCondition, ...] | None, doc("The history of the job's stages.")
    ] = None
    start_time: Annotated[datetime | None, doc("When the job was first acted on.")] = None
    completion_time: Annotated[datetime | None, doc("When the job completed.")] = None


class IncrementalLearningJob(View, frozen=True, kw_only=True):
    """A model is trained, evaluated and deployed again as new data comes in."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        IncrementalLearningJobSpec,
        doc("The data, the models and the stages.", required=True, keep_unknown=True),
    ] = IncrementalLearningJobSpec()
    status: Annotated[IncrementalLearningJobStatus, doc("How the job is doing.")] = (
        IncrementalLearningJobStatus()
    )
