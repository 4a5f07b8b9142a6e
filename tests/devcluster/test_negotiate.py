"""Accept headers."""

from __future__ import annotations

import pytest

from gm.devcluster.negotiate import Form, media_type, negotiate
from gm.devcluster.status import StatusError

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io"
    ",application/json"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/json", Form()),
        ("application/json, */*", Form()),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
        ("text/html,application/*", Form()),
        ("application/yaml", Form("application/yaml")),
        (TABLE, Form(shown_as="Table")),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io,application/yaml", Form("application/yaml")),
        (
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Form(shown_as="PartialObjectMetadataList"),
        ),
    ],
)
def test_the_first_form_that_is_served_wins(accept: str, form: Form) -> None:
    """What kubectl and client libraries send."""
    assert negotiate(accept) == form


def test_forms_say_what_they_are() -> None:
    """The three questions that handlers ask."""
    assert negotiate(TABLE).is_table
    assert Form(shown_as="PartialObjectMetadata").is_partial
    assert Form("application/yaml").is_yaml


def test_nothing_that_is_served() -> None:
    """406 names what is."""
    with pytest.raises(StatusError, match="application/json, application/yaml") as caught:
        negotiate("application/vnd.kubernetes.protobuf")
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")


def test_content_types_lose_their_parameters() -> None:
    """And their case."""
    assert media_type("Application/JSON; charset=utf-8") == "application/json"
