"""How the LC proves to GM which node it is, and checks who GM is; files may be renewed."""

from __future__ import annotations

import ipaddress
import logging
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from gm.certificates import PemFile, load_identity, reading_authorities
from gm.edge_stub.settings import EdgeSettings
from gm.errors import ConfigError
from gm.messagelayer.files import WatchedFiles

__all__ = ["Credentials", "is_loopback"]

logger = logging.getLogger(__name__)


class Credentials:
    """Read at start, when what is wrong ends the program, and again when files have changed.

    Then what can not be read is said, and what was read before stays in use.
    """

    def __init__(self, settings: EdgeSettings) -> None:
        self._settings = settings
        self._is_tls = urlsplit(settings.gm).scheme == "wss"
        self._check()
        paths = (settings.token_file, settings.ca_file, settings.cert_file, settings.key_file)
        self._files = WatchedFiles(*(str(path) for path in paths if path is not None))
        self._token, self._tls = self._read_token(), self._read_tls()

    def current(self) -> tuple[dict[str, str], ssl.SSLContext | None]:
        """Headers and TLS settings of the next connection."""
        if self._files.have_changed():
            try:
                self._token, self._tls = self._read_token(), self._read_tls()
            except ConfigError as exc:
                logger.error(
                    "credentials are not read again; those read before stay in use",
                    extra={"cause": str(exc)},
                )
            else:
                logger.info("credentials read again")
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return headers, self._tls

    def _check(self) -> None:
        settings = self._settings
        if settings.key_file is not None and settings.cert_file is None:
            raise ConfigError("--key without --cert: name the certificate that it belongs to")
        if not self._is_tls and (settings.ca_file or settings.cert_file):
            raise ConfigError(f"--gm {settings.gm}: --ca and --cert are for wss:// URLs")
        if not self._is_tls and settings.server_name:
            raise ConfigError(f"--gm {settings.gm}: --server-name is for wss:// URLs")
        if settings.token_file is not None and not self._is_tls and not is_loopback(settings.gm):
            logger.warning(
                "the token goes over the network in clear: use wss://", extra={"gm": settings.gm}
            )

    def _read_token(self) -> str:
        path = self._settings.token_file
        if path is None:
            return ""
        try:
            token = path.read_text(encoding="ascii").strip()
        except OSError as exc:
            raise ConfigError(f"--token-file {path}: {exc.strerror or exc}") from None
        except UnicodeDecodeError:
            token = ""
        if not token or not token.isprintable() or " " in token:
            raise ConfigError(f"--token-file {path}: want one token, without spaces, and no more")
        return token

    def _read_tls(self) -> ssl.SSLContext | None:
        if not self._is_tls:
            return None
        settings = self._settings
        if settings.ca_file is None:
            context = ssl.create_default_context()
        else:
            with reading_authorities(_pem("--ca", settings.ca_file)):
                context = ssl.create_default_context(cafile=settings.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.cert_file is not None:
            key = None if settings.key_file is None else _pem("--key", settings.key_file)
            load_identity(context, _pem("--cert", settings.cert_file), key)
        return context


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _pem(flag: str, path: Path) -> PemFile:
    return PemFile(f"{flag} {path}", path)
