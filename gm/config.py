"""Settings: one file for GM, as Sedna's, plus ours (docs/configuration.md has the table).

Each setting is a field of :class:`Config` or of a section below it. The field's annotation holds
what the setting means and what is allowed, so that messages and the table say the same.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import yaml

from gm.errors import ConfigError

__all__ = [
    "Config",
    "HealthConfig",
    "KnowledgeBaseConfig",
    "LeaderElectionConfig",
    "LocalControllerConfig",
    "LogConfig",
    "Setting",
    "TlsConfig",
    "WebsocketConfig",
    "load",
    "settings",
    "state_namespace",
]

_URL = r"^https?://[^\s/]+"
_NAMESPACE = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?\Z"
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
# What Kubernetes puts into the environment of pods beside a Service named, say, `gm-websocket`.
_SERVICE_LINK = re.compile(r"^(tcp|udp|sctp)://")


def _doc(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


def _number(text: str, *, ge: float, le: float | None = None) -> msgspec.Meta:
    return msgspec.Meta(description=text, ge=ge, le=le)


def _url(text: str, *, optional: bool = False) -> msgspec.Meta:
    if optional:
        return msgspec.Meta(
            description=text, pattern=f"{_URL}|^$", extra={"allowed": "an http(s):// URL or empty"}
        )
    return msgspec.Meta(description=text, pattern=_URL, extra={"allowed": "an http(s):// URL"})


def _namespace(text: str) -> msgspec.Meta:
    return msgspec.Meta(
        description=text, pattern=_NAMESPACE, extra={"allowed": "the name of a namespace or empty"}
    )


def _filled(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text, pattern=r"\S", extra={"allowed": "text, not empty"})


class _Section(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """What all sections share: camelCase names in the file."""


class TlsConfig(_Section, frozen=True, kw_only=True):
    """Files for TLS on the websocket; empty: no TLS."""

    cert_file: Annotated[str, _doc("server certificate (PEM)")] = ""
    key_file: Annotated[str, _doc("its private key (PEM)")] = ""
    client_ca_file: Annotated[
        str, _doc("CA that signed the nodes' certificates (PEM), for auth `mtls`")
    ] = msgspec.field(default="", name="clientCAFile")


class WebsocketConfig(_Section, frozen=True, kw_only=True):
    """Where Local Controllers connect, how they prove who they are, and the limits."""

    address: Annotated[str, _filled("address to listen on")] = "0.0.0.0"  # noqa: S104 # Sedna's default
    port: Annotated[int, _number("port to listen on; 0 takes a free one", ge=0, le=65535)] = 9000
    auth: Annotated[
        Literal["none", "token", "mtls"], _doc("how a node proves which node it is")
    ] = "none"
    credentials: Annotated[
        Literal["authenticated", "always", "never"],
        _doc("which sessions get the S3 credentials of datasets and models"),
    ] = "authenticated"
    tls: Annotated[TlsConfig, _doc("TLS files")] = TlsConfig()
    token_file: Annotated[str, _doc("file of `token,node` lines, for auth `token`")] = ""
    ping_interval_seconds: Annotated[
        float, _number("a ping goes out this often on a quiet link", ge=0.1)
    ] = 20.0
    ping_timeout_seconds: Annotated[
        float, _number("a link without progress for this long after a ping is closed", ge=0.1)
    ] = 20.0
    max_frame_bytes: Annotated[
        int, _number("larger objects are quarantined, larger frames refused", ge=1024)
    ] = 8 * 1024 * 1024
    max_nodes: Annotated[int, _number("nodes connected at a time", ge=1)] = 20000
    connections_per_second: Annotated[int, _number("new connections a second", ge=1)] = 500


class LocalControllerConfig(_Section, frozen=True, kw_only=True):
    """How workers reach the Local Controller of their node."""

    server: Annotated[str, _url("given to workers as LC_SERVER")] = "http://localhost:9100"


class KnowledgeBaseConfig(_Section, frozen=True, kw_only=True):
    """Sedna's knowledge base; read for compatibility."""

    server: Annotated[str, _url("the knowledge base's address")] = "http://localhost:9020"


