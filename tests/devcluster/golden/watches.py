"""Watches and what happens while they last."""

from __future__ import annotations

from tests.devcluster.golden.steps import TABLE, WIDGETS, A, Step, delete, get, patch, watch

__all__ = ["STEPS"]

STEPS: tuple[Step, ...] = (
    patch("change while watched", A, {"spec": {"size": 11}}),
    delete("delete while watched", f"{WIDGETS}/warn"),
    patch("begin to match", A, {"metadata": {"labels": {"sel": "y"}}}),
    patch("go on matching", A, {"spec": {"size": 13}}),
    patch("cease to match", A, {"metadata": {"labels": {"sel": "n"}}}),
    watch("watch from a version", WIDGETS, resourceVersion="$rv"),
    watch("watch from now", WIDGETS),
    watch("watch from zero", WIDGETS, resourceVersion="0"),
    watch("watch one object", WIDGETS, resourceVersion="$rv", fieldSelector="metadata.name=warn"),
    watch("watch from a version that is too old", WIDGETS, resourceVersion="1"),
    watch("watch from a future version", WIDGETS, resourceVersion="$future"),
    watch("watch from a bad version", WIDGETS, resourceVersion="abc"),
    watch("watch with bookmarks", WIDGETS, resourceVersion="$rv", allowWatchBookmarks="true"),
    watch(
        "watch-list",
        WIDGETS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        resourceVersion="",
    ),
    watch("watch-list without a match", WIDGETS, sendInitialEvents="true"),
    watch("watch with a match", WIDGETS, resourceVersion="1", resourceVersionMatch="Exact"),
    watch("watch with a bad selector", WIDGETS, labelSelector="a===b"),
    watch("watch tables", WIDGETS, TABLE, resourceVersion="$rv"),
    watch(
        "watch what begins and ceases to match",
        WIDGETS,
        resourceVersion="$rv",
        labelSelector="sel=y",
    ),
    get(
        "watch spelled True",
        WIDGETS,
        query={"watch": "True", "timeoutSeconds": "1", "resourceVersion": "0"},
    ),
)
