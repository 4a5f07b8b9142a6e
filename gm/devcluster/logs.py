"""Logs of pods, fetched from the pod's node as a real API server fetches them from a kubelet."""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import aiohttp
from aiohttp import web

from gm.api.meta import Json, ObjectKey
from gm.devcluster.gotime import WHOLE, time_problem
from gm.devcluster.metadata import forbidden, invalid_value
from gm.devcluster.query import Query, parse_bool, parse_int
from gm.devcluster.status import Cause, StatusError, bad_request, internal, invalid
from gm.devcluster.store import Record, Store

__all__ = ["LogOptions", "LogProxy", "check_started", "choose_container", "node_endpoint"]

_CONNECT_SECONDS = 5
_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}
_FLAGS = ("follow", "previous", "timestamps")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Which log is asked for; ``parameters`` are those that its node gets."""

    container: str = ""
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def parse(cls, pod: str, query: Query) -> LogOptions:
        """From a request for the log of the pod of that name. Raises: StatusError (400, 422)."""
        numbers = {name: parse_int(query, name) for name in _LEAST}
        since = query.get("sinceTime") or ""
        if since and (problem := time_problem(since, WHOLE)):
            raise bad_request(problem)
        if causes := [*_wrong_options(query, numbers)]:
            raise invalid("PodLogOptions", "", pod, causes)
        flags = {name: "true" for name in _FLAGS if parse_bool(query.get(name))}
        given = {name: str(number) for name, number in numbers.items() if number is not None}
        times = {"sinceTime": since} if since else {}
        return cls(container=query.get("container", ""), parameters={**flags, **given, **times})


def _wrong_options(query: Query, numbers: Mapping[str, int | None]) -> Iterator[Cause]:
    for name, number in numbers.items():
        if name == "sinceSeconds" and number is not None and query.get("sinceTime"):
            yield forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        elif number is not None and number < _LEAST[name]:
            than = "than or equal to 0" if _LEAST[name] == 0 else "than 0"
            yield invalid_value(name, number, f"must be greater {than}")
    if "stream" in query:  # beta in Kubernetes 1.34, and off
        yield forbidden("stream", "may not be specified")


def choose_container(pod: Json, wanted: str) -> str:
    """The container to read; a pod with one has a default. Raises: StatusError (400)."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    containers = [c["name"] for c in spec.get("containers") or ()]
    others = [c["name"] for c in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in (*containers, *others):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) != 1:
        choice = " ".join(containers)
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{choice}]"
        )
    return str(containers[0])


def check_started(pod: Json, container: str) -> None:
    """Raises: StatusError (400) if the container has not written anything yet."""
    status = pod.get("status") or {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for entry in status.get(field) or ():
            waiting = (entry.get("state") or {}).get("waiting")
            if entry.get("name") != container or entry.get("lastState"):
                continue
            if waiting is not None:
                name, reason = pod["metadata"]["name"], waiting.get("reason", "")
                why = f": {reason}" if reason else ""
                raise bad_request(
                    f'container "{container}" in pod "{name}" is waiting to start{why}'
                )


def node_endpoint(node: Json) -> tuple[str, int]:
    """Address and port where a node serves logs. Raises: StatusError (500)."""
    status = node.get("status") or {}
    by_type = {a["type"]: a["address"] for a in status.get("addresses") or ()}
    name = node["metadata"]["name"]
    for kind in ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"):
        if address := by_type.get(kind):
            break
    else:
        raise internal(f"node {name} has no address to fetch logs from")
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    return address, int(endpoint.get("Port") or 10250)


class LogProxy:
    """Fetches logs; an async context manager."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> LogProxy:
        # As a real API server without --kubelet-certificate-authority: nodes have certificates
        # of their own making, so who answers is not verified, only the way is encrypted. Not
        # create_default_context: it reads all of the machine's CAs, which takes its time.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def stream(
        self, request: web.BaseRequest, record: Record, options: LogOptions
    ) -> web.StreamResponse:
        """Answer ``GET pods/NAME/log``. Raises: StatusError."""
        pod = record.object
        container = choose_container(pod, options.container)
        node_name = pod["spec"].get("nodeName")
        if not node_name:  # as upstream: there is nothing to say yet, and no error
            return web.Response(status=204)
        check_started(pod, container)
        node = self._store.table("nodes").get(ObjectKey("", node_name))
        if node is None:
            raise StatusError(
                404,
                "NotFound",
                f'nodes "{node_name}" not found',
                {"name": node_name, "kind": "nodes"},
            )
        host, port = node_endpoint(node.object)
        path = "/".join(quote(part) for part in (*_name(record), container))
        address = f"[{host}]" if ":" in host else host
        url = f"https://{address}:{port}/containerLogs/{path}"
        return await self._relay(request, url, options.parameters)

    async def _relay(
        self, request: web.BaseRequest, url: str, parameters: Mapping[str, str]
    ) -> web.StreamResponse:
        if self._session is None:
            raise RuntimeError("the log proxy is not entered")
        response: web.StreamResponse | None = None
        try:
            async with self._session.get(url, params=parameters) as upstream:
                if upstream.status != 200:
                    text = (await upstream.text()).strip()
                    raise StatusError(
                        upstream.status if upstream.status < 500 else 500,
                        {400: "BadRequest", 404: "NotFound"}.get(upstream.status, "InternalError"),
                        text or f"the node answered {upstream.status}",
                    )
                response = web.StreamResponse(
                    headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"}
                )
                response.enable_chunked_encoding()
                await response.prepare(request)
                async for part in upstream.content.iter_any():
                    await response.write(part)
                return response
        except (aiohttp.ClientError, TimeoutError) as error:
            if response is not None:
                raise ConnectionResetError("the node went away in the middle of a log") from error
            why = str(error) or type(error).__name__
            raise internal(f'Get "{url}": {why}') from error


def _name(record: Record) -> tuple[str, str]:
    return record.key.namespace, record.key.name
