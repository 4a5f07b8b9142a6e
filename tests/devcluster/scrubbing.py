"""Answers without what differs from run to run: times, UIDs, versions, addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gm.api.meta import Json

__all__ = ["Scrubber"]

_TIMES = frozenset({"creationTimestamp", "deletionTimestamp", "lastTransitionTime"})
_OPAQUE = frozenset({"clusterIP", "nodePort", "healthCheckNodePort"})
_UNTRACKED = frozenset({"managedFields"})  # docs/devcluster.md: ownership is not tracked
_AGE = re.compile(r"\d+[smh]")
_NUMBER = re.compile(r"\d{2,}")
# a whole object in a message, with what is not tracked
_QUOTED = re.compile(r'"\{\\".*\}": |(?<=missing in )\'\{".*\}\'')


class Scrubber:
    """Replaces what differs from run to run by what it is.

    ``known`` says by what to replace texts of this run. Versions of an object are numbered, so
    that one that grows differs from one that stays.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = dict(known)
        self._versions: dict[str, list[str]] = {}

    def __call__(self, value: Any) -> Any:
        """``value`` without what is of this run only."""
        if isinstance(value, dict):
            value = (
                {**value, "metadata": self._meta(value["metadata"])}
                if isinstance(value.get("metadata"), dict)
                else value
            )
            return {
                self._text(key): self._field(key, item)
                for key, item in sorted(value.items())
                if key not in _UNTRACKED
            }
        if isinstance(value, list):
            return [self(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _meta(self, meta: Json) -> Json:
        if uid := meta.get("uid"):
            self._known.setdefault(uid, f"UID of {self._text(meta.get('name') or '')}")
        if "resourceVersion" in meta:
            meta = {
                **meta,
                "resourceVersion": self._version(meta.get("uid", ""), meta["resourceVersion"]),
            }
        return meta

    def _version(self, uid: str, version: str) -> str:
        if not uid:
            return "VERSION"
        seen = self._versions.setdefault(uid, [])
        if version not in seen:
            seen.append(version)
        return f"version {seen.index(version) + 1}"

    def _field(self, key: str, value: Any) -> Any:
        if value and key in _TIMES:
            return "TIME"
        if value and key in _OPAQUE and value != "None":
            return key.upper()
        if key == "clusterIPs":
            return ["CLUSTERIP" for _ in value]
        if value and key == "continue":
            return "CONTINUE"
        if key == "cells":
            return [_AGE.sub("AGE", c) if isinstance(c, str) else c for c in map(self, value)]
        if key == "message" and isinstance(value, str):
            return _NUMBER.sub("N", _QUOTED.sub("OBJECT ", self._text(value)))
        return self(value)

    def _text(self, text: str) -> str:
        for known, name in self._known.items():
            text = text.replace(known, name)
        return text
