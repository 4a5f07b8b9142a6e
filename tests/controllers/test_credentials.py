"""S3 credentials in pods and on edges."""

from __future__ import annotations

import base64
import json

import pytest

from gm.controllers.credentials import credential_annotation, s3_credentials
from gm.errors import InvalidSpec
from tests.controllers.support import secret

DATA = {
    "ACCESS_KEY_ID": base64.b64encode(b"AKIATEST123").decode(),
    "SECRET_ACCESS_KEY": base64.b64encode(b"hush").decode(),
}


@pytest.mark.parametrize(
    ("annotations", "url"),
    [
        ({"s3-endpoint": "h:9000"}, "https://h:9000"),
        ({"s3-endpoint": "h:9000", "s3-usehttps": "1"}, "https://h:9000"),
        ({"s3-endpoint": "h:9000", "s3-usehttps": "0"}, "http://h:9000"),
        ({"s3-endpoint": "http://h:9000"}, "http://h:9000"),
    ],
)
def test_the_endpoint_comes_from_annotations(annotations: dict[str, str], url: str) -> None:
    """https unless s3-usehttps says 0."""
    assert s3_credentials(secret("s", DATA, **annotations)).endpoint_url == url


def test_keys_are_references_unless_inline() -> None:
    """Clear text only for runtimes that lack secretKeyRef."""
    found = secret("s", DATA, **{"s3-endpoint": "h"})
    by_reference = s3_credentials(found).env()
    assert by_reference[1] == {
        "name": "ACCESS_KEY_ID",
        "valueFrom": {"secretKeyRef": {"name": "s", "key": "ACCESS_KEY_ID"}},
    }
    inline = s3_credentials(found, inline=True)
    assert inline.env()[1:] == [
        {"name": "ACCESS_KEY_ID", "value": "AKIATEST123"},
        {"name": "SECRET_ACCESS_KEY", "value": "hush"},
    ]
    assert "hush" not in repr(inline)
    assert "AKIATEST123" not in str(inline)


@pytest.mark.parametrize(
    ("data", "annotations", "words"),
    [
        (DATA, {}, "s3-endpoint"),
        ({}, {"s3-endpoint": "h"}, "ACCESS_KEY_ID and no SECRET_ACCESS_KEY"),
        ({"ACCESS_KEY_ID": "YQ=="}, {"s3-endpoint": "h"}, "no SECRET_ACCESS_KEY"),
        ({**DATA, "ACCESS_KEY_ID": "/w=="}, {"s3-endpoint": "h"}, "no UTF-8 text"),
        ({**DATA, "ACCESS_KEY_ID": "%%%%"}, {"s3-endpoint": "h"}, "no UTF-8 text"),
    ],
)
def test_what_a_secret_lacks_is_said_without_what_it_holds(
    data: dict[str, str], annotations: dict[str, str], words: str
) -> None:
    """P2-093: malformed secrets are not echoed."""
    with pytest.raises(InvalidSpec) as caught:
        s3_credentials(secret("s", data, **annotations), inline=True)
    assert caught.value.reason == "CredentialInvalid"
    assert words in caught.value.message
    assert "hush" not in caught.value.message


def test_the_edge_gets_annotations_and_data_but_not_what_kubectl_keeps() -> None:
    """last-applied holds the whole Secret once more."""
    annotations = {
        "s3-endpoint": "h",
        "kubectl.kubernetes.io/last-applied-configuration": "{...}",
    }
    found = json.loads(credential_annotation(secret("s", DATA, **annotations)))
    assert found == {
        "s3-endpoint": "h",
        "ACCESS_KEY_ID": "AKIATEST123",
        "SECRET_ACCESS_KEY": "hush",
    }
