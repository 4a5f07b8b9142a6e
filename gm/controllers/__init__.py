"""The controllers of GM: what runs between the Kubernetes API and the message layer."""

from __future__ import annotations

from gm.controllers.base import Controller, Reconciler, Result
from gm.controllers.downstream import Downstream, Sources
from gm.controllers.edgenodes import EdgeNodes, EdgeNodeSettings
from gm.controllers.informers import Informers
from gm.controllers.manager import Manager
from gm.controllers.upstream import Upstream

__all__ = [
    "Controller",
    "Downstream",
    "EdgeNodeSettings",
    "EdgeNodes",
    "Informers",
    "Manager",
    "Reconciler",
    "Result",
    "Sources",
    "Upstream",
]
