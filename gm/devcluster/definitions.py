"""Kubernetes' own schemas of the built-in kinds, as shipped under ``data/``."""

from __future__ import annotations

import functools
import gzip
import importlib.resources

import msgspec

from gm.api.meta import Json

__all__ = ["definitions", "git_version"]


@functools.cache
def _data() -> Json:
    packed = importlib.resources.files("gm.devcluster").joinpath("data/openapi.json.gz")
    data: Json = msgspec.json.decode(gzip.decompress(packed.read_bytes()))
    return data


def definitions() -> Json:
    """Kubernetes' own OpenAPI schemas of the built-in kinds, by name."""
    schemas: Json = _data()["schemas"]
    return schemas


def git_version() -> str:
    """The Kubernetes version that the built-in kinds follow."""
    return str(_data()["gitVersion"])
