"""Where the API server is and who we are there, read by kubernetes-asyncio's loaders.

They know kubeconfig files (several, merged), service accounts of pods, exec plugins and identity
providers.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from gm.certificates import PemFile, load_identity, reading_authorities
from gm.errors import ConfigError
from gm.kube.credentials import Access, Credentials, Token

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

__all__ = ["load_access"]

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SETTING = "setting kubeConfig"
# kubelets replace a service account's token long before it expires; reading a file is cheap
_FILE_TOKEN_SECONDS = 60.0
_EXPIRY_MARGIN_SECONDS = 60.0
_SHORTEST_SECONDS = 10.0


@dataclass(frozen=True)
class _Loaded:
    configuration: Configuration
    namespace: str
    lifetime_seconds: float | None = None

    @property
    def token(self) -> Token:
        value = self.configuration.api_key.get("BearerToken")
        return Token(str(value).strip() if value else None, self.lifetime_seconds)


_Load = Callable[[], Awaitable[_Loaded]]


async def load_access(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    master: str | None = None,
    named_by: str = _SETTING,
    environ: Mapping[str, str] | None = None,
    service_account: Path = _SERVICE_ACCOUNT,
) -> Access:
    """Find and read the configuration: ``kubeconfig``, KUBECONFIG, or the pod's service account.

    ``named_by`` is how people tell this program which ``kubeconfig``: a flag, say.

    Raises: ConfigError, which says what to do.
    """
    load = _source(
        kubeconfig=kubeconfig,
        context=context,
        master=master,
        named_by=named_by,
        environ=os.environ if environ is None else environ,
        service_account=service_account,
    )
    loaded = await load()
    configuration = loaded.configuration
    server = _checked_server(master, configuration.host or "")
    try:
        ssl_context = _ssl_context(configuration) if server.startswith("https://") else None
    except (ConfigError, OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"certificates for {server} can not be used: {exc}; check certificate-authority, "
            "client-certificate and client-key of the kubeconfig"
        ) from exc
    finally:
        _remove_temporary_files()

    async def reload() -> Token:
        fresh = await load()
        try:
            if ssl_context is not None:
                _load_client_certificate(ssl_context, fresh.configuration)
        except (ConfigError, OSError, ValueError) as exc:
            raise ConfigError(f"client certificate can not be used: {exc}") from exc
        finally:
            _remove_temporary_files()
        return fresh.token

    return Access(
        server=server,
        namespace=loaded.namespace,
        credentials=Credentials(loaded.token, reload),
        ssl_context=ssl_context,
        tls_server_name=configuration.tls_server_name,
        proxy=configuration.proxy or _environment_proxy(server),
    )


def _source(
    *,
    kubeconfig: str | None,
    context: str | None,
    master: str | None,
    named_by: str,
    environ: Mapping[str, str],
    service_account: Path,
) -> _Load:
    paths = kubeconfig or environ.get("KUBECONFIG", "")
    if paths:
        source = named_by if kubeconfig else "environment variable KUBECONFIG"

        async def load() -> _Loaded:
            return await _load_kubeconfig(paths, context, source)

    elif environ.get("KUBERNETES_SERVICE_HOST"):

        async def load() -> _Loaded:
            return _load_service_account(service_account, environ)

    elif master:

        async def load() -> _Loaded:
            return _anonymous()

    else:
        home = Path("~/.kube/config").expanduser()
        hint = f"; {home} exists: name it, if it is the one you mean" if home.is_file() else ""
        raise ConfigError(
            f"no Kubernetes cluster is configured: give a kubeconfig file ({named_by}, or "
            f"environment variable KUBECONFIG), or run in a pod with a service account{hint}"
        )
    return load


async def _load_kubeconfig(paths: str, context: str | None, named_by: str) -> _Loaded:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_kube_config

    _require_files(paths, named_by)
    configuration = Configuration()
    try:
        loader = await load_kube_config(paths, context, configuration, persist_config=False)
        chosen: dict[str, Any] = (loader.current_context or {})["context"]
        namespace = str(chosen.get("namespace") or "default")
    except yaml.YAMLError as exc:
        what = f"it is not YAML: {' '.join(str(exc).split())}"
        raise ConfigError(_problem(paths, named_by, what)) from exc
    except (ConfigException, OSError, ValueError) as exc:
        raise ConfigError(_problem(paths, named_by, _reason(exc))) from exc
    # kubernetes-asyncio's ways to find out that parts are missing, or are something else
    except (AssertionError, AttributeError, TypeError, LookupError) as exc:
        what = "it lacks parts of a kubeconfig: current-context, contexts, clusters or users"
        raise ConfigError(_problem(paths, named_by, what)) from exc
    return _Loaded(configuration, namespace, _lifetime_seconds(loader))


def _lifetime_seconds(loader: Any) -> float | None:
    expiry = getattr(loader, "exec_plugin_expiry", None)
    if isinstance(expiry, datetime):
        left = (expiry - datetime.now(UTC)).total_seconds()
        return max(left - _EXPIRY_MARGIN_SECONDS, _SHORTEST_SECONDS)
    user = getattr(loader, "_user", None)
    if user is not None and "tokenFile" in user and "token" not in user:
        return _FILE_TOKEN_SECONDS
    return None


def _reason(exc: Exception) -> str:
    text = " ".join(str(exc).split()).removeprefix("Invalid kube-config file. ").rstrip(".")
    return text or type(exc).__name__


def _problem(paths: str, named_by: str, what: str) -> str:
    return f"kubeconfig {paths} (from {named_by}) can not be used: {what}; check it with kubectl"


def _require_files(paths: str, named_by: str) -> None:
    """kubernetes-asyncio only logs that there is no file, and stumbles later."""
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    if not any(file.exists() for file in files):
        raise ConfigError(
            f"kubeconfig {paths} (from {named_by}) does not exist: name a file that does"
        )
    for file in files:
        if file.is_dir() or (file.exists() and not os.access(file, os.R_OK)):
            raise ConfigError(
                f"kubeconfig {file} (from {named_by}) can not be read: it has to be a file that "
                "this user may read"
            )


def _load_service_account(directory: Path, environ: Mapping[str, str]) -> _Loaded:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    configuration = Configuration()
    try:
        InClusterConfigLoader(
            token_filename=str(directory / "token"),
            cert_filename=str(directory / "ca.crt"),
            try_refresh_token=False,  # Credentials does
            environ=dict(environ),
        ).load_and_set(configuration)
    except (ConfigException, OSError) as exc:
        raise ConfigError(
            f"the pod's service account in {directory} can not be used: {_reason(exc)}; "
            "does the pod's spec have automountServiceAccountToken: false?"
        ) from exc
    namespace = directory / "namespace"
    return _Loaded(
        configuration,
        namespace.read_text().strip() if namespace.is_file() else "default",
        _FILE_TOKEN_SECONDS,
    )


def _anonymous() -> _Loaded:
    from kubernetes_asyncio.client import Configuration

    return _Loaded(Configuration(), "default")


def _checked_server(master: str | None, host: str) -> str:
    server = (master or host).rstrip("/")
    url = urlsplit(server)
    if url.scheme not in {"http", "https"} or not url.hostname:
        where = "setting master" if master else "server in the kubeconfig"
        raise ConfigError(f"{where} is {server!r}: it has to be a URL like https://10.0.0.1:6443")
    return server


def _ssl_context(configuration: Configuration) -> ssl.SSLContext:
    if configuration.ssl_ca_cert:
        with reading_authorities(_pem("certificate-authority", configuration.ssl_ca_cert)):
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    else:
        context = ssl.create_default_context()
    # Python 3.13 became stricter than Go, hence than kubectl: old cluster CAs lack extensions
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_client_certificate(context, configuration)
    return context


def _load_client_certificate(context: ssl.SSLContext, configuration: Configuration) -> None:
    if configuration.cert_file:
        key = configuration.key_file and _pem("client-key", configuration.key_file)
        load_identity(context, _pem("client-certificate", configuration.cert_file), key or None)


def _pem(field: str, path: str) -> PemFile:
    """One that the kubeconfig names, or holds: then no path says anything to people."""
    from kubernetes_asyncio.config import kube_config

    is_inline = path in kube_config._temp_files.values()
    return PemFile(f"{field}-data" if is_inline else f"{field} {path}", path)


def _remove_temporary_files() -> None:
    """Remove the files into which kubernetes-asyncio wrote inline certificates and keys.

    It would do so at exit, but not after a kill, and they hold private keys.
    """
    from kubernetes_asyncio.config import kube_config

    kube_config._cleanup_temp_files()


def _environment_proxy(server: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY ask for; once, as looking costs time.

    As in Go, what runs on this machine is never asked through a proxy.
    """
    url = urlsplit(server)
    host = url.hostname or ""
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
