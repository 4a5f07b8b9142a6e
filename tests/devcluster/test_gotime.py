"""Times as Go reads and writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gm.devcluster.gotime import (
    MICRO,
    WHOLE,
    duration_problem,
    in_utc,
    time_problem,
    timestamp,
)

AS_WHOLE = f'as "{WHOLE}": cannot parse'
PROBLEMS = {
    "yesterday": f'parsing time "yesterday" {AS_WHOLE} "yesterday" as "2006"',
    "2020-13-01T00:00:00Z": 'parsing time "2020-13-01T00:00:00Z": month out of range',
    "2020-02-30T00:00:00Z": 'parsing time "2020-02-30T00:00:00Z": day out of range',
    "2020-01-01T24:00:00Z": 'parsing time "2020-01-01T24:00:00Z": hour out of range',
    "2020-01-01T00:60:00Z": 'parsing time "2020-01-01T00:60:00Z": minute out of range',
    "2020-01-01T00:00:60Z": 'parsing time "2020-01-01T00:00:60Z": second out of range',
    "2020-01-01T00:00:00": f'parsing time "2020-01-01T00:00:00" {AS_WHOLE} "" as "Z07:00"',
    "2020-01-01T00:00:00Zz": 'parsing time "2020-01-01T00:00:00Zz": extra text: "z"',
    "2020-01-01 00:00:00Z": f'parsing time "2020-01-01 00:00:00Z" {AS_WHOLE} " 00:00:00Z" as "T"',
    "": f'parsing time "" {AS_WHOLE} "" as "2006"',
}


@pytest.mark.parametrize("text", PROBLEMS)
def test_a_text_that_is_no_time_is_refused_in_go_s_words(text: str) -> None:
    """The words are those of Go's ``time.Parse``."""
    assert time_problem(text, WHOLE) == PROBLEMS[text]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T01:00:00+01:00", "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00.999Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T0:00:00Z", "2020-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc_and_whole_seconds(text: str, written: str) -> None:
    """Whatever its zone and fraction were."""
    assert time_problem(text, WHOLE) == ""
    assert in_utc(text, WHOLE) == written


def test_a_time_in_microseconds_has_six_digits_neither_more_nor_less() -> None:
    """The layout of ``metav1.MicroTime``."""
    assert time_problem("2026-01-01T00:00:00.123456Z", MICRO) == ""
    assert in_utc("2026-01-01T02:00:00.123456+02:00", MICRO) == "2026-01-01T00:00:00.123456Z"
    for text in ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1234567Z"):
        assert time_problem(text, MICRO)


@pytest.mark.parametrize("text", ["0", "-0", "32s", "1m30s", "1.5h", "1.s", ".5s", "+5s", "-1µs"])
def test_durations_are_read(text: str) -> None:
    """As Go's ``time.ParseDuration`` does."""
    assert duration_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "invalid duration") for text in ("", "-", "abc", ".s", "+-5s", "99999999999h")),
        *((text, "missing unit in duration") for text in ("1", "1s1", "1s0")),
        ("1d", 'unknown unit "d" in duration'),
    ],
)
def test_what_is_no_duration_is_refused_in_go_s_words(text: str, why: str) -> None:
    """The words are those of Go's ``time.ParseDuration``."""
    assert duration_problem(text) == f'time: {why} "{text}"'


def test_a_timestamp_is_in_whole_seconds() -> None:
    """As ``metav1.Time``."""
    assert timestamp(datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)) == "2026-01-02T03:04:05Z"
    assert time_problem(timestamp(), WHOLE) == ""
