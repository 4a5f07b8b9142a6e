"""The schemas that are shipped."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterator
from typing import Any

from gm.devcluster.definitions import definitions, git_version


def references(node: Any) -> Iterator[str]:
    """Names that a schema refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix("#/components/schemas/")
            else:
                yield from references(value)
    elif isinstance(node, list):
        for item in node:
            yield from references(item)


def test_every_reference_leads_somewhere() -> None:
    """The selection of schemas is complete."""
    assert set(references(definitions())) <= set(definitions())


def test_the_version_is_one_that_clients_can_read() -> None:
    """kubectl version needs semver."""
    assert re.fullmatch(r"v1\.\d+\.\d+", git_version())


def test_the_data_is_small_and_says_whose_it_is() -> None:
    """A wheel should not grow by it."""
    data = importlib.resources.files("gm.devcluster").joinpath("data")
    assert len(data.joinpath("openapi.json.gz").read_bytes()) < 150_000
    assert "Kubernetes Authors" in data.joinpath("NOTICE").read_text()
