"""Dataset: data that lies on a node or in a store."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from gm.api.common import CREDENTIAL_NAME, PLACES, StatusCondition
from gm.api.meta import ObjectMeta
from gm.api.schema import View, doc

__all__ = [
    "Dataset",
    "DatasetSpec",
    "DatasetStatus",
]


class DatasetSpec(View, frozen=True, kw_only=True):
    """Where the data lies."""

    url: Annotated[
        str,
        doc(
            f"Where the data lies: {PLACES}.",
            required=True,
        ),
    ] = ""
    format: Annotated[
        str, doc("Format of the data, such as txt, csv, json or npz.", required=True)
    ] = ""
    node_name: Annotated[
        str, doc("Node whose Local Controller watches over the data.", required=True)
    ] = ""
    credential_name: Annotated[str | None, CREDENTIAL_NAME] = None


class DatasetStatus(View, frozen=True, kw_only=True):
    """What the node reported about the data."""

    update_time: Annotated[datetime | None, doc("When the data was last counted.")] = None
    number_of_samples: Annotated[int | None, doc("How many samples the data holds.")] = None
    conditions: Annotated[
        tuple[StatusCondition, ...] | None, doc("What people should know about the object.")
    ] = None


class Dataset(View, frozen=True, kw_only=True):
    """Data that lies on a node or in a store, for jobs to name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[DatasetSpec, doc("Where the data lies.", required=True)] = DatasetSpec()
    status: Annotated[DatasetStatus, doc("What the node reported about the data.")] = (
        DatasetStatus()
    )
