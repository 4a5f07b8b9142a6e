"""Deletion of custom resources, and server-side apply, which comes after it."""

from __future__ import annotations

from tests.devcluster.golden.objects import widget
from tests.devcluster.golden.steps import APPLY, WIDGETS, A, Step, delete, get, patch

__all__ = ["STEPS"]

SSA = f"{WIDGETS}/ssa"
STEPS: tuple[Step, ...] = (
    patch("add a finalizer", A, {"metadata": {"finalizers": ["x.io/f"]}}),
    delete("delete what has a finalizer", A),
    delete("delete it again", A),
    patch("add a finalizer amid deletion", A, {"metadata": {"finalizers": ["x.io/f", "y.io/g"]}}),
    patch("remove the finalizer", A, {"metadata": {"finalizers": None}}),
    get("gone", A),
    delete("delete what is gone", A),
    delete("delete another incarnation", f"{WIDGETS}/ign", {"preconditions": {"uid": "zzz"}}),
    delete("delete another version", f"{WIDGETS}/ign", {"preconditions": {"resourceVersion": "1"}}),
    delete("delete with odd options", f"{WIDGETS}/ign", {"propagationPolicy": "Foo"}),
    delete("delete with no JSON", f"{WIDGETS}/ign", b"{bad"),
    delete("delete", f"{WIDGETS}/ign"),
    delete("delete all", WIDGETS),
    patch("apply", SSA, widget("ssa"), APPLY, query={"fieldManager": "m1"}),
    patch("apply that conflicts", SSA, widget("ssa", 2), APPLY, query={"fieldManager": "m2"}),
    patch(
        "apply by force",
        SSA,
        widget("ssa", 2),
        APPLY,
        query={"fieldManager": "m2", "force": "true"},
    ),
    patch("apply without a manager", SSA, widget("ssa"), APPLY),
)
