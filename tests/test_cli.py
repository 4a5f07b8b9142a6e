"""The command line: help with examples, clear errors, the right exit codes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gm import __version__, cli
from gm.errors import ConfigError, ServiceError

COMMANDS = ("demo", "up", "run", "edge", "apiserver", "crds", "version", "storage-init")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--help`` says what the command does and shows how to call it."""
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    assert caught.value.code == 0
    assert f"  gm {command}" in capsys.readouterr().out.split("examples:")[1]


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """``gm version`` and ``gm --version`` agree."""
    assert cli.main(["version"]) == 0
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"gm {__version__}\n" * 2


def test_crds_are_yaml_for_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    """``gm crds`` prints documents that kubectl can apply."""
    assert cli.main(["crds"]) == 0
    kinds = [d["spec"]["names"]["kind"] for d in yaml.safe_load_all(capsys.readouterr().out)]
    assert "FederatedLearningJob" in kinds


def test_a_wrong_setting_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback: file, key, value, and what is allowed."""
    config = tmp_path / "gm.yaml"
    config.write_text("websocket: {port: many}\n")
    assert cli.main(["run", "--config", str(config)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gm: ")
    assert "websocket.port" in error
    assert "Traceback" not in error


def test_every_leaf_of_a_group_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors from several tasks each get their line; the worst decides the code."""
    group = BaseExceptionGroup(
        "", [ServiceError("pods: no"), ExceptionGroup("", [ConfigError("port: no")])]
    )
    assert cli._explain(group) == 2
    assert capsys.readouterr().err == "gm: pods: no\ngm: port: no\n"
    assert cli._explain(asyncio.CancelledError()) == 1
    assert cli._explain(KeyboardInterrupt()) == 130


def test_a_bug_is_called_one(caplog: pytest.LogCaptureFixture) -> None:
    """Only what nobody foresaw comes with a traceback, in the log."""
    assert cli._explain(ZeroDivisionError()) == 70
    assert "bug" in caplog.text


def test_a_plain_local_controller_never_imports_the_kubernetes_client() -> None:
    """``gm edge`` without ``--runner`` must stay small."""
    script = (
        "import sys, gm.cli, gm.edge_stub.main, gm.edge_stub.controller;"
        "sys.exit('kubernetes_asyncio' in sys.modules or 'gm.kube' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
