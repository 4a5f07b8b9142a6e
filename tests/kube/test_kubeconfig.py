"""Finding the cluster: kubeconfig, environment, service account; and saying what is wrong."""

from __future__ import annotations

import base64
import json
import os
import ssl
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gm.errors import ConfigError
from gm.kube.kubeconfig import load_access
from tests.cluster.cluster import Cluster
from tests.kube.certificates import Certificate, self_signed

NO_ENVIRONMENT: dict[str, str] = {}


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """A certificate and its key."""
    return self_signed("test")


def kubeconfig(
    path: Path,
    *,
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **context: str,
) -> str:
    """Write a kubeconfig; returns its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", **context}},
            {"name": "other", "context": {"cluster": "c", "namespace": "elsewhere"}},
        ],
        "current-context": "main",
    }
    path.write_text(json.dumps(config))
    return str(path)


def service_account(directory: Path, certificate: Certificate) -> Path:
    """The files that a kubelet mounts into pods."""
    (directory / "token").write_text("pod-token\n")
    (directory / "ca.crt").write_bytes(certificate.pem)
    (directory / "namespace").write_text("pod-namespace\n")
    return directory


IN_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_a_named_kubeconfig_comes_first(tmp_path: Path) -> None:
    """Before KUBECONFIG and the pod's service account."""
    named = kubeconfig(tmp_path / "a", user={"token": "t"}, namespace="ns")
    environment = IN_POD | {"KUBECONFIG": "/nowhere"}
    access = await load_access(kubeconfig=named, environ=environment)
    assert access.server == "http://127.0.0.1:1"
    assert access.namespace == "ns"
    assert access.ssl_context is None
    assert await access.credentials.header() == "Bearer t"


async def test_the_environment_names_several_files(tmp_path: Path) -> None:
    """They are merged, as kubectl does; those that do not exist are passed over."""
    only_users = tmp_path / "users"
    only_users.write_text(
        json.dumps({"users": [{"name": "u", "user": {"username": "a", "password": "b"}}]})
    )
    rest = kubeconfig(tmp_path / "rest")
    paths = os.pathsep.join([str(only_users), str(tmp_path / "missing"), rest])
    access = await load_access(environ={"KUBECONFIG": paths})
    assert access.namespace == "default"
    assert await access.credentials.header() == "Basic " + base64.b64encode(b"a:b").decode()


async def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    """With its namespace and without a user, if it has none."""
    access = await load_access(kubeconfig=kubeconfig(tmp_path / "a"), context="other")
    assert access.namespace == "elsewhere"
    assert await access.credentials.header() is None


async def test_master_takes_the_place_of_the_server(tmp_path: Path) -> None:
    """Credentials stay those of the file."""
    path = kubeconfig(tmp_path / "a", user={"token": "t"})
    access = await load_access(kubeconfig=path, master="http://10.0.0.1:8080/")
    assert access.server == "http://10.0.0.1:8080"
    assert await access.credentials.header() == "Bearer t"


async def test_master_alone_is_enough() -> None:
    """Then without credentials."""
    access = await load_access(master="http://127.0.0.1:8001", environ=NO_ENVIRONMENT)
    assert (access.server, access.namespace) == ("http://127.0.0.1:8001", "default")
    assert await access.credentials.header() is None


async def test_a_pod_uses_its_service_account(tmp_path: Path, certificate: Certificate) -> None:
    """Server from the environment, token, namespace and CA from the mounted files."""
    directory = service_account(tmp_path, certificate)
    access = await load_access(environ=IN_POD, service_account=directory)
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "pod-namespace"
    assert access.ssl_context is not None
    assert access.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert await access.credentials.header() == "Bearer pod-token"


async def test_a_pods_token_is_read_again_when_it_is_refused(
    tmp_path: Path, certificate: Certificate
) -> None:
    """Kubelets replace it; long-running programs have to notice."""
    directory = service_account(tmp_path, certificate)
    access = await load_access(environ=IN_POD, service_account=directory)
    credentials = access.credentials
    credentials._renew_seconds = 0
    assert not await credentials.renew(rejected="Bearer pod-token"), "it is the same still"
    (directory / "token").write_text("next-token")
    assert await credentials.renew(rejected="Bearer pod-token")
    assert await credentials.header() == "Bearer next-token"