class HealthConfig(_Section, frozen=True, kw_only=True):
    """Probes and metrics."""

    address: Annotated[str, _filled("address to listen on")] = "0.0.0.0"  # noqa: S104 # kubelets probe from outside
    port: Annotated[int, _number("port to listen on; 0 takes a free one", ge=0, le=65535)] = 8080


class LeaderElectionConfig(_Section, frozen=True, kw_only=True):
    """Several replicas of GM."""

    enabled: Annotated[
        bool,
        _doc(
            "controllers run only in the replica that holds the lease; without it GM warns within "
            "a minute or two when another one serves the same objects"
        ),
    ] = False


class LogConfig(_Section, frozen=True, kw_only=True):
    """Logging."""

    format: Annotated[
        Literal["auto", "human", "json"], _doc("`auto`: human on a terminal, JSON elsewhere")
    ] = "auto"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], _doc("the least level that is logged")
    ] = "info"


class Config(_Section, frozen=True, kw_only=True):
    """All settings; frozen, so every component sees the same for the life of the process."""

    kube_config: Annotated[
        str, _doc("kubeconfig file; empty: $KUBECONFIG, else the pod's service account")
    ] = ""
    master: Annotated[
        str, _url("URL of the API server; overrides the kubeconfig's", optional=True)
    ] = ""
    namespace: Annotated[str, _namespace("the one namespace to serve; empty: all")] = ""
    websocket: Annotated[WebsocketConfig, _doc("the message layer")] = WebsocketConfig()
    local_controller: Annotated[LocalControllerConfig, _doc("workers and their LC")] = (
        LocalControllerConfig()
    )
    knowledge_base_server: Annotated[KnowledgeBaseConfig, _doc("Sedna's knowledge base")] = (
        KnowledgeBaseConfig()
    )
    min_resync_period_seconds: Annotated[
        float, _number("how often copies of Secrets on edges are compared again", ge=1)
    ] = 30.0
    workers: Annotated[int, _number("reconciles at a time for each kind", ge=1, le=1000)] = 4
    event_channel_size: Annotated[
        int, _number("watch events that wait for the downstream controller", ge=1)
    ] = 1024
    aggregation_service: Annotated[
        Literal["nodePort", "clusterDNS"], _doc("how trainers reach the aggregator")
    ] = "nodePort"
    external_ips: Annotated[bool, _doc("set Sedna's externalIPs on NodePort Services")] = (
        msgspec.field(default=False, name="externalIPs")
    )
    inline_credentials: Annotated[
        bool, _doc("S3 credentials as plain env in pods, as Sedna does, not by secretKeyRef")
    ] = False
    storage_initializer_image: Annotated[
        str, _filled("image of the init container that downloads s3:// and http(s):// URLs")
    ] = "kubeedge/sedna-storage-initializer:v0.3.0"
    completion_grace_seconds: Annotated[
        float, _number("how long trainers may go on after the aggregator has succeeded", ge=0)
    ] = 30.0
    state_namespace: Annotated[
        str,
        _namespace("where records and leases lie; empty: the pod's own, outside a cluster `sedna`"),
    ] = ""
    health: Annotated[HealthConfig, _doc("probes and metrics")] = HealthConfig()
    leader_election: Annotated[LeaderElectionConfig, _doc("several replicas")] = (
        LeaderElectionConfig()
    )
    log: Annotated[LogConfig, _doc("logging")] = LogConfig()


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: its ``key`` in the file, its ``env`` variable, and what they may hold."""

    key: str
    env: str
    default: Any
    allowed: str
    meaning: str
    annotation: Any

    @property
    def default_text(self) -> str:
        """The default as one writes it; empty where there is none."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    def parse(self, value: object, *, source: str, lax: bool = False) -> Any:
        """``value`` as this setting holds it; ``lax`` also reads numbers and booleans from text.

        Raises: ConfigError if it is not allowed; ``source`` says where it was written.
        """
        try:
            parsed = msgspec.convert(value, self.annotation, strict=not lax)
        except msgspec.ValidationError:
            parsed = math.nan
        if isinstance(parsed, float) and not math.isfinite(parsed):
            raise ConfigError(f"{source} is {value!r}; allowed is {self.allowed}")
        return parsed


