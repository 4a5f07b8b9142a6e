"""What the package re-exports."""

from __future__ import annotations

import importlib

import pytest

import gm.api

MODULES = ("core", "meta", "resources", "sedna", "urls", "validation")
KINDS = (
    "common",
    "dataset",
    "edgenode",
    "federatedlearning",
    "incrementallearning",
    "jointinference",
    "model",
)


def test_the_package_exports_what_its_modules_export() -> None:
    """No name is forgotten, none is left over."""
    names = {n for m in MODULES for n in importlib.import_module(f"gm.api.{m}").__all__}
    assert set(gm.api.__all__) == names
    assert all(hasattr(gm.api, name) for name in names)


@pytest.mark.parametrize("module", KINDS)
def test_the_kinds_are_gathered_in_one_module(module: str) -> None:
    """Constants for annotations stay where they are."""
    sedna = importlib.import_module("gm.api.sedna")
    names = {n for n in importlib.import_module(f"gm.api.{module}").__all__ if not n.isupper()}
    assert names <= set(sedna.__all__)
