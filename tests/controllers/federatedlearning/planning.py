"""What the tests of a job's plan share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gm.controllers.conditions import timestamp
from gm.controllers.federatedlearning.plan import Plan
from gm.controllers.federatedlearning.world import World
from tests.controllers.support import NOW, later, settle

CRASHED: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "worker",
            "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        }
    ],
}


def names(decided: Plan) -> list[str]:
    """Names of what is to be created."""
    return sorted(child.key.name for child in decided.create)


def failed_status(seconds_ago: float = 0, **more: Any) -> dict[str, Any]:
    """Status of a pod whose container has failed."""
    ended = {"exitCode": 1, "finishedAt": timestamp(NOW - timedelta(seconds=seconds_ago))}
    statuses = [{"name": "worker", "restartCount": 0, "state": {"terminated": ended}}]
    return {"phase": "Failed", "containerStatuses": statuses, **more}


def step(seen: World, seconds: float = 0) -> tuple[World, Plan]:
    """Some time later, everything settled again."""
    return settle(later(seen, seconds))
