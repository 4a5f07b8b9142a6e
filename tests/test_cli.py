"""The command line: help with examples, clear errors, the right exit codes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gm import __version__, cli
from gm.errors import ConfigError, ServiceError

COMMANDS = ("demo", "up", "run", "edge", "apiserver", "crds", "version", "storage-init", "pki")


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


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("file", "setting kubeConfig"),
        ("variable", "environment variable GM_KUBE_CONFIG"),
        ("flag", "--kubeconfig"),
    ],
)
def test_a_missing_kubeconfig_is_told_with_what_named_it(
    source: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flag beats the variable, which beats the file."""
    config = tmp_path / "gm.yaml"
    config.write_text("kubeConfig: /nowhere/file\nhealth: {port: 0}\n")
    arguments = ["run", "--config", str(config)]
    if source != "file":
        monkeypatch.setenv("GM_KUBE_CONFIG", "/nowhere/variable")
    if source == "flag":
        arguments += ["--kubeconfig", "/nowhere/flag"]
    assert cli.main(arguments) == 2
    error = f"kubeconfig /nowhere/{source} (from {words}) does not exist: name a file that does"
    assert capsys.readouterr().err.splitlines()[-1] == f"gm: {error}"


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


def test_certificates_are_made_and_their_use_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``gm pki``; a second time it is an error, in one line."""
    directory = tmp_path / "pki"
    assert cli.main(["pki", str(directory), "--node", "edge1", "--server", "gm.example"]) == 0
    out = capsys.readouterr().out
    assert f"wrote {directory}/node-edge1.key\n" in out
    assert "gm edge --name edge1 --gm wss://gm.example:9000" in out
    assert cli.main(["pki", str(directory), "--node", "edge1"]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err


def test_status_of_nobody_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``gm edge status`` where no Local Controller ever was."""
    assert cli.main(["edge", "status", "--state", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == (
        f"gm: --state {tmp_path}/none: no local controller has kept anything there\n"
    )


def test_edge_without_name_and_gm_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    """Though neither is needed for ``gm edge status``."""
    assert cli.main(["edge", "--name", "edge1"]) == 2
    assert "--name NODE and --gm URL" in capsys.readouterr().err


def test_edge_status_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """As every command."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["edge", "status", "--help"])
    assert caught.value.code == 0
    assert "  gm edge status --state" in capsys.readouterr().out.split("examples:")[1]


def test_edge_proves_who_it_is_and_tells_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``gm edge`` with certificates of ``gm pki``, asked while it runs and after kill -9."""
    pki, state = tmp_path / "pki", tmp_path / "state"
    assert cli.main(["pki", str(pki), "--node", "edge1"]) == 0
    command = [
        *(sys.executable, "-m", "gm", "edge", "--name", "edge1", "--gm", "wss://127.0.0.1:1"),
        *("--root", str(tmp_path), "--state", str(state), "--listen", "127.0.0.1:0"),
        *("--ca", str(pki / "ca.crt"), "--cert", str(pki / "node-edge1.crt")),
        *("--key", str(pki / "node-edge1.key"), "--log-level", "info"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as edge:
        try:
            assert edge.stderr is not None
            for line in edge.stderr:
                if "not connected to gm" in line:
                    break
            capsys.readouterr()
            assert cli.main(["edge", "status", "--state", str(state), "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
        finally:
            edge.kill()
    assert (told["running"], told["node"], told["pid"]) == (True, "edge1", edge.pid)
    assert told["link"]["cause"] == "Connection refused"
    assert cli.main(["edge", "status", "--state", str(state)]) == 0
    assert "not running" in capsys.readouterr().out


def test_given_up_tls_handshakes_are_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    """uvloop logged them with a traceback, when GM ended while it connected to the API server."""
    with asyncio.Runner(loop_factory=cli._loop_factory()) as runner:
        loop = runner.get_loop()
        closed = RuntimeError("unable to perform operation on <T>; the handler is closed")
        loop.call_exception_handler({"message": "Fatal error on SSL protocol", "exception": closed})
        assert caplog.messages == []
        loop.call_exception_handler({"message": "Fatal error on pipe", "exception": closed})
        loop.call_exception_handler(
            {"message": "Fatal error on SSL protocol", "exception": OSError("other")}
        )
    assert caplog.messages == ["Fatal error on pipe", "Fatal error on SSL protocol"]
