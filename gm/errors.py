"""Errors, split by what the caller does next.

::

    GmError
    ├── ConfigError            stop: the person who started the program mends the setting
    ├── TerminalError          give up until the object changes (condition + event)
    │   └── InvalidSpec        a field of a resource is wrong; carries reason and message
    ├── ServiceError           the Kubernetes API did not do what was asked
    │   ├── ApiUnreachable     retry with back-off: no answer came (DNS, TCP, TLS, timeout)
    │   └── ApiError           an answer came: a failure ``Status``
    │       ├── BadRequest         400, 413, 415, 422 without a better class: do not retry unchanged
    │       │   ├── Invalid        422: the server's validation refused the object
    │       │   └── TooLarge       413, or etcd says so: write less
    │       ├── Unauthorized       401: credentials are missing or expired
    │       ├── Forbidden          403: RBAC; names verb and resource
    │       ├── NotFound           404: do not retry
    │       ├── AlreadyExists      409 on create: look at who holds the name
    │       ├── Conflict           409 on write: read again, compute again
    │       ├── ResourceExpired    410: relist, never retry with the same version
    │       └── TooManyRequests    429: retry after ``retry_after_seconds``
    ├── DownloadFailed         one URL could not be brought, after all attempts that make sense
    │   └── NoSpace                the volume is full: nothing else will fit either
    └── ProtocolViolation      close the session with ``close_code``

Messages are lower-case, without a full stop, and never hold object bodies or Secrets.
"""

from __future__ import annotations

__all__ = [
    "AlreadyExists",
    "ApiError",
    "ApiUnreachable",
    "BadRequest",
    "ConfigError",
    "Conflict",
    "DownloadFailed",
    "Forbidden",
    "GmError",
    "Invalid",
    "InvalidSpec",
    "NoSpace",
    "NotFound",
    "ProtocolViolation",
    "ResourceExpired",
    "ServiceError",
    "TerminalError",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "api_error",
]


class GmError(Exception):
    """Base of every error that this program raises on purpose."""


class ConfigError(GmError):
    """A setting is wrong; the message names the key, its value and what is allowed."""


class TerminalError(GmError):
    """Retrying can not help until the object itself changes."""


class InvalidSpec(TerminalError):
    """A resource can not be acted on as written.

    ``reason`` is a CamelCase word for a condition, ``message`` says which field and what is
    allowed.
    """

    def __init__(self, message: str, *, reason: str = "InvalidSpec") -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class ServiceError(GmError):
    """The Kubernetes API did not do what was asked."""


class ApiUnreachable(ServiceError):
    """No answer came from the API server: DNS, TCP, TLS or a timeout."""


class ApiError(ServiceError):
    """The API server answered with a failure ``Status``.

    ``request`` is "VERB resource namespace/name"; ``code`` the HTTP status; ``reason`` and
    ``message`` those of the Status object.
    """

    def __init__(self, request: str, *, code: int, reason: str, message: str = "") -> None:
        super().__init__(f"{request} failed: {code} {reason}" + (f": {message}" if message else ""))
        self.request, self.code, self.reason, self.message = request, code, reason, message


class BadRequest(ApiError):
    """400 and relatives: the same request can only fail again."""


class Invalid(BadRequest):
    """422: the server's validation refused the object."""


class TooLarge(BadRequest):
    """413, or etcd's own refusal, which the API server passes on as a 500."""


class Unauthorized(ApiError):
    """401: credentials are missing or expired."""


class Forbidden(ApiError):
    """403: the credentials do not allow this verb on this resource."""


class NotFound(ApiError):
    """404: the object, or its kind, does not exist."""


class AlreadyExists(ApiError):
    """409 on create: somebody holds the name."""


class Conflict(ApiError):
    """409 on write: the object changed since it was read."""


class ResourceExpired(ApiError):
    """410: the resource version is compacted away; list again, never retry it."""


class TooManyRequests(ApiError):
    """429: the server asks for patience; ``retry_after_seconds`` is its wish or 1."""

    def __init__(
        self,
        request: str,
        *,
        code: int,
        reason: str,
        message: str = "",
        retry_after_seconds: float = 1,
    ) -> None:
        super().__init__(request, code=code, reason=reason, message=message)
        self.retry_after_seconds = retry_after_seconds


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: ResourceExpired,
    413: TooLarge,
    415: BadRequest,
    422: Invalid,
}


def api_error(
    request: str,
    *,
    code: int,
    reason: str,
    message: str = "",
    retry_after_seconds: float | None = None,
) -> ApiError:
    """The error class that fits a failure ``Status``."""
    if code == 429 or (code >= 500 and retry_after_seconds is not None):
        return TooManyRequests(
            request,
            code=code,
            reason=reason,
            message=message,
            retry_after_seconds=retry_after_seconds or 1,
        )
    kind = _BY_CODE.get(code, ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    if code == 500 and "request is too large" in message:
        kind = TooLarge
    return kind(request, code=code, reason=reason, message=message)


class DownloadFailed(GmError):
    """A file could not be brought to a worker's volume.

    ``url`` is fit for a log (no credentials, no query); ``problem`` says what happened, ``advice``
    what to do; ``status`` is the HTTP status, if an answer came.
    """

    def __init__(self, url: str, problem: str, advice: str, *, status: int | None = None) -> None:
        super().__init__(f"{url}: {problem}; {advice}")
        self.url, self.problem, self.advice, self.status = url, problem, advice, status


class NoSpace(DownloadFailed):
    """The volume is full, or a limit on it is reached."""


class ProtocolViolation(GmError):
    """The peer broke the wire protocol; the session is closed with ``close_code`` (RFC 6455)."""

    def __init__(self, message: str, *, close_code: int = 1002) -> None:
        super().__init__(message)
        self.close_code = close_code
