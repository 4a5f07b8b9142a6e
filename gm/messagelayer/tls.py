"""TLS on the websocket, with certificates that can be replaced while connections live."""

from __future__ import annotations

import logging
import ssl

from gm.certificates import PemFile, load_identity, reading_authorities
from gm.config import TlsConfig
from gm.errors import ConfigError
from gm.messagelayer.files import WatchedFiles

__all__ = ["ReloadingTls", "make_tls"]

logger = logging.getLogger(__name__)


class ReloadingTls:
    """``context`` is what a listener needs; each new connection gets the newest certificates.

    A client certificate is asked for when there is a CA for them. That it be given is left to
    the authenticator, which can answer in words where TLS could only break off.
    """

    def __init__(self, settings: TlsConfig) -> None:
        self._settings = settings
        self._files = WatchedFiles(settings.cert_file, settings.key_file, settings.client_ca_file)
        self._newest = self.context = self._load()
        self.context.sni_callback = self._swap  # also called when the client names no server

    def reload(self) -> bool:
        """Read changed files; what can not be read is said, and what was read before stays."""
        if not self._files.have_changed():
            return False
        try:
            self._newest = self._load()
        except ConfigError as exc:
            logger.error(  # the message says it all
                "certificates are not reloaded; those read before stay in use",
                extra={"cause": str(exc)},
            )
            return False
        logger.info("certificates reloaded", extra={"certificate": self._settings.cert_file})
        return True

    def _swap(self, tls: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        tls.context = self._newest

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        settings = self._settings
        load_identity(
            context, _pem("certFile", settings.cert_file), _pem("keyFile", settings.key_file)
        )
        if settings.client_ca_file:
            context.verify_mode = ssl.CERT_OPTIONAL
            with reading_authorities(_pem("clientCAFile", settings.client_ca_file)):
                context.load_verify_locations(settings.client_ca_file)
        return context


def _pem(setting: str, path: str) -> PemFile:
    return PemFile(f"websocket.tls.{setting} {path}", path)


def make_tls(settings: TlsConfig) -> ReloadingTls | None:
    """TLS as ``settings`` ask for it, None for none.

    Raises: ConfigError when a file is missing or wrong.
    """
    return ReloadingTls(settings) if settings.cert_file else None