async def test_a_pod_without_a_namespace_file_is_in_default(
    tmp_path: Path, certificate: Certificate
) -> None:
    """As clients do."""
    (service_account(tmp_path, certificate) / "namespace").unlink()
    access = await load_access(environ=IN_POD, service_account=tmp_path)
    assert access.namespace == "default"


async def test_a_token_file_is_read_and_has_a_lifetime(tmp_path: Path) -> None:
    """Relative to the kubeconfig; without its newline."""
    (tmp_path / "token").write_text("from-file\n")
    path = kubeconfig(tmp_path / "a", user={"tokenFile": "token"})
    access = await load_access(kubeconfig=path)
    assert await access.credentials.header() == "Bearer from-file"
    assert access.credentials._token.lifetime_seconds == 60


def exec_plugin(directory: Path, status: dict[str, Any]) -> dict[str, Any]:
    """A user whose credentials a program gives; it counts its runs in a file."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    program = directory / "plugin.py"
    program.write_text(
        f"open({str(directory / 'runs')!r}, 'a').write('x')\nprint({json.dumps(credential)!r})\n"
    )
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(program)],
            "interactiveMode": "Never",
        }
    }


async def test_an_exec_plugin_gives_the_token_and_its_lifetime(tmp_path: Path) -> None:
    """It runs once, and again a minute before the token expires."""
    expiry = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    user = exec_plugin(tmp_path, {"token": "plugin", "expirationTimestamp": expiry})
    access = await load_access(kubeconfig=kubeconfig(tmp_path / "a", user=user))
    for _ in range(3):
        assert await access.credentials.header() == "Bearer plugin"
    assert (tmp_path / "runs").read_text() == "x"
    lifetime = access.credentials._token.lifetime_seconds
    assert lifetime is not None
    assert 3500 < lifetime <= 3540


async def test_an_exec_plugin_without_expiry_runs_again_when_refused(tmp_path: Path) -> None:
    """And not before."""
    user = exec_plugin(tmp_path, {"token": "plugin"})
    access = await load_access(kubeconfig=kubeconfig(tmp_path / "a", user=user))
    assert access.credentials._token.lifetime_seconds is None
    access.credentials._renew_seconds = 0
    exec_plugin(tmp_path, {"token": "next"})
    assert await access.credentials.renew(rejected="Bearer plugin")
    assert await access.credentials.header() == "Bearer next"
    assert (tmp_path / "runs").read_text() == "xx"


async def test_an_exec_plugin_may_give_a_certificate(
    tmp_path: Path, certificate: Certificate
) -> None:
    """Loaded for TLS, and again when it is renewed."""
    user = exec_plugin(
        tmp_path,
        {
            "clientCertificateData": certificate.pem.decode(),
            "clientKeyData": certificate.key_pem.decode(),
        },
    )
    path = kubeconfig(tmp_path / "a", user=user, cluster=tls(certificate))
    access = await load_access(kubeconfig=path)
    assert access.ssl_context is not None
    access.credentials._renew_seconds = 0
    assert not await access.credentials.renew(rejected=None)
    assert (tmp_path / "runs").read_text() == "xx"


def tls(certificate: Certificate, **more: Any) -> dict[str, Any]:
    """A cluster that is reached by TLS."""
    data = base64.b64encode(certificate.pem).decode()
    return {"server": "https://127.0.0.1:1", "certificate-authority-data": data, **more}


async def test_inline_certificates_leave_no_files_behind(
    tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold private keys; twice in one process works as well."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    user = {
        "client-certificate-data": base64.b64encode(certificate.pem).decode(),
        "client-key-data": base64.b64encode(certificate.key_pem).decode(),
    }
    path = kubeconfig(tmp_path / "a", user=user, cluster=tls(certificate))
    for _ in range(2):
        access = await load_access(kubeconfig=path)
        assert access.ssl_context is not None
        assert list(scratch.iterdir()) == []


async def test_tls_settings_are_taken_over(tmp_path: Path, certificate: Certificate) -> None:
    """No verification, another name, a proxy: when the kubeconfig says so."""
    cluster = tls(
        certificate,
        **{
            "insecure-skip-tls-verify": True,
            "tls-server-name": "kubernetes.default",
            "proxy-url": "http://proxy:3128",
        },
    )
    access = await load_access(kubeconfig=kubeconfig(tmp_path / "a", cluster=cluster))
    assert access.ssl_context is not None
    assert access.ssl_context.verify_mode is ssl.CERT_NONE
    assert access.tls_server_name == "kubernetes.default"
    assert access.proxy == "http://proxy:3128"


async def test_the_environment_may_name_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """And exceptions from it."""
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    access = await load_access(master="http://10.0.0.1", environ=NO_ENVIRONMENT)
    assert access.proxy == "http://proxy:3128"
    for server in ("http://127.0.0.5:1", "http://[::1]:1", "http://localhost"):
        access = await load_access(master=server, environ=NO_ENVIRONMENT)
        assert access.proxy is None, "it would be another machine's loopback"
    monkeypatch.setenv("no_proxy", "10.0.0.1,.internal")
    for server in ("http://10.0.0.1", "http://kube.internal"):
        access = await load_access(master=server, environ=NO_ENVIRONMENT)
        assert access.proxy is None


# what can be wrong


async def problem(**arguments: Any) -> str:
    """What the error says."""
    with pytest.raises(ConfigError) as caught:
        await load_access(**arguments)
    return str(caught.value)


async def test_without_any_configuration_the_ways_to_give_one_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a kubeconfig in the usual place, if there is one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    message = await problem(environ=NO_ENVIRONMENT)
    assert message == (
        "no Kubernetes cluster is configured: give a kubeconfig file (setting kubeConfig, or "
        "environment variable KUBECONFIG), or run in a pod with a service account"
    )
    message = await problem(environ=NO_ENVIRONMENT, named_by="--kubeconfig")
    assert "give a kubeconfig file (--kubeconfig, or environment variable KUBECONFIG)" in message
    (tmp_path / ".kube").mkdir()
    home = kubeconfig(tmp_path / ".kube" / "config")
    message = await problem(environ=NO_ENVIRONMENT)
    assert message.endswith(f"; {home} exists: name it, if it is the one you mean")


async def test_a_missing_file_is_named_with_where_the_name_came_from(tmp_path: Path) -> None:
    """Flag, setting or environment."""
    path = str(tmp_path / "none")
    words = "does not exist: name a file that does"
    assert await problem(kubeconfig=path) == f"kubeconfig {path} (from setting kubeConfig) {words}"
    message = await problem(kubeconfig=path, named_by="--kubeconfig")
    assert message == f"kubeconfig {path} (from --kubeconfig) {words}"
    message = await problem(environ={"KUBECONFIG": path})
    assert "(from environment variable KUBECONFIG) does not exist" in message


async def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    """A mount that went wrong makes one."""
    assert "can not be read: it has to be a file" in await problem(kubeconfig=str(tmp_path))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "it lacks parts of a kubeconfig"),
        ("just words", "it lacks parts of a kubeconfig"),
        ("[1, 2]", "it lacks parts of a kubeconfig"),
        ("a: [unclosed", "it is not YAML"),
        ("kind: Config", "current-context"),
        ('{"current-context": "x", "contexts": []}', "name x in"),
        ('{"current-context": "x", "contexts": 7}', "it lacks parts of a kubeconfig"),
        (
            '{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}]}',
            "name c in",
        ),
        ("\x00\x01", "it is not YAML"),
    ],
)
async def test_a_broken_kubeconfig_is_explained(tmp_path: Path, text: str, what: str) -> None:
    """What is wrong with it, never a traceback."""
    path = tmp_path / "broken"
    path.write_text(text)
    message = await problem(kubeconfig=str(path))
    assert message.startswith(f"kubeconfig {path} (from setting kubeConfig) can not be used: ")
    assert what in message
    assert message.endswith("; check it with kubectl")


async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    """As it was asked for."""
    path = kubeconfig(tmp_path / "a")
    assert "name nope in" in await problem(kubeconfig=path, context="nope")


async def test_files_that_a_kubeconfig_names_must_exist(tmp_path: Path) -> None:
    """Certificates and tokens."""
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "missing.crt"}
    path = kubeconfig(tmp_path / "a", cluster=cluster)
    assert "missing.crt" in await problem(kubeconfig=path)
    path = kubeconfig(tmp_path / "b", user={"tokenFile": "missing-token"})
    assert "missing-token" in await problem(kubeconfig=path)


async def test_certificates_must_be_certificates(tmp_path: Path, certificate: Certificate) -> None:
    """The setting to mend is named."""
    cluster = tls(certificate) | {"certificate-authority-data": base64.b64encode(b"x").decode()}
    message = await problem(kubeconfig=kubeconfig(tmp_path / "a", cluster=cluster))
    start = "certificates for https://127.0.0.1:1 can not be used: "
    assert message.startswith(f"{start}certificate-authority-data: holds no certificate (PEM); ")
    assert "check certificate-authority" in message
    key = tmp_path / "client.key"
    key.write_bytes(certificate.pem)
    pem = base64.b64encode(certificate.pem).decode()
    user = {"client-certificate-data": pem, "client-key": str(key)}
    message = await problem(
        kubeconfig=kubeconfig(tmp_path / "b", cluster=tls(certificate), user=user)
    )
    assert message.startswith(f"{start}client-key {key}: holds no private key (PEM); ")


async def test_an_exec_plugin_that_fails_is_explained(tmp_path: Path) -> None:
    """Also one that does not exist."""
    user = exec_plugin(tmp_path, {})
    (tmp_path / "plugin.py").write_text("import sys; sys.exit('log in first')")
    message = await problem(kubeconfig=kubeconfig(tmp_path / "a", user=user))
    assert "log in first" in message
    user["exec"]["command"] = "/no/such/plugin"
    message = await problem(kubeconfig=kubeconfig(tmp_path / "a", user=user))
    assert "/no/such/plugin" in message


async def test_a_renewal_that_fails_keeps_the_old_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be good still."""
    user = exec_plugin(tmp_path, {"token": "plugin"})
    access = await load_access(kubeconfig=kubeconfig(tmp_path / "a", user=user))
    access.credentials._renew_seconds = 0
    (tmp_path / "plugin.py").write_text("import sys; sys.exit('log in first')")
    assert not await access.credentials.renew(rejected="Bearer plugin")
    assert await access.credentials.header() == "Bearer plugin"
    assert "credentials could not be renewed" in caplog.text


