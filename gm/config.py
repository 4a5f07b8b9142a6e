"""Settings: one file for GM, as Sedna's, plus ours (docs/configuration.md has the table).

Each setting is a field of :class:`Config` or of a section below it. The field's annotation holds
what the setting means and what is allowed, so that messages and the table say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

__all__ = [
    "Config",
    "HealthConfig",
    "KnowledgeBaseConfig",
    "LeaderElectionConfig",
    "LocalControllerConfig",
    "LogConfig",
    "TlsConfig",
    "WebsocketConfig",
    "load",
]

_URL = r"^https?://[^\s/]+"


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

    address: Annotated[str, _doc("address to listen on")] = "0.0.0.0"  # noqa: S104 # Sedna's default
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

    address: Annotated[str, _doc("address to listen on")] = "0.0.0.0"  # noqa: S104 # kubelets probe from outside
    port: Annotated[int, _number("port to listen on; 0 takes a free one", ge=0, le=65535)] = 8080


class LeaderElectionConfig(_Section, frozen=True, kw_only=True):
    """Several replicas of GM."""

    enabled: Annotated[bool, _doc("controllers run only in the replica that holds the lease")] = (
        False
    )


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
    namespace: Annotated[str, _doc("the one namespace to serve; empty: all")] = ""
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
        str, _doc("image of the init container that downloads s3:// and http(s):// URLs")
    ] = "kubeedge/sedna-storage-initializer:v0.3.0"
    completion_grace_seconds: Annotated[
        float, _number("how long trainers may go on after the aggregator has succeeded", ge=0)
    ] = 30.0
    state_namespace: Annotated[
        str,
        _doc("where records and leases lie; empty: the pod's own, outside a cluster `sedna`"),
    ] = ""
    health: Annotated[HealthConfig, _doc("probes and metrics")] = HealthConfig()
    leader_election: Annotated[LeaderElectionConfig, _doc("several replicas")] = (
        LeaderElectionConfig()
    )
    log: Annotated[LogConfig, _doc("logging")] = LogConfig()


def load(path: str | None, environ: Mapping[str, str]) -> tuple[Config, list[str]]:
    """The settings of file ``path`` (if any), overridden by ``GM_*`` of ``environ``.

    Returns: the settings, and one warning for each key that is not known.
    Raises: ConfigError naming file, key, value and what is allowed.
    """
    return Config(), []
