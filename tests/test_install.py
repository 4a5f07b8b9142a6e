"""deploy/gm.yaml and the page about installing: they fit each other, the roles and the settings."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

import gm
from gm.config import load
from gm.edge_stub.runner.settings import DEFAULT_IMAGES

ROOT = Path(__file__).parent.parent


def objects(name: str) -> dict[str, dict[str, Any]]:
    """The objects of ``deploy/<name>``, by kind; of several of one kind the last."""
    documents = yaml.safe_load_all((ROOT / "deploy" / name).read_text())
    return {document["kind"]: document for document in documents}


INSTALLED = objects("gm.yaml")
POD = INSTALLED["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]


def test_settings_are_understood_and_their_files_are_mounted(tmp_path: Path) -> None:
    """From the Secrets that docs/install.md makes, under the keys that kubectl gives them."""
    (tmp_path / "gm.yaml").write_text(INSTALLED["ConfigMap"]["data"]["gm.yaml"])
    config, warnings = load(str(tmp_path / "gm.yaml"), {})
    assert warnings == []
    websocket = config.websocket
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTAINER["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    page = (ROOT / "docs" / "install.md").read_text()
    for path, secret in [
        (websocket.token_file, "generic gm-tokens --from-file=tokens"),
        (websocket.tls.cert_file, "tls gm-tls --cert gm-pki/server.crt"),
        (websocket.tls.key_file, "tls gm-tls --cert gm-pki/server.crt --key gm-pki/server.key"),
    ]:
        volume = volumes[mounts[str(PurePosixPath(path).parent)]]
        assert volume["secret"]["secretName"] in secret
        assert f"secret {secret}" in page
    assert [PurePosixPath(p).name for p in (websocket.tls.cert_file, websocket.tls.key_file)] == [
        "tls.crt",
        "tls.key",
    ]
    assert CONTAINER["args"] == ["run", "--config", "/etc/gm/gm.yaml"]
    assert "/etc/gm/gm.yaml" in mounts


def test_ports_are_those_of_the_settings(tmp_path: Path) -> None:
    """Probes, the Service and the page lead to them."""
    (tmp_path / "gm.yaml").write_text(INSTALLED["ConfigMap"]["data"]["gm.yaml"])
    config, _ = load(str(tmp_path / "gm.yaml"), {})
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"websocket": config.websocket.port, "health": config.health.port}
    (port,) = INSTALLED["Service"]["spec"]["ports"]
    assert port["targetPort"] == "websocket"
    page = (ROOT / "docs" / "install.md").read_text()
    assert set(re.findall(r"wss://gm\.example:(\d+)", page)) == {str(port["nodePort"])}


def test_it_runs_with_the_roles_in_the_namespace_of_its_state() -> None:
    """Those of deploy/rbac.yaml."""
    account = objects("rbac.yaml")["ServiceAccount"]["metadata"]
    assert POD["serviceAccountName"] == account["name"]
    assert {o["metadata"]["namespace"] for o in INSTALLED.values()} == {account["namespace"]}
    labels = INSTALLED["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert INSTALLED["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert INSTALLED["Service"]["spec"]["selector"] == labels


def test_the_version_is_this_one() -> None:
    """In the manifest and on the page."""
    version = f"gm:{gm.__version__}"
    assert CONTAINER["image"] == version
    page = (ROOT / "docs" / "install.md").read_text()
    assert set(re.findall(r"\bgm:\d[\w.]*", page)) == {version}


def test_the_examples_image_is_started_with_its_programs() -> None:
    """By the commands of the runner's table of images, in the environment of docker/Dockerfile."""
    page = (ROOT / "examples" / "federated-learning" / "README.md").read_text()
    assert f"gm-example:{gm.__version__}" in page
    aggregate, train = (
        DEFAULT_IMAGES[f"sedna.io/example-fl-{n}:v1"] for n in ("aggregation", "train")
    )
    assert f"[/opt/gm/bin/{', '.join(aggregate)}]" in page
    assert f"`{train[-1]}`" in page
    assert "-m venv /opt/gm" in (ROOT / "docker" / "Dockerfile").read_text()
