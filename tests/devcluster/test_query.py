"""Parameters of requests, as Go reads them."""

from __future__ import annotations

import pytest

from gm.devcluster.query import (
    Query,
    check_timeout,
    parse_bool,
    parse_int,
    parse_query,
    parse_version,
    unsigned_problem,
)
from gm.devcluster.status import StatusError

MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", {}),
        (b"a=1&b=2", {"a": "1", "b": "2"}),
        (b"a=1&a=2", {"a": "1"}),
        (b"a&b=&=c", {"a": "", "b": "", "": "c"}),
        (b"a=x+y%2Bz&b%3D=%F0%9F%98%80", {"a": "x y+z", "b=": "\N{GRINNING FACE}"}),
        (b"a=1;b=2&c=3", {"c": "3"}),
        (b"a=%zz&%1=b&c=%&d=4", {"d": "4"}),
        (b"a=%ff&b=\xff", {"a": "\ufffd", "b": "\ufffd"}),
        (b"&&a=1=2&", {"a": "1=2"}),
    ],
)
def test_a_query_is_read_as_go_reads_it(raw: bytes, expected: dict[str, str]) -> None:
    """The first value counts; what is no parameter is left out."""
    assert parse_query(raw) == expected


def test_all_values_of_a_parameter_can_be_had() -> None:
    """In their order."""
    query = parse_query(b"dryRun=All&x=1&dryRun=Foo")
    assert query.every("dryRun") == ["All", "Foo"]
    assert query.every("absent") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("true", True), ("1", True), ("t", True), ("yes", True), ("", True)),
        *(("0", False), ("false", False), ("False", False)),
    ],
)
def test_booleans(text: str, expected: bool) -> None:
    """As upstream reads them: whatever does not say no."""
    assert parse_bool(text) is expected
    assert parse_bool(None) is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("007", 7), ("-5", -5), ("+5", 5), (str(MOST), MOST), (str(-MOST - 1), -MOST - 1)],
)
def test_whole_numbers_have_64_bits(text: str, expected: int) -> None:
    """A sign and zeros may come before them."""
    assert parse_int(Query([("limit", text)]), "limit") == expected
    assert parse_int(Query(), "limit") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "invalid syntax") for text in ("", "x", "1.0", "1_0", "-", "0x1", " 1", "²", "٣")),
        *((text, "value out of range") for text in (str(MOST + 1), str(-MOST - 2), "9" * 5000)),
    ],
)
def test_what_is_no_whole_number_is_400(text: str, why: str) -> None:
    """Whatever its size."""
    with pytest.raises(StatusError) as caught:
        parse_int(Query([("limit", text)]), "limit")
    assert caught.value.code == 400
    assert caught.value.message == f'strconv.ParseInt: parsing "{text}": {why}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "invalid syntax") for text in ("abc", "-1", "+1", "1.5", "²", "٣")),
        *((text, "value out of range") for text in (str(2**64), "9" * 5000)),
    ],
)
def test_versions_are_numbers(text: str, why: str) -> None:
    """500 without a reason where upstream says so."""
    assert (parse_version(""), parse_version("007")) == (0, 7)
    assert unsigned_problem(str(2**64 - 1)) == ""
    with pytest.raises(StatusError) as caught:
        parse_version(text)
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert caught.value.message.endswith(f'strconv.ParseUint: parsing "{text}": {why}')


def test_a_timeout_is_a_duration() -> None:
    """400 if not, though nothing here takes long."""
    for query in (Query(), Query([("timeout", "")]), Query([("timeout", "32s")])):
        check_timeout(query)
    with pytest.raises(StatusError) as caught:
        check_timeout(Query([("timeout", "1d")]))
    assert caught.value.code == 400
    assert caught.value.message == (
        'invalid timeout specified in the request URL - time: unknown unit "d" in duration "1d"'
    )