def settings() -> list[Setting]:
    """All settings, in the order of the table in docs/configuration.md."""
    return list(_settings_of(Config, "", "GM"))


def load(path: str | None, environ: Mapping[str, str]) -> tuple[Config, list[str]]:
    """The settings of file ``path`` (if any), overridden by ``GM_*`` of ``environ``.

    An empty variable counts as not set.

    Returns: the settings, and one warning for each key that is not known.
    Raises: ConfigError naming file or variable, key, value and what is allowed.
    """
    warnings: list[str] = []
    values: dict[str, Any] = {}
    if path is not None:
        values.update(_from_file(path, warnings))
    values.update(_from_environ(environ, warnings))
    config = _build(Config, "", values)
    _check_together(config)
    return config, warnings


def state_namespace(config: Config, *, pod_namespace: Path = _POD_NAMESPACE) -> str:
    """Where records and leases lie: the setting, else the pod's own namespace, else ``sedna``."""
    if config.state_namespace:
        return config.state_namespace
    try:
        return pod_namespace.read_text().strip() or "sedna"
    except OSError:
        return "sedna"


def _allowed(kind: Any, meta: msgspec.Meta) -> str:
    """What a value may be, in words."""
    if meta.extra:
        return str(meta.extra["allowed"])
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if kind is bool:
        return "true or false"
    if kind is str:
        return "text"
    number = "a whole number" if kind is int else "a number"
    return (
        f"{number} from {meta.ge} to {meta.le}"
        if meta.le is not None
        else (f"{number} of at least {meta.ge}")
    )


def _settings_of(section: type[_Section], prefix: str, env: str) -> Iterator[Setting]:
    hints = get_type_hints(section, include_extras=True)
    defaults = section()
    names = zip(section.__struct_fields__, section.__struct_encode_fields__, strict=True)
    for field, encoded in names:
        kind, meta = get_args(hints[field])
        key, variable = prefix + encoded, f"{env}_{field.upper()}"
        if isinstance(kind, type) and issubclass(kind, _Section):
            yield from _settings_of(kind, f"{key}.", variable)
        else:
            yield Setting(
                key=key,
                env=variable,
                default=getattr(defaults, field),
                allowed=_allowed(kind, meta),
                meaning=meta.description or "",
                annotation=hints[field],
            )


_SETTINGS = {setting.key: setting for setting in settings()}
_SECTIONS = {key[:dot] for key in _SETTINGS for dot, letter in enumerate(key) if letter == "."}


def _build(section: type[_Section], prefix: str, values: Mapping[str, Any]) -> Any:
    """``section`` with those of ``values``, by full key, that lie in it."""
    given: dict[str, Any] = {}
    defaults = section()
    names = zip(section.__struct_fields__, section.__struct_encode_fields__, strict=True)
    for field, encoded in names:
        default = getattr(defaults, field)
        if isinstance(default, _Section):
            given[field] = _build(type(default), f"{prefix}{encoded}.", values)
        elif prefix + encoded in values:
            given[field] = values[prefix + encoded]
    return section(**given)


def _from_file(path: str, warnings: list[str]) -> dict[str, Any]:
    """Values by full key."""
    document = _read(path)
    values: dict[str, Any] = {}

    def walk(mapping: Mapping[Any, Any], prefix: str) -> None:
        for name, value in mapping.items():
            key = f"{prefix}{name}"
            if key in _SETTINGS:
                # A key without a value keeps the default, as for Sedna.
                if value is not None:
                    parsed = _SETTINGS[key].parse(value, source=f"{path}: {key}")
                    _check_once(path, key, values.setdefault(key, parsed), parsed)
            elif key not in _SECTIONS:
                warnings.append(f"{path}: unknown setting {key} has no effect{_did_you_mean(key)}")
            elif isinstance(value, Mapping):
                walk(value, f"{key}.")
            elif value is not None:
                raise ConfigError(
                    f"{path}: {key} is {value!r}; allowed is a section with {_names_in(key)}"
                )

    walk(document, "")
    return values


