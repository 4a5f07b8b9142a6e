"""YAML bodies: YAML 1.1 as Kubernetes reads it, and nothing that JSON could not say."""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any

import yaml

from gm.devcluster.gojson import MAX_DEPTH, is_halved

__all__ = ["YamlProblem", "decode"]

# The one in C is sixteen times as fast, and nothing else is answered meanwhile.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LEAST_NODES = 100_000
_TAG = "tag:yaml.org,2002:"


class YamlProblem(Exception):
    """What is wrong with a body."""


class _Loader(_Base):  # type: ignore[misc]
    """Timestamps stay text, unknown tags are ignored, and repeated keys are noted."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(stream)
        self.duplicates: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping; its keys are seen here before the last of equal ones wins."""
        seen: set[str] = set()
        for key, _ in node.value:
            if (text := str(key.value)) in seen:
                line = key.start_mark.line + 1
                self.duplicates.append(f'line {line}: key "{text}" already set in map')
            seen.add(text)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """A scalar; here, because PyYAML takes escapes of surrogates, which nobody can encode."""
        value = super().construct_scalar(node)
        if is_halved(str(value)):
            line = node.start_mark.line + 1
            raise YamlProblem(f"yaml: line {line}: found invalid Unicode character escape code")
        return value

    def construct_binary(self, node: yaml.ScalarNode) -> str:
        """What is in it, as text."""
        try:
            return base64.b64decode(str(self.construct_scalar(node))).decode(errors="replace")
        except binascii.Error:
            raise YamlProblem("yaml: !!binary value contains invalid base64 data") from None

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A number, but none of base 60."""
        if ":" in (text := str(self.construct_scalar(node))):
            return text
        is_integer = node.tag == f"{_TAG}int"
        return self.construct_yaml_int(node) if is_integer else self.construct_yaml_float(node)

    def construct_whatever(
        self, _suffix: str, node: yaml.MappingNode | yaml.SequenceNode | yaml.ScalarNode
    ) -> Any:
        """What an unknown tag stands before."""
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# YAML 1.1 has them, PyYAML has not
_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile("[yYnN]$"), [*"yYnN"])
_Loader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}
_Loader.add_constructor(f"{_TAG}binary", _Loader.construct_binary)
for _name in ("int", "float"):
    _Loader.add_constructor(f"{_TAG}{_name}", _Loader.construct_number)
for _name in ("set", "omap", "pairs", "timestamp"):
    _Loader.yaml_constructors.pop(f"{_TAG}{_name}")
_Loader.add_multi_constructor("", _Loader.construct_whatever)


def decode(body: bytes) -> tuple[Any, list[str]]:
    """The first document in ``body``, and one message for each repeated key.

    Raises: YamlProblem.
    """
    try:
        loader = _Loader(body)
        value = loader.get_data()
    except yaml.MarkedYAMLError as exc:
        raise YamlProblem(f"yaml: {_where(exc)}{exc.problem}") from exc
    except yaml.YAMLError as exc:
        raise YamlProblem(f"yaml: {' '.join(str(exc).split())}") from exc
    except (ValueError, TypeError, RecursionError) as exc:  # numbers and keys of absurd size
        raise YamlProblem(f"yaml: {exc}") from exc
    plain = _Expansion(max(_LEAST_NODES, len(body))).of(value)
    loader.dispose()
    return plain, loader.duplicates


def _where(exc: yaml.MarkedYAMLError) -> str:
    """The line, as Go's parser counts: from one for what it scans, from nought for the rest."""
    is_scanning = isinstance(exc, yaml.scanner.ScannerError)
    marks = (exc.problem_mark,) if is_scanning else (exc.context_mark, exc.problem_mark)
    line = next(filter(None, (mark.line for mark in marks if mark is not None)), 0)
    if line and is_scanning:
        line += 1
    return f"line {line}: " if line else ""


class _Expansion:
    """Makes JSON of YAML, with a copy for each alias; few bytes must not become many objects."""

    def __init__(self, most_nodes: int) -> None:
        self._left = most_nodes
        self._around: set[int] = set()

    def of(self, value: Any) -> Any:
        """``value`` with texts for keys. Raises: YamlProblem."""
        self._left -= 1
        if self._left < 0:
            raise YamlProblem("yaml: document contains excessive aliasing")
        if isinstance(value, float) and not math.isfinite(value):
            name = "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
            raise YamlProblem(f"json: unsupported value: {name}")
        if not isinstance(value, dict | list):
            return value
        if id(value) in self._around:
            raise YamlProblem("yaml: the value of an anchor contains itself")
        if len(self._around) >= MAX_DEPTH:
            raise YamlProblem("yaml: exceeded max depth")
        self._around.add(id(value))
        plain: Any
        if isinstance(value, dict):
            plain = {_key(key): self.of(item) for key, item in value.items()}
        else:
            plain = [self.of(item) for item in value]
        self._around.discard(id(value))
        return plain


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise YamlProblem("unsupported map key: only text, numbers and booleans can be keys")
