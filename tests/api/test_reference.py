"""The examples in docs/api.md are objects that work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gm.api import sedna
from gm.api.crd import crds
from gm.api.validation import validate
from tests.api import samples
from tests.api.test_crd import mistakes

PAGE = (Path(__file__).parent.parent.parent / "docs" / "api.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
]


def test_there_is_an_example_of_each_kind_that_people_write() -> None:
    """In the order of the table."""
    assert [example["kind"] for example in EXAMPLES] == [
        "Dataset",
        "Model",
        "FederatedLearningJob",
        "JointInferenceService",
        "IncrementalLearningJob",
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["kind"]))
def test_each_example_can_be_applied_and_acted_on(example: dict[str, Any]) -> None:
    """Neither the CRD nor validation finds anything."""
    assert mistakes(example) == []
    assert validate(samples.read(example, getattr(sedna, example["kind"]))) == []


def test_the_table_has_the_names_and_columns_of_the_crds() -> None:
    """Generated text would be dull, a stale table worse."""
    rows = [
        tuple(cell.strip().strip("`") for cell in line.split("|")[1:4])
        for line in PAGE.splitlines()
        if line.startswith("| `") and "AGE" in line
    ]
    assert rows == [
        (
            crd["spec"]["names"]["kind"],
            crd["spec"]["names"]["shortNames"][0],
            " ".join(
                column["name"].upper()
                for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]
            ),
        )
        for crd in crds()
    ]
