"""Bodies of answers."""

from __future__ import annotations

import json

import yaml

from gm.api.resources import PODS
from gm.devcluster.answers import answer, encode_status, raw_answer
from gm.devcluster.negotiate import Form
from gm.devcluster.status import not_found, too_large_version


def _body(response: object) -> bytes:
    body = getattr(response, "body", None)
    assert isinstance(body, bytes)
    return body


def test_json_unless_yaml_is_asked_for() -> None:
    """Caches must keep neither."""
    shared = {"a": 1}
    obj = {"x": shared, "y": shared, "text": "é"}
    plain, wanted = answer(obj), answer(obj, 201, form=Form("application/yaml"))
    assert json.loads(_body(plain)) == obj
    assert plain.headers["Cache-Control"] == "no-cache, private"
    assert (wanted.status, wanted.headers["Content-Type"]) == (201, "application/yaml")
    assert yaml.safe_load(_body(wanted)) == obj
    assert b"&" not in _body(wanted)


def test_failures_are_status_objects() -> None:
    """With advice when to try again, where there is any."""
    missing = encode_status(not_found(PODS, "p"))
    assert (missing.status, json.loads(_body(missing))["reason"]) == (404, "NotFound")
    assert "Retry-After" not in missing.headers
    assert encode_status(too_large_version(2, 1)).headers["Retry-After"] == "1"


def test_what_is_encoded_already_is_sent_as_it_is() -> None:
    """No copy is made of it."""
    body = b'{"a":1}'
    assert _body(raw_answer(body)) is body
