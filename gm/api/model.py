"""Model: what jobs read, train or serve."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from gm.api.common import CREDENTIAL_NAME, PLACES, Metric, StatusCondition
from gm.api.meta import ObjectMeta
from gm.api.schema import View, doc

__all__ = [
    "Model",
    "ModelSpec",
    "ModelStatus",
]


class ModelSpec(View, frozen=True, kw_only=True):
    """Where the model lies."""

    url: Annotated[
        str,
        doc(
            f"Where the model lies: {PLACES}.",
            required=True,
        ),
    ] = ""
    format: Annotated[str, doc("Format of the model, such as pb, ckpt or npz.", required=True)] = ""
    device_soc_versions: Annotated[
        tuple[str, ...] | None, doc("Versions of the chips that the model was compiled for.")
    ] = msgspec.field(default=None, name="device_soc_versions")
    credential_name: Annotated[str | None, CREDENTIAL_NAME] = None


class ModelStatus(View, frozen=True, kw_only=True):
    """What jobs reported about the model."""

    update_time: Annotated[datetime | None, doc("When the model last changed.")] = None
    metrics: Annotated[tuple[Metric, ...] | None, doc("The model's newest metrics.")] = None
    conditions: Annotated[
        tuple[StatusCondition, ...] | None, doc("What people should know about the object.")
    ] = None


class Model(View, frozen=True, kw_only=True):
    """A model that jobs read, train or serve."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ModelSpec, doc("Where the model lies.", required=True)] = ModelSpec()
    status: Annotated[ModelStatus, doc("What jobs reported about the model.")] = ModelStatus()
