"""HTTP: who may ask, what a path means, and errors as answers."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from aiohttp import web

from gm.devcluster import discovery
from gm.devcluster.answers import encode_status
from gm.devcluster.documents import Documents
from gm.devcluster.handlers import Handlers
from gm.devcluster.query import Query, check_timeout, parse_bool, parse_query
from gm.devcluster.registry import Registry
from gm.devcluster.routes import Target, parse_path
from gm.devcluster.status import (
    StatusError,
    bad_request,
    internal,
    no_such_method,
    no_such_path,
)
from gm.devcluster.watch import cut

__all__ = ["Server"]

logger = logging.getLogger(__name__)

_PROBES = ("/healthz", "/livez", "/readyz")
_CHECKS = ("ping", "etcd")  # what people ask for; the store answers here for etcd
_LONG = ("attach", "exec", "log", "portforward", "proxy")
_UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized")


async def _at_once() -> None:
    """Nothing has to be waited for."""


class Server:
    """Answers every request. ``hosts`` are the names that the server may be called by.

    ``settled`` is waited for before an answer leaves: it returns when what the answer can tell
    of is safe.
    """

    def __init__(
        self,
        registry: Registry,
        handlers: Handlers,
        *,
        token: str,
        hosts: Iterable[str],
        settled: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._registry, self._handlers, self._settled = registry, handlers, settled
        self._documents = Documents(registry)
        self._token = f"Bearer {token}".encode()
        self._hosts = frozenset(hosts)
        self.is_ready = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; failures become ``Status`` objects."""
        response = await self._respond(request)
        # Of refusals and reads, too: "already exists" must not be taken back by a crash either.
        await self._settled()
        return response

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._handle(request)
        except StatusError as error:
            return encode_status(error)
        except ConnectionError:
            cut(request)  # the client is gone, or what it got is the beginning of something
            return web.Response(status=500)
        except Exception as error:
            logger.exception("request failed", extra={"path": request.path})
            return encode_status(internal(f"{type(error).__name__}"))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._check_host(request)
        path = request.path.rstrip("/") or "/"
        query = parse_query(request.rel_url.raw_query_string.encode(errors="surrogateescape"))
        target = parse_path(request.rel_url.raw_path)
        if not _is_long(request, target, query):
            check_timeout(query)
        if path == "/version":
            return _version(request)
        probe, slash, check = request.path[1:].partition("/")
        if f"/{probe}" in _PROBES and check in (_CHECKS if slash else ("",)):
            return self._probe(probe, is_verbose="verbose" in query and not check)
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, self._token):
            raise _UNAUTHORIZED
        if (document := self._documents.respond(request)) is not None:
            return document
        if target is None:
            return self._absent(path)
        info = self._registry.lookup(target.group, target.version, target.plural)
        if info is None:
            return self._absent(path)
        if info.resource.namespaced and not target.namespace:
            if target.name or (info.is_custom and request.method not in ("GET", "HEAD")):
                return self._absent(path)
            if request.method in ("POST", "DELETE"):  # all namespaces together are for reading
                raise no_such_method()
        _check_name(target.name)
        return await self._handlers.handle(request, info, target, query)

    def _check_host(self, request: web.BaseRequest) -> None:
        """A web page that rebinds its name to our address must get nothing."""
        sent = request.headers.get("Host", "").encode(errors="surrogateescape")
        host = sent.decode(errors="replace")
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        if name.strip("[]").lower() not in self._hosts:
            message = f"this server is not {name!r}; call it by the address in its kubeconfig"
            raise StatusError(403, "Forbidden", message, {})

    def _probe(self, name: str, *, is_verbose: bool) -> web.Response:
        if name == "readyz" and not self.is_ready:
            return web.Response(text="starting", status=500)
        if is_verbose:
            listed = "".join(f"[+]{check} ok\n" for check in _CHECKS)
            return web.Response(text=f"{listed}{name} check passed\n")
        return web.Response(text="ok")

    def _absent(self, path: str) -> web.Response:
        """404, in the form that the group's own server has for it."""
        root, *rest = path[1:].split("/")
        if root in ("api", "version") or (
            root == "apis" and rest and rest[0] and self._registry.is_builtin(rest[0])
        ):
            raise no_such_path()
        return web.Response(text="404 page not found\n", status=404)


def _is_long(request: web.BaseRequest, target: Target | None, query: Query) -> bool:
    """Whether a request may take as long as it likes, so that its timeout means nothing."""
    if target is None:
        return False
    is_watch = request.method == "GET" and not target.name and parse_bool(query.get("watch"))
    return is_watch or target.subresource in _LONG


def _check_name(name: str) -> None:
    """Raises: StatusError (400) for what can not be part of a path, whether it exists or not."""
    why = f"may not be '{name}'" if name in (".", "..") else "may not contain '%'"
    if name in (".", "..") or "%" in name:
        raise bad_request(f'Name parameter invalid: "{name}": {why}')


def _version(request: web.BaseRequest) -> web.Response:
    if request.method != "GET":
        raise no_such_method()
    body = msgspec.json.encode(discovery.version())
    return web.Response(body=body, headers={"Content-Type": "application/json"})
