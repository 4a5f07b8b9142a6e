"""FederatedLearningJob: a pure plan, and the reconciler that carries it out."""

from __future__ import annotations

from gm.controllers.federatedlearning.plan import Plan, plan
from gm.controllers.federatedlearning.reconciler import Caches, JobReconciler
from gm.controllers.federatedlearning.world import JobSettings, World

__all__ = ["Caches", "JobReconciler", "JobSettings", "Plan", "World", "plan"]
