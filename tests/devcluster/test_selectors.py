"""Label and field selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gm.devcluster import selectors
from gm.devcluster.selectors import EVERYTHING, Selector
from gm.devcluster.status import StatusError

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("gone!=x", True),
        ("app", True),
        ("gone", False),
        ("!gone", True),
        ("!app", False),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app in ()", False),
        ("empty in (,x)", True),
        ("empty=", True),
        ("gone=", False),
        ("app notin (db)", True),
        ("app notin (web, db)", False),
        ("gone notin (x)", True),
        ("n>4", True),
        ("n>5", False),
        ("n<6,app=web", True),
        ("n<5", False),
        ("app>1", False),
        ("app=web,tier in (front),!gone,n!=6", True),
        ("app=web,tier=back", False),
        ("example.com/x!=y", True),
    ],
)
def test_label_selectors(text: str, expected: bool) -> None:
    """Equality, sets, existence and numbers, as kubectl writes them."""
    assert selectors.parse_labels(text)(LABELS) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a,", "found '', expected: identifier after ','"),
        ("a=b,,c", "found ',', expected: identifier after ','"),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (!)", "unable to parse requirement: found '!', expected: identifier"),
        ("a in (b)c", "found 'c', expected: ',' or 'end of string'"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' "
            "operators, the value must be an integer",
        ),
        ("/x=y", 'unable to parse requirement: <nil>: Invalid value: "/x": prefix part must be'),
        ("a=-b", 'unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label'),
    ],
)
def test_what_is_no_label_selector(text: str, message: str) -> None:
    """400, with the words of a real API server."""
    with pytest.raises(StatusError) as caught:
        selectors.parse_labels(text)
    assert caught.value.code == 400
    assert caught.value.message.startswith(message)


@given(st.text(alphabet="ab=!,()<> in-", max_size=12))
def test_any_text_is_a_selector_or_400(text: str) -> None:
    """Nothing else can come of it."""
    code = 400
    try:
        selectors.parse_labels(text)({"a": "b"})
    except StatusError as error:
        code = error.code
    assert code == 400


POD = {
    "metadata": {"name": "p", "namespace": "ns"},
    "spec": {"nodeName": "edge1", "hostNetwork": True},
    "status": {"phase": "Running"},
}
FIELDS = ("spec.nodeName", "status.phase", "spec.hostNetwork", "spec.unschedulable", "source")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata.name=p", True),
        ("metadata.name!=p", False),
        ("metadata.name==p,metadata.namespace=ns", True),
        ("spec.nodeName=edge1,status.phase!=Succeeded,status.phase!=Failed", True),
        ("spec.nodeName=", False),
        ("spec.hostNetwork=true", True),
        ("spec.unschedulable=false", True),
        (",metadata.name=p,", True),
    ],
)
def test_field_selectors(text: str, expected: bool) -> None:
    """Absent fields are empty text, absent booleans are false."""
    assert selectors.parse_fields(text, FIELDS)(POD) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.size=1", "field label not supported: spec.size"),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_what_is_no_field_selector(text: str, message: str) -> None:
    """400, with the words of a real API server."""
    with pytest.raises(StatusError) as caught:
        selectors.parse_fields(text, FIELDS)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_values_may_hold_escaped_separators() -> None:
    """As kubectl escapes them."""
    holds = selectors.parse_fields("metadata.name=a\\,b\\=c\\\\")
    assert holds({"metadata": {"name": "a,b=c\\"}})


def test_an_events_source_is_its_component() -> None:
    """``source`` is an object, and selected by one field."""
    assert selectors.field_value({"source": {"component": "gm"}}, "source") == "gm"
    assert selectors.field_value({"count": 3}, "count") == "3"


def test_selector_of_a_request() -> None:
    """Labels and fields both have to match."""
    assert Selector.parse("", "") is EVERYTHING
    assert EVERYTHING.is_empty
    assert EVERYTHING.matches(POD)
    both = Selector.parse("!x", "metadata.name=p")
    assert both.matches(POD)
    assert not both.is_empty
    assert not Selector.parse("x", "").matches(POD)
    assert Selector.parse("!x", "").matches({"metadata": {"labels": None}})


def test_label_selector_objects() -> None:
    """matchLabels and matchExpressions, as in Deployments."""
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front"]},
            {"key": "gone", "operator": "DoesNotExist"},
        ],
    }
    assert selectors.selects(selector, LABELS)
    assert not selectors.selects(selector, {"app": "web"})
    assert selectors.match_labels({}, LABELS)
