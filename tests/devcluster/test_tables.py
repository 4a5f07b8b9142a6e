"""Tables: head, rows, what rows carry."""

from __future__ import annotations

from gm.api.meta import Json
from gm.devcluster import tables
from gm.devcluster.registry import Registry

NOW = 1_704_067_260.0
META: Json = {"name": "e", "namespace": "n", "creationTimestamp": "2024-01-01T00:00:00Z"}
CONFIG: Json = {"metadata": {**META, "resourceVersion": "7"}, "data": {"a": "b"}}


def render(plural: str, *objects: Json, group: str = "", **options: object) -> Json:
    """A table of a built-in kind."""
    info = Registry().lookup(group, "v1", plural)
    assert info is not None
    return tables.render(info, [*objects], now=NOW, **options)  # type: ignore[arg-type]


def test_a_table_has_columns_rows_and_the_version_of_its_object() -> None:
    """As a GET of one object answers."""
    table = render("configmaps", CONFIG)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "7"}
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["columnDefinitions"][0]["description"].startswith("Name must be unique")
    assert table["rows"] == [
        {
            "cells": ["e", 1, "60s"],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": CONFIG["metadata"],
            },
        }
    ]


def test_rows_carry_what_is_asked_for() -> None:
    """Metadata, the whole object, or nothing."""
    assert render("configmaps", CONFIG, include_object="Object")["rows"][0]["object"] is CONFIG
    assert render("configmaps", CONFIG, include_object="None")["rows"][0]["object"] is None


def test_later_events_of_a_watch_have_no_head() -> None:
    """Columns are sent once."""
    assert render("configmaps", CONFIG, headers=False)["columnDefinitions"] is None


def test_a_list_has_metadata_of_its_own() -> None:
    """Also an empty one."""
    metadata = {"resourceVersion": "9", "continue": "x"}
    assert render("configmaps", metadata=metadata)["metadata"] == metadata
    assert render("configmaps")["metadata"] == {"resourceVersion": ""}


def test_cells_come_from_the_version_that_is_stored() -> None:
    """Events of both groups have the same cells."""
    event: Json = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": META,
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
    }
    table = render("events", event, group="events.k8s.io", include_object="Object")
    row = table["rows"][0]
    assert (row["cells"][3], row["cells"][6]) == ("pod/p", "hello")
    assert row["object"] is event