def _check_once(path: str, key: str, first: object, second: object) -> None:
    """Raise ConfigError for a key that stands there with dots and in its section, not alike."""
    if first != second:
        raise ConfigError(
            f"{path}: {key} is {first!r}, and {second!r} in another place of the file: keep one"
        )


class _Loader(yaml.SafeLoader):
    """YAML in which a key stands once, as the standard has it: PyYAML keeps the last silently."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (name := (key.tag, key.value)) in seen:
                raise yaml.composer.ComposerError(
                    None, None, f"{key.value} stands twice here: keep one", key.start_mark
                )
            seen.add(name)
        return node


def _read(path: str) -> Mapping[Any, Any]:
    try:
        document = yaml.load(Path(path).read_bytes(), _Loader)  # noqa: S506 # it is a SafeLoader
    except OSError as exc:
        raise ConfigError(f"{path}: can not be read: {(exc.strerror or str(exc)).lower()}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path}: is not YAML: {_where(exc)}") from exc
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ConfigError(
            f"{path}: holds a {type(document).__name__}; allowed is `key: value` lines"
        )
    return document


def _where(exc: yaml.YAMLError) -> str:
    if isinstance(exc, yaml.MarkedYAMLError) and exc.problem_mark is not None:
        mark = exc.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {exc.problem}"
    return " ".join(str(exc).split())


def _names_in(section: str) -> str:
    inside = [key.removeprefix(f"{section}.") for key in _SETTINGS if key.startswith(f"{section}.")]
    return ", ".join(dict.fromkeys(name.partition(".")[0] for name in inside))


def _did_you_mean(key: str) -> str:
    """A suggestion for an unknown key: a like name, or the same name in another section."""
    known = [*_SETTINGS, *_SECTIONS]
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower(), lower, n=1, cutoff=0.8)
    last = key.lower().rpartition(".")[2]
    close = close or [name for name in lower if name.rpartition(".")[2] == last]
    return f"; did you mean {lower[close[0]]}?" if close else ""


def _from_environ(environ: Mapping[str, str], warnings: list[str]) -> dict[str, Any]:
    """Values by full key."""
    values: dict[str, Any] = {}
    by_env = {setting.env: setting for setting in _SETTINGS.values()}
    for name, value in environ.items():
        if not value or not name.startswith("GM_"):
            continue
        if name not in by_env:
            # Other programs may own variables that begin with GM_: only likely typos are named.
            close = difflib.get_close_matches(name, by_env, n=1, cutoff=0.9)
            if close and not _SERVICE_LINK.match(value):
                warnings.append(f"unknown variable {name} has no effect; did you mean {close[0]}?")
        elif _SERVICE_LINK.match(value):
            warnings.append(
                f"{name} is ignored: {value!r} comes from a Kubernetes Service of that name"
            )
        else:
            setting = by_env[name]
            values[setting.key] = setting.parse(value, source=name, lax=True)
    return values


def _check_together(config: Config) -> None:
    """Raise ConfigError where settings that are fine alone do not fit together."""
    websocket = config.websocket
    tls = websocket.tls
    if bool(tls.cert_file) != bool(tls.key_file):
        raise ConfigError(
            "websocket.tls.certFile and websocket.tls.keyFile go together: set both or none"
        )
    if websocket.auth == "token" and not websocket.token_file:
        raise ConfigError("websocket.auth is 'token' and needs websocket.tokenFile")
    if websocket.auth == "mtls" and not (tls.cert_file and tls.client_ca_file):
        raise ConfigError(
            "websocket.auth is 'mtls' and needs websocket.tls.certFile, keyFile and clientCAFile"
        )
