"""Label and field selectors: parsed once, then asked of every object."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from gm.devcluster.metadata import label_value, qualified_name, quoted
from gm.devcluster.status import bad_request

__all__ = [
    "EVERYTHING",
    "Selector",
    "field_value",
    "match_labels",
    "parse_fields",
    "parse_labels",
    "selects",
]

# What Go's lexer takes for spaces: nothing of Unicode, but a zero byte.
_TOKEN = re.compile(r"[ \t\r\n\0]*(==|!=|[(),!=<>]|[^ \t\r\n\0(),!=<>]+)")
_INTEGER = re.compile("[-+]?[0-9]{1,19}")
_OPERATORS = ("=", "==", "!=", "in", "notin", "<", ">")
_SIGNS = ("(", ")", ",", "=", "==", "!=", "<", ">")  # "in" and "notin" can be names, too
_EXPECTED_OPERATOR = "in, notin, =, ==, !=, gt, lt"
_BOOLEAN_FIELDS = frozenset({"spec.hostNetwork", "spec.unschedulable"})


@dataclass(frozen=True)
class _Requirement:
    key: str
    operator: str  # "in", "notin", "exists", "absent", "<", ">"
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case _:
                return value is not None and self._compare(value)

    def _compare(self, value: str) -> bool:
        try:
            left, right = int(value), int(next(iter(self.values)))
        except ValueError:
            return False
        return left > right if self.operator == ">" else left < right


class _LabelParser:
    """Recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in _TOKEN.finditer(text)]
        self._position = 0

    @property
    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek
        self._position += 1
        return token

    def parse(self) -> list[_Requirement]:
        requirements: list[_Requirement] = []
        if self._peek in _SIGNS:
            raise bad_request(f"found '{self._peek}', expected: !, identifier, or 'end of string'")
        while self._peek:
            requirements.append(self._requirement())
            separator = self._next()
            if separator == "":
                break
            if separator != ",":
                raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
            if self._peek in ("", ","):
                raise bad_request(f"found '{self._peek}', expected: identifier after ','")
        return requirements

    def _requirement(self) -> _Requirement:
        absent = self._peek == "!"
        if absent:
            self._next()
        key = self._identifier()
        if absent or self._peek in ("", ","):
            return _Requirement(key, "absent" if absent else "exists")
        operator = self._next()
        if operator not in _OPERATORS:
            raise _unparsable(f"found '{operator}', expected: {_EXPECTED_OPERATOR}")
        if operator in ("in", "notin"):
            return _Requirement(key, operator, self._value_set(key))
        value = "" if self._peek in ("", ",") else self._value()
        if operator in ("<", ">"):
            if not _INTEGER.fullmatch(value) or abs(int(value)) >= 1 << 63:
                raise _unparsable(
                    f'values[0]: Invalid value: "{value}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
            _check_value(key, value, 0)
            return _Requirement(key, operator, frozenset({value}))
        _check_value(key, value, 0)
        return _Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))

    def _identifier(self) -> str:
        token = self._next()
        if token in ("", "!") or token in _SIGNS:
            raise _unparsable(f"found '{token}', expected: identifier")
        _check_key(token)
        return token

    def _value(self) -> str:
        token = self._next()
        if token in ("(", ")", "!") or token in ("=", "==", "!=", "<", ">"):
            raise _unparsable(f"found '{token}', expected: identifier")
        return token

    def _value_set(self, key: str) -> frozenset[str]:
        if (token := self._next()) != "(":
            raise _unparsable(f"found '{token}' expected: '('")
        values: list[str] = []
        if not self._peek:
            raise _unparsable("found '', expected: ',', ')' or identifier")
        while True:
            values.append("" if self._peek in (",", ")") else self._value())
            _check_value(key, values[-1], len(values) - 1)
            separator = self._next()
            if separator == ")":
                return frozenset(values)
            if separator != ",":
                raise _unparsable(f"found '{separator}', expected: ',' or ')'")


def _unparsable(why: str) -> Exception:
    return bad_request(f"unable to parse requirement: {why}")


def _check_key(key: str) -> None:
    if problem := qualified_name(key):
        raise _unparsable(f"<nil>: Invalid value: {quoted(key)}: {problem}")


