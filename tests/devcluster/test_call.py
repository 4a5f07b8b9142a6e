"""The parameters of a write."""

from __future__ import annotations

import pytest

from gm.devcluster.call import write_options
from gm.devcluster.query import Query, parse_query
from gm.devcluster.status import StatusError
from tests.devcluster.core import lines

VALIDATION = 'supported values: "", "Ignore", "Strict", "Warn"'


@pytest.mark.parametrize(
    ("query", "dry_run", "validation"),
    [
        ({}, False, "Warn"),
        ({"dryRun": "All", "fieldValidation": "Strict"}, True, "Strict"),
        ({"fieldManager": "x" * 128, "fieldValidation": ""}, False, "Warn"),
        ({"fieldManager": "größe"}, False, "Warn"),
    ],
)
def test_a_write_says_how_it_is_meant(
    query: dict[str, str], dry_run: bool, validation: str
) -> None:
    """What is not said is as kube-apiserver takes it."""
    options = write_options(Query(query.items()), "PatchOptions")
    assert (options.dry_run, options.field_validation) == (dry_run, validation)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"dryRun": "true"}, 'dryRun: Unsupported value: ["true"]: supported values: "All"'),
        ({"fieldValidation": "Foo"}, f'fieldValidation: Unsupported value: "Foo": {VALIDATION}'),
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        (
            {"fieldManager": "a\tb"},
            'fieldManager: Invalid value: "a\\tb": invalid character U+0009 (at position 1)',
        ),
        ({"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
def test_odd_parameters_are_refused(query: dict[str, str], told: str) -> None:
    """422 with what is wrong."""
    with pytest.raises(StatusError) as caught:
        write_options(Query(query.items()), "PatchOptions")
    assert caught.value.code == 422
    assert lines(caught.value.causes) == [told]


def test_force_means_nothing_where_nothing_is_patched() -> None:
    """Only patches know it."""
    write_options(Query([("force", "true")]), "UpdateOptions")


def test_a_dry_run_is_said_in_one_way() -> None:
    """Every value counts."""
    assert write_options(parse_query(b"dryRun=All&dryRun=All"), "CreateOptions").dry_run
    for raw, shown in ((b"dryRun=All&dryRun=x", '["All","x"]'), (b"dryRun=", '[""]')):
        with pytest.raises(StatusError) as caught:
            write_options(parse_query(raw), "CreateOptions")
        told = f'dryRun: Unsupported value: {shown}: supported values: "All"'
        assert lines(caught.value.causes) == [told]
