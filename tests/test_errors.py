"""Errors, split by what the caller does next."""

from __future__ import annotations

import re

import pytest

from gm import errors
from gm.errors import (
    AlreadyExists,
    ApiError,
    ApiUnreachable,
    BadRequest,
    ConfigError,
    Conflict,
    Forbidden,
    GmError,
    Invalid,
    InvalidSpec,
    NotFound,
    ProtocolViolation,
    ResourceExpired,
    ServiceError,
    TerminalError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    api_error,
)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", ResourceExpired),
        (413, "RequestEntityTooLarge", TooLarge),
        (415, "UnsupportedMediaType", BadRequest),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ApiError),
        (503, "ServiceUnavailable", ApiError),
        (504, "Timeout", ApiError),
    ],
)
def test_a_failure_status_becomes_the_error_that_says_what_to_do(
    code: int, reason: str, kind: type[ApiError]
) -> None:
    """Callers catch classes, they never parse text."""
    error = api_error("create pods a/b", code=code, reason=reason, message="told")
    assert type(error) is kind
    assert (error.request, error.code, error.reason, error.message) == (
        "create pods a/b",
        code,
        reason,
        "told",
    )
    assert str(error) == f"create pods a/b failed: {code} {reason}: told"


def test_an_error_without_message_ends_with_its_reason() -> None:
    """No dangling colon."""
    assert str(api_error("get pods a/b", code=404, reason="NotFound")) == (
        "get pods a/b failed: 404 NotFound"
    )


def test_etcds_refusal_of_a_large_object_is_no_failure_of_the_server() -> None:
    """The API server passes it on as a 500: to send the same again helps nobody."""
    told = "etcdserver: request is too large"
    assert type(api_error("patch x a/b", code=500, reason="", message=told)) is TooLarge


@pytest.mark.parametrize(("given", "wait"), [(None, 1), (7.0, 7.0), (0.0, 1)])
def test_a_server_that_asks_for_patience_says_how_long(given: float | None, wait: float) -> None:
    """Without its wish, a second."""
    error = api_error("list pods", code=429, reason="TooManyRequests", retry_after_seconds=given)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_seconds == wait


def test_an_overloaded_server_that_names_a_time_is_waited_for_too() -> None:
    """503 with Retry-After means the same as 429."""
    error = api_error("list pods", code=503, reason="ServiceUnavailable", retry_after_seconds=3)
    assert isinstance(error, TooManyRequests)
    assert (error.code, error.retry_after_seconds) == (503, 3)


def test_an_invalid_spec_carries_what_a_condition_needs() -> None:
    """A reason for programs and a message for people."""
    error = InvalidSpec("spec.url: is empty")
    assert (error.reason, error.message, str(error)) == (
        "InvalidSpec",
        "spec.url: is empty",
        "spec.url: is empty",
    )
    assert InvalidSpec("x", reason="CredentialInvalid").reason == "CredentialInvalid"


def test_a_protocol_violation_carries_the_close_code() -> None:
    """1002 is RFC 6455's code for it."""
    assert ProtocolViolation("x").close_code == 1002
    assert ProtocolViolation("x", close_code=1009).close_code == 1009


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        (ConfigError, GmError),
        (InvalidSpec, TerminalError),
        (TerminalError, GmError),
        (ApiUnreachable, ServiceError),
        (ApiError, ServiceError),
        (ServiceError, GmError),
        (Invalid, BadRequest),
        (TooLarge, BadRequest),
        (BadRequest, ApiError),
        (ProtocolViolation, GmError),
    ],
)
def test_the_tree_is_as_drawn(kind: type[Exception], parent: type[Exception]) -> None:
    """Catching a parent catches what hangs below it."""
    assert issubclass(kind, parent)


def test_the_drawing_names_every_error() -> None:
    """A new class is drawn, or the reader of the module misses it."""
    drawn = set(re.findall(r"^[ │├└─]*([A-Z]\w+)(?= |$)", errors.__doc__ or "", re.MULTILINE))
    exported = {name for name in errors.__all__ if name[0].isupper()}
    assert exported <= drawn
