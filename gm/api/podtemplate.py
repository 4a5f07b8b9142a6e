"""Pod templates as the CRDs describe them."""

from __future__ import annotations

from gm.api.schema import View

__all__ = ["PodTemplateSpec"]


class PodTemplateSpec(View, frozen=True, kw_only=True):
    """The pod to make."""
