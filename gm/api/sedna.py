"""The kinds of ``sedna.io/v1alpha1``: for reading objects and for generating their CRDs.

Reading is lenient (a field that the CRD demands still has a default here): an object that an
older CRD let through must be readable, so that its status can say what is wrong with it. What is
wrong, :mod:`gm.api.validation` tells.
"""

from __future__ import annotations

from gm.api.common import (
    HardExampleMining,
    Metric,
    Parameter,
    PodTemplate,
    Reference,
    StatusCondition,
    TemplateMetadata,
)
from gm.api.dataset import Dataset, DatasetSpec, DatasetStatus
from gm.api.edgenode import EdgeNode, EdgeNodeStatus, Quarantined
from gm.api.federatedlearning import (
    AggregationWorker,
    FederatedLearningJob,
    FederatedLearningJobSpec,
    FederatedLearningJobStatus,
    JobCondition,
    RunPolicy,
    S3Transmitter,
    TrainingWorker,
    Transmitter,
    WorkerStatus,
    WsTransmitter,
)
from gm.api.incrementallearning import (
    DatasetShare,
    DeployModel,
    DeploySpec,
    EvalSpec,
    IncrementalLearningJob,
    IncrementalLearningJobSpec,
    IncrementalLearningJobStatus,
    StageCondition,
    Timer,
    TrainSpec,
    Trigger,
    TriggerCondition,
)
from gm.api.jointinference import (
    CloudWorker,
    EdgeWorker,
    HorizontalPodAutoscaling,
    JointInferenceService,
    JointInferenceServiceSpec,
    JointInferenceServiceStatus,
    ServiceCondition,
)
from gm.api.model import Model, ModelSpec, ModelStatus

__all__ = [
    "AggregationWorker",
    "CloudWorker",
    "Dataset",
    "DatasetShare",
    "DatasetSpec",
    "DatasetStatus",
    "DeployModel",
    "DeploySpec",
    "EdgeNode",
    "EdgeNodeStatus",
    "EdgeWorker",
    "EvalSpec",
    "FederatedLearningJob",
    "FederatedLearningJobSpec",
    "FederatedLearningJobStatus",
    "HardExampleMining",
    "HorizontalPodAutoscaling",
    "IncrementalLearningJob",
    "IncrementalLearningJobSpec",
    "IncrementalLearningJobStatus",
    "JobCondition",
    "JointInferenceService",
    "JointInferenceServiceSpec",
    "JointInferenceServiceStatus",
    "Metric",
    "Model",
    "ModelSpec",
    "ModelStatus",
    "Parameter",
    "PodTemplate",
    "Quarantined",
    "Reference",
    "RunPolicy",
    "S3Transmitter",
    "ServiceCondition",
    "StageCondition",
    "StatusCondition",
    "TemplateMetadata",
    "Timer",
    "TrainSpec",
    "TrainingWorker",
    "Transmitter",
    "Trigger",
    "TriggerCondition",
    "WorkerStatus",
    "WsTransmitter",
]