async def test_a_renewed_certificate_must_be_one(
    tmp_path: Path, certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    """The old one stays."""
    good = {
        "clientCertificateData": certificate.pem.decode(),
        "clientKeyData": certificate.key_pem.decode(),
    }
    user = exec_plugin(tmp_path, good)
    path = kubeconfig(tmp_path / "a", user=user, cluster=tls(certificate))
    access = await load_access(kubeconfig=path)
    access.credentials._renew_seconds = 0
    exec_plugin(tmp_path, good | {"clientCertificateData": "no certificate"})
    assert not await access.credentials.renew(rejected=None)
    assert "credentials could not be renewed" in caplog.text


@pytest.mark.parametrize("server", ["10.0.0.1:6443", "ftp://x", "https://"])
async def test_a_server_has_to_be_a_url(tmp_path: Path, server: str) -> None:
    """Setting master and server in the kubeconfig alike."""
    assert await problem(master=server, environ=NO_ENVIRONMENT) == (
        f"setting master is {server.rstrip('/')!r}: it has to be a URL like https://10.0.0.1:6443"
    )
    path = kubeconfig(tmp_path / "a", cluster={"server": server})
    assert (await problem(kubeconfig=path)).startswith("server in the kubeconfig is ")


async def test_a_pod_without_a_token_is_explained(tmp_path: Path) -> None:
    """The usual reason is named."""
    message = await problem(environ=IN_POD, service_account=tmp_path)
    assert message.startswith(f"the pod's service account in {tmp_path} can not be used: ")
    assert "automountServiceAccountToken" in message


# against API servers


async def test_a_kubeconfig_with_inline_certificates_reaches_the_server(
    cluster: Cluster, tmp_path: Path
) -> None:
    """As kubeadm and kind write them."""
    config = cluster.read_kubeconfig()
    entry = config["clusters"][0]["cluster"]
    if "certificate-authority" in entry:
        ca = Path(entry.pop("certificate-authority")).read_bytes()
        entry["certificate-authority-data"] = base64.b64encode(ca).decode()
    path = tmp_path / "inline"
    path.write_text(json.dumps(config))
    async with cluster.client(str(path)) as client:
        assert (await client.raw("GET", "/version")).status == 200
