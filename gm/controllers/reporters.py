"""Whose reports on a federated job count: its own workers', until shortly after its end."""

from __future__ import annotations

from datetime import datetime, timedelta

from gm.api.core import Pod
from gm.api.sedna import FederatedLearningJob
from gm.controllers.conditions import status_of
from gm.controllers.federatedlearning.verdict import finished_at, is_finished
from gm.kube.informer import Informer
from gm.kube.lister import Stored
from gm.messagelayer import Report

__all__ = ["why_refused"]

_ROUNDED_AWAY = timedelta(seconds=1)  # times in a status are whole seconds


def why_refused(
    report: Report,
    job: Stored[FederatedLearningJob] | None,
    pods: Informer[Pod] | None,
    *,
    now: datetime,
    grace: timedelta,
) -> str | None:
    """Why ``report`` says nothing about ``job``, the one of that name; None if it does.

    The last reports of trainers come when the job has just finished: they count for ``grace``.
    """
    if job is None:
        return "the job is gone"
    if report.uid not in ("", job.uid):
        return "it is about an earlier job of that name"
    # the typed view first: decoding the status of each report's job would cost a lot
    if job.view.status.phase in ("Succeeded", "Failed"):
        status = status_of(job.raw)
        end = finished_at(status)
        if is_finished(status) and (end is None or now > end + grace + _ROUNDED_AWAY):
            return "the job has finished"
    if not _has_had_pod(job, report.node, pods):
        return "this job has no worker on the node yet"
    return None


def _has_had_pod(job: Stored[FederatedLearningJob], node: str, pods: Informer[Pod] | None) -> bool:
    """Whether a pod of this very job is or was on ``node``.

    A worker of a predecessor may still run there while the job waits to make its own.
    """
    if any(w.node == node and w.pod_name for w in job.view.status.workers or ()):
        return True
    if pods is None or not pods.is_synced:
        return True  # nobody can tell
    own: list[Stored[Pod]] = pods.lister.owned_by(job.uid)
    return any(pod.view.spec.node_name == node for pod in own)
