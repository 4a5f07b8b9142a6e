"""The part of a kubelet's HTTPS API that an API server calls for ``kubectl logs``.

It listens on the node's loopback address only. Which caller is let in: with a client CA, whoever
has a certificate of it (a real API server: ``--kubelet-client-certificate``); without, whoever
reaches the loopback address, as a real API server may come without any credentials. The server
certificate is self-signed, as a kubelet's is by default; API servers do not verify it unless told.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gm.certificates import PemFile, reading_authorities
from gm.edge_stub.runner.launch import log_path
from gm.edge_stub.runner.log_file import LogOptions, log_stream
from gm.edge_stub.runner.status import ContainerRecord
from gm.errors import ConfigError

__all__ = ["FindLog", "KubeletApi"]

FindLog = Callable[[str, str, str], tuple[ContainerRecord, Path] | None]
"""Namespace, pod, container -> the container's record and the pod's directory."""

_VALID = datetime.timedelta(days=365)


class KubeletApi:
    """Serves logs of the node's pods; `serving` gives the port."""

    def __init__(
        self,
        *,
        node: str,
        address: str,
        port: int,
        directory: Path,
        find_log: FindLog,
        has_pod: Callable[[str, str], bool],
        client_ca: Path | None,
        poll_seconds: float,
    ) -> None:
        self._node, self._address, self._port = node, address, port
        self._directory, self._client_ca = directory, client_ca
        self._find_log, self._has_pod, self._poll_seconds = find_log, has_pod, poll_seconds

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Listen for the body's lifetime; gives the port.

        Raises: ConfigError if the port is taken or the client CA can not be read.
        """
        app = web.Application()
        app.router.add_get("/healthz", _healthz)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        # A follower may wait for ever: at the end it is cut off, not waited for.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._address, self._port, ssl_context=self._tls())
            try:
                await site.start()
            except OSError as exc:
                raise ConfigError(
                    f"the log endpoint can not listen on {self._address}:{self._port}: "
                    f"{exc.strerror}"
                ) from exc
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    def _tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(_self_signed(self._directory, self._node, self._address))
        if self._client_ca is not None:
            file = PemFile(f"kubelet client CA {self._client_ca}", self._client_ca)
            with reading_authorities(file):
                context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        namespace, pod, container = (
            request.match_info[part] for part in ("namespace", "pod", "container")
        )
        if not self._has_pod(namespace, pod):
            raise web.HTTPNotFound(text=f'pods "{pod}" not found')
        found = self._find_log(namespace, pod, container)
        if found is None:
            raise web.HTTPNotFound(text=f'container "{container}" not found in pod "{pod}"')
        record, directory = found
        try:
            options = _options(request.query)
        except ValueError as exc:
            raise web.HTTPBadRequest(text=f"invalid log options: {exc}") from exc
        previous = _is_true(request.query.get("previous"))
        attempt = record.restarts
        if previous and record.running is not None:
            attempt -= 1  # while it waits to be started again, the last run is the previous one
        path = log_path(directory, container, attempt)
        if (previous and record.last is None) or not path.exists():
            raise web.HTTPBadRequest(text=_why_no_log(record, pod, previous=previous))

        def is_over() -> bool:
            return previous or record.restarts != attempt or record.running is None

        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        pieces = log_stream(path, options, is_over=is_over, poll_seconds=self._poll_seconds)
        # who asked may go away at any time
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            async for piece in pieces:
                await response.write(piece)
            await response.write_eof()
        return response


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _why_no_log(record: ContainerRecord, pod: str, *, previous: bool) -> str:
    if previous:
        return f'previous terminated container "{record.name}" in pod "{pod}" not found'
    if record.waiting is not None:
        return f'container "{record.name}" in pod "{pod}" is waiting to start: {record.waiting[0]}'
    return f'container "{record.name}" in pod "{pod}" has no log'


def _options(query: Mapping[str, str]) -> LogOptions:
    since: datetime.datetime | None = None
    if query.get("sinceSeconds"):
        age = datetime.timedelta(seconds=_natural(query, "sinceSeconds"))
        since = datetime.datetime.now(datetime.UTC) - age
    elif query.get("sinceTime"):
        since = datetime.datetime.fromisoformat(query["sinceTime"])
        if since.tzinfo is None:
            raise ValueError("sinceTime wants a time zone")
    return LogOptions(
        follow=_is_true(query.get("follow")),
        timestamps=_is_true(query.get("timestamps")),
        since=since,
        tail_lines=_natural(query, "tailLines") if query.get("tailLines") else None,
        limit_bytes=_natural(query, "limitBytes") if query.get("limitBytes") else None,
    )


def _natural(query: Mapping[str, str], name: str) -> int:
    number = int(query[name])
    if number < 0:
        raise ValueError(f"{name} must not be negative")
    return number


def _is_true(text: str | None) -> bool:
    return text in ("true", "1", "True", "t")


def _self_signed(directory: Path, node: str, address: str) -> Path:
    """A certificate and its key for this run, in a file that only its owner can read."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gm-runner-{node}"[:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    path = directory / "kubelet.pem"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
    return path
