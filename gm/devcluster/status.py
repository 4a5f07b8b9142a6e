"""Failures as Kubernetes tells them: the exception, and one maker for each kind of failure.

Texts, reasons and details are those of kube-apiserver, since clients compare them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gm.api.meta import ResourceType

__all__ = [
    "Cause",
    "StatusError",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal",
    "invalid",
    "method_not_allowed",
    "no_such_method",
    "no_such_path",
    "not_found",
    "stale",
    "success",
    "too_large_version",
    "unsupported_media_type",
]


class Cause(msgspec.Struct, frozen=True):
    """One field that is wrong: an entry of ``details.causes``."""

    reason: str  # FieldValueInvalid, FieldValueRequired, FieldValueForbidden, ...
    message: str
    field: str


class StatusError(Exception):
    """A request failed; ``body()`` is the ``Status`` object to answer with.

    ``details`` may hold ``name``, ``group``, ``kind``, ``uid``, ``causes``,
    ``retryAfterSeconds``. An empty ``reason`` is left out of the answer. ``token`` is what a list
    can go on with.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        token: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details
        self.token = token

    @property
    def causes(self) -> list[Cause]:
        """The fields that are wrong, if the failure names any."""
        raw: Iterable[dict[str, str]] = (self.details or {}).get("causes", ())
        return [Cause(c.get("reason", ""), c.get("message", ""), c.get("field", "")) for c in raw]

    def body(self) -> dict[str, Any]:
        """The ``Status`` object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _details(resource: ResourceType, name: str = "", *, kind: str = "") -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = kind or resource.plural
    return details


def success(resource: ResourceType, name: str = "", uid: str = "") -> dict[str, Any]:
    """The ``Status`` that answers a delete which left nothing behind."""
    details = _details(resource, name)
    if uid:
        details["uid"] = uid
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def not_found(resource: ResourceType, name: str) -> StatusError:
    """404: no such object."""
    message = f'{resource.qualified} "{name}" not found'
    return StatusError(404, "NotFound", message, _details(resource, name))


def already_exists(resource: ResourceType, name: str) -> StatusError:
    """409: the name is taken."""
    message = f'{resource.qualified} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: ResourceType, name: str, why: str, *, kind: str = "") -> StatusError:
    """409: a precondition does not hold. ``kind`` replaces the plural in the message."""
    what = f"{kind}.{resource.group}" if kind and resource.group else kind or resource.qualified
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(resource, name, kind=kind))


def stale(resource: ResourceType, name: str) -> StatusError:
    """409: the object has another resourceVersion by now."""
    why = (
        "the object has been modified; please apply your changes to the latest version "
        "and try again"
    )
    return conflict(resource, name, why)


def forbidden(
    resource: ResourceType, name: str, why: str, causes: Sequence[Cause] = ()
) -> StatusError:
    """403: the request is understood and refused."""
    what = f'{resource.qualified} "{name}"' if name else resource.qualified
    details = _details(resource, name)
    if causes:
        details["causes"] = [msgspec.to_builtins(c) for c in causes]
    return StatusError(403, "Forbidden", f"{what} is forbidden: {why}", details)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422: fields of the object are wrong. ``kind`` as objects carry it, or the plural."""
    texts = [f"{c.field}: {c.message}" for c in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(dict.fromkeys(texts))}]"
    if len(dict.fromkeys(texts)) == 1:
        listed = texts[0]
    what = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [msgspec.to_builtins(c) for c in causes]
    return StatusError(422, "Invalid", f'{what} "{name}" is invalid: {listed}', details)


def bad_request(message: str) -> StatusError:
    """400: the request makes no sense."""
    return StatusError(400, "BadRequest", message)


def method_not_allowed(resource: ResourceType, verb: str) -> StatusError:
    """405: the resource is served, but not with this verb."""
    message = f'{verb} is not supported on resources of kind "{resource.qualified}"'
    return StatusError(405, "MethodNotAllowed", message, _details(resource))


def unsupported_media_type(accepted: Sequence[str], hint: str = "") -> StatusError:
    """415: the body's Content-Type can not be read; ``hint`` says what to do instead."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
        + (f" ({hint})" if hint else "")
    )
    return StatusError(415, "UnsupportedMediaType", message)


def expired(message: str, *, token: str = "") -> StatusError:
    """410: the resource version, or the continue token, is too old; ``token`` is a newer one."""
    return StatusError(410, "Expired", message, token=token)


def too_large_version(asked: int, current: int) -> StatusError:
    """504: a list or get at a resource version that does not exist yet."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def internal(message: str) -> StatusError:
    """500: a bug here, or a node that does not answer."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def no_such_path() -> StatusError:
    """404: nothing is served at this path."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def no_such_method() -> StatusError:
    """405: something is served at this path, but not with this method."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})
