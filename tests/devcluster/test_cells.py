"""What cells are made of."""

from __future__ import annotations

import pytest

from gm.devcluster.cells import age, human_duration, labels_text, seconds_of, selector_text

MINUTE, HOUR, DAY = 60, 3600, 86400
DURATIONS = {
    -5: "<invalid>",
    -1: "0s",
    0: "0s",
    119: "119s",
    120: "2m",
    125: "2m5s",
    10 * MINUTE + 5: "10m",
    179 * MINUTE: "179m",
    3 * HOUR: "3h",
    3 * HOUR + 10 * MINUTE: "3h10m",
    8 * HOUR + MINUTE: "8h",
    47 * HOUR: "47h",
    2 * DAY: "2d",
    4 * DAY + 2 * HOUR: "4d2h",
    8 * DAY + 2 * HOUR: "8d",
    729 * DAY: "729d",
    730 * DAY: "2y",
    733 * DAY: "2y3d",
    2920 * DAY: "8y",
}


@pytest.mark.parametrize("seconds", DURATIONS)
def test_durations_have_the_two_units_that_matter(seconds: int) -> None:
    """As the server renders ages."""
    assert human_duration(seconds) == DURATIONS[seconds]


def test_an_age_is_counted_from_a_time() -> None:
    """Without one it is unknown; times may have fractions and lack a zone."""
    now = 1_704_067_260.0
    assert age("2024-01-01T00:00:00Z", now) == "60s"
    assert age(None, now) == age("yesterday", now) == "<unknown>"
    assert seconds_of("2024-01-01T00:00:00") == seconds_of("2024-01-01T01:00:00.000000+01:00")


def test_labels_and_selectors_are_one_line() -> None:
    """Sorted by key, whatever the operator."""
    assert labels_text({"b": "2", "a": "1"}) == "a=1,b=2"
    assert (
        labels_text(None) == selector_text(None) == selector_text({"matchLabels": {}}) == "<none>"
    )
    expressions = [
        {"key": "a", "operator": "In", "values": ["y", "x"]},
        {"key": "b", "operator": "NotIn", "values": ["z"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
        {"key": "e", "operator": "Odd"},
    ]
    selector = {"matchLabels": {"l": "m"}, "matchExpressions": expressions}
    assert selector_text(selector) == "a in (x,y),b notin (z),c,!d,e,l=m"