def _check_value(key: str, value: str, index: int) -> None:
    if problem := label_value(value):
        raise _unparsable(f"values[{index}][{key}]: Invalid value: {quoted(value)}: {problem}")


def _parse(text: str) -> list[_Requirement]:
    return _LabelParser(text).parse()


def parse_labels(text: str) -> Callable[[Mapping[str, str]], bool]:
    """A predicate over labels. Raises: StatusError (400) if ``text`` is no selector."""
    requirements = _parse(text)
    return lambda labels: all(requirement.holds(labels) for requirement in requirements)


def match_labels(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether ``labels`` hold every pair of ``selector``, as Services select pods."""
    return all(labels.get(key) == value for key, value in selector.items())


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a ``LabelSelector`` object (matchLabels, matchExpressions) holds for ``labels``."""
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    return match_labels(selector.get("matchLabels") or {}, labels) and all(
        _Requirement(
            expression["key"],
            operators.get(expression["operator"], ""),
            frozenset(expression.get("values") or ()),
        ).holds(labels)
        for expression in selector.get("matchExpressions") or ()
    )


def field_value(obj: Mapping[str, Any], path: str) -> str:
    """What a field selector compares: the field as text, empty if it is absent."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or (value is None and path in _BOOLEAN_FIELDS):
        return "true" if value else "false"
    if path == "source" and isinstance(value, Mapping):
        value = value.get("component")  # an event's source is selected by its component
    return "" if value is None else str(value)


def _split_terms(text: str) -> list[str]:
    return [term for term in re.split(r"(?<!\\),", text) if term]


def _unescape(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)


def _parse_term(term: str) -> tuple[str, bool, str]:
    match = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
    if match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    path, operator, value = match.groups()
    rest = re.sub(r"\\[\\,=]", "", value)  # what is left must need no escaping
    if "\\" in rest:
        broken = re.search(r"\\.?", rest, re.DOTALL)
        raise bad_request(
            f"invalid field selector: invalid escape sequence: {broken[0] if broken else rest}"
        )
    if "=" in rest:
        raise bad_request("invalid field selector: unescaped character in value: 61")
    return path, operator != "!=", _unescape(value)


def _unknown_field(path: str, *, is_plain: bool) -> str:
    if is_plain:
        known = 'only "metadata.name", "metadata.namespace"'
        return f'"{path}" is not a known field selector: {known}'
    return f"field label not supported: {path}"


def parse_fields(
    text: str, selectable: Collection[str] = (), *, is_plain: bool = False
) -> Callable[[Mapping[str, Any]], bool]:
    """A predicate over objects.

    ``selectable`` names the fields beyond metadata.name and metadata.namespace; ``is_plain`` is
    for built-in kinds that have no such fields.
    Raises: StatusError (400) for what is no selector, and for other fields.
    """
    found = [_parse_term(term) for term in _split_terms(text)]
    terms = [(path, equal, value) for path, equal, value in found if path or value]
    allowed = {"metadata.name", "metadata.namespace", *selectable}
    for path, _, _ in terms:
        if path not in allowed:
            raise bad_request(_unknown_field(path, is_plain=is_plain))
    return lambda obj: all(
        (field_value(obj, path) == value) is equal for path, equal, value in terms
    )


@dataclass(frozen=True)
class Selector:
    """Label and field selector of one request."""

    labels: Callable[[Mapping[str, str]], bool] | None = None
    fields: Callable[[Mapping[str, Any]], bool] | None = None

    @classmethod
    def parse(
        cls,
        labels: str,
        fields: str,
        selectable: Collection[str] = (),
        *,
        is_plain: bool = False,
    ) -> Selector:
        """The selector of a request. Raises: StatusError (400)."""
        if not labels and not fields:
            return EVERYTHING
        return cls(
            parse_labels(labels) if labels else None,
            parse_fields(fields, selectable, is_plain=is_plain) if fields else None,
        )

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        return self.labels is None and self.fields is None

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether ``obj`` is selected."""
        if self.labels is not None and not self.labels(obj["metadata"].get("labels") or {}):
            return False
        return self.fields is None or self.fields(obj)


EVERYTHING = Selector()
"""The selector of a request without selectors."""
