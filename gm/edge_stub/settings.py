"""Settings of one edge stub: the Local Controller and, optionally, the node around it."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gm.errors import ConfigError

__all__ = [
    "DEFAULT_LISTEN",
    "EdgeSettings",
    "RunnerSettings",
    "check_node_name",
    "parse_images",
    "parse_listen",
]

DEFAULT_LISTEN = "127.0.0.1:9100"
"""Where workers on the node find the LC: setting ``localController.server`` of GM."""

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")


class RunnerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the stub plays its node (design.md section 7).

    ``node``, ``root`` and ``state`` are those of the `EdgeSettings` that it belongs to.
    ``kubeconfig`` None means KUBECONFIG or in-cluster. ``address`` is the node's InternalIP.
    ``namespace`` limits which pods it runs; ``any_pod`` runs pods of any owner. ``images`` maps
    an image name to the argv that stands for it.
    """

    node: str
    root: Path
    state: Path
    address: str
    kubeconfig: Path | None = None
    any_pod: bool = False
    namespace: str = ""
    images: Mapping[str, tuple[str, ...]] = {}
    labels: Mapping[str, str] = {}
    """Labels of the Node beside the usual ones, for node selectors."""
    pod_addresses: str = ""
    """Loopback range ``FIRST-LAST`` for pods; by default the node's /24 from .64 on, where
    several nodes share without collision."""
    kubelet_client_ca: Path | None = None
    """With this CA the log endpoint wants a client certificate; without, whoever reaches the
    node's loopback address may read logs, as a real API server may come without credentials."""


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one Local Controller runs; ``runner`` is set when it also plays the node.

    ``gm`` is the websocket URL of GM. ``root`` stands for the node's file system, ``state`` is
    where the stub keeps its own files. ``listen`` is ``ADDRESS:PORT`` of the worker API, port 0
    takes a free one. ``token_file`` holds the bearer token and ``ca_file``, ``cert_file`` and
    ``key_file`` the TLS material for a GM that wants them.
    """

    node: str
    gm: str
    root: Path
    state: Path
    listen: str = DEFAULT_LISTEN
    runner: RunnerSettings | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str = ""
    """The name that GM's certificate has; empty: the host in ``gm``."""
    backoff_first_seconds: float = 1.0
    backoff_max_seconds: float = 60.0
    stable_seconds: float = 60.0
    """A session that lasted this long resets the back-off."""
    ping_interval_seconds: float = 20.0
    ping_timeout_seconds: float = 20.0
    max_frame_bytes: int = 16 * 1024 * 1024
    """Of what GM sends: twice of what it sends by default, or a link could never get on."""
    count_interval_seconds: float = 5.0
    """How often dataset files are looked at for changes."""
    shutdown_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what can not work, naming the flag."""
        check_node_name(self.node, flag="--name")
        if not _is_websocket_url(self.gm):
            raise ConfigError(f"--gm {self.gm!r}: want ws://HOST:PORT or wss://HOST:PORT")
        if "@" in urlsplit(self.gm).netloc:
            raise ConfigError("--gm holds a user or password, which GM does not ask for: remove it")
        parse_listen(self.listen)

    @property
    def listen_host(self) -> str:
        """Address of the worker API."""
        return parse_listen(self.listen)[0]

    @property
    def listen_port(self) -> int:
        """Port of the worker API; 0 takes a free one."""
        return parse_listen(self.listen)[1]


def _is_websocket_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond 65535, or an address that is none
        return False


def check_node_name(name: str, *, flag: str) -> None:
    """Raises ConfigError that names ``flag`` if no node can be called ``name``."""
    if not _NODE_NAME.match(name):
        raise ConfigError(f"{flag} {name!r}: want a node name: lower-case letters, digits, - and .")


def parse_listen(text: str) -> tuple[str, int]:
    """Address and port of ``ADDRESS:PORT``; raises ConfigError with what is allowed."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        number = int(port)
        if not 0 <= number <= 65535:
            raise ValueError(number)
    except ValueError:
        raise ConfigError(
            f"--listen {text!r}: want ADDRESS:PORT with an IP address, such as {DEFAULT_LISTEN}"
        ) from None
    return host, number


def parse_images(items: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The table image -> argv of ``--image NAME=ARGV`` flags; ARGV is split like a shell does."""
    images: dict[str, tuple[str, ...]] = {}
    for item in items:
        name, equals, command = item.partition("=")
        try:
            argv = tuple(shlex.split(command))
        except ValueError as exc:
            raise ConfigError(f"--image {item!r}: {exc}".lower()) from None
        if not (name and equals and argv):
            raise ConfigError(f"--image {item!r}: want NAME=COMMAND, such as me/train:v1=train.py")
        images[name] = argv
    return images
