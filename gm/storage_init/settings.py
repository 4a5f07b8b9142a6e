"""How the initializer works: what the init container's environment says, and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from gm.errors import ConfigError

__all__ = ["DEFAULT_MARK", "Settings"]

DEFAULT_MARK = "@"
DEFAULT_REGION = "us-east-1"
"""What S3-compatible stores that know no regions expect to be signed for."""

_AWS_HOST = re.compile(r"s3(?:[.-](?P<region>[a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?\Z")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs to know beside its pairs.

    ``endpoint_url`` empty is AWS itself. Without keys S3 is read anonymously. ``attempts`` counts
    attempts in a row that bring nothing new, so a long download over a bad link is not limited
    by it. After ``max_failures`` files have failed no further ones are begun.
    """

    endpoint_url: str = ""
    access_key: str = ""
    secret_key: str = ""
    region: str = DEFAULT_REGION
    mark: str = DEFAULT_MARK
    ca_file: str = ""
    parallel: int = 4
    attempts: int = 6
    first_delay_seconds: float = 1
    max_delay_seconds: float = 30
    connect_timeout_seconds: float = 30
    read_timeout_seconds: float = 60
    progress_seconds: float = 5
    max_failures: int = 10

    def __repr__(self) -> str:
        return f"Settings({self.endpoint_url!r})"  # keys must not reach a log by way of repr

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """The settings that the container's environment makes.

        Raises: ConfigError naming the variable and what is allowed, never a key.
        """
        access, secret = _value(environ, "ACCESS_KEY_ID"), _value(environ, "SECRET_ACCESS_KEY")
        if bool(access) != bool(secret):
            missing = "SECRET_ACCESS_KEY" if access else "ACCESS_KEY_ID"
            raise ConfigError(
                f"{missing} is empty; set both ACCESS_KEY_ID and SECRET_ACCESS_KEY, "
                "or neither to read anonymously"
            )
        endpoint, region = _endpoint(_value(environ, "S3_ENDPOINT_URL"))
        named = _value(environ, "AWS_REGION") or _value(environ, "AWS_DEFAULT_REGION")
        return cls(
            endpoint_url=endpoint,
            access_key=access,
            secret_key=secret,
            region=named or region or DEFAULT_REGION,
            mark=_value(environ, "INDIRECT_URL_MARK") or DEFAULT_MARK,
            ca_file=_value(environ, "AWS_CA_BUNDLE") or _value(environ, "SSL_CERT_FILE"),
        )


def _value(environ: Mapping[str, str], name: str) -> str:
    # Secrets are often made with `echo`, which leaves a newline at the end
    return environ.get(name, "").strip()


def _endpoint(text: str) -> tuple[str, str]:
    """Endpoint and region; AWS is the empty endpoint, as only the client knows its hosts."""
    if not text:
        return "", ""
    if "://" not in text:
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https") or "@" in parts.netloc:
        raise ConfigError(
            "S3_ENDPOINT_URL is no address of a store; allowed is http(s)://HOST[:PORT], such as "
            "http://minio.example.com:9000"
        )
    match = _AWS_HOST.match(host)
    if match and parts.scheme == "https":
        return "", match["region"] or ""
    return text.rstrip("/"), ""
