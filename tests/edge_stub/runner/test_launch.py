"""A container as an order for a process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gm.edge_stub.runner.container import Order
from gm.edge_stub.runner.env import ConfigProblem, Source
from gm.edge_stub.runner.images import ImageTable, UnknownImage
from gm.edge_stub.runner.launch import Places, container_order, log_path
from tests.edge_stub.runner.support import facts

OWN = str(Path(sys.executable).parent)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A node's root, a pod's directory and one volume."""
    data = tmp_path / "root" / "a" / "b"
    data.mkdir(parents=True)
    return Places(tmp_path / "pod", tmp_path / "root", {"data": data})


def order(places: Places, **container: Any) -> Order:
    """The order for a container, mounted as GM mounts a Dataset."""
    described = {
        "name": "c",
        "command": ["run"],
        "volumeMounts": [{"name": "data", "mountPath": "/home/data/a/b/"}],
        **container,
    }
    return container_order(
        described,
        facts(),
        places=places,
        images=ImageTable({}),
        sources={Source("Secret", "no"): None},
        attempt=3,
        log_max_bytes=1000,
        marker="m",
    )


def test_command_args_and_environment_speak_of_real_paths(places: Places) -> None:
    """After the expansion of variables, as GM sets them for a worker."""
    made = order(
        places,
        command=["train", "--data=$(URL)"],
        args=["/home/data/a/b", "s3://home/data/a/b"],
        env=[
            {"name": "URL", "value": "/home/data/a/b/train.npz"},
            {"name": "BOTH", "value": "$(URL);/home/data/a/b/test.npz"},
            {"name": "DATA_PATH_PREFIX", "value": "/home/data"},
        ],
    )
    real = str(places.root / "a" / "b")
    assert made.argv == ("train", f"--data={real}/train.npz", real, "s3://home/data/a/b")
    assert made.env["URL"] == f"{real}/train.npz"
    assert made.env["BOTH"] == f"{real}/train.npz;{real}/test.npz"
    assert made.env["DATA_PATH_PREFIX"] == str(places.root)
    message = str(places.termination_message("c"))
    assert made.mounts == {"/home/data/a/b/": real, "/dev/termination-log": message}


def test_the_termination_message_is_a_file_of_the_container(places: Places) -> None:
    """Under the path that the pod says; no file of the machine's."""
    real = str(places.termination_message("c"))
    made = order(places, command=["sh", "-c", "echo x >/dev/termination-log"])
    assert made.argv[-1] == f"echo x >{real}"
    made = order(places, args=["/why", "/dev/termination-log"], terminationMessagePath="/why")
    assert made.argv[-2:] == (real, "/dev/termination-log")


def test_a_run_finds_nothing_of_the_run_before(places: Places) -> None:
    """Neither in its own directories nor in its message; volumes stay."""
    places.clear("c")
    assert places.termination_message("c").read_bytes() == b""
    (places.work("c", "/root") / "f").touch()
    (places.copies("c")).mkdir(parents=True)
    places.termination_message("c").write_text("why")
    (places.root / "a" / "b" / "f").touch()
    places.clear("c")
    assert places.termination_message("c").read_bytes() == b""
    assert not (places.work("c", "/root") / "f").exists()
    assert not places.copies("c").exists()
    assert (places.root / "a" / "b" / "f").exists()


def test_the_host_name(places: Places) -> None:
    """The pod's name, shortened as a host's must be, or what the pod says."""

    def name(**spec: Any) -> str:
        pod = facts(**spec)
        made = container_order(
            {"name": "c", "command": ["run"]},
            pod,
            places=places,
            images=ImageTable({}),
            sources={},
            attempt=0,
            log_max_bytes=1,
            marker="m",
        )
        return made.env["HOSTNAME"]

    assert name() == "p"
    assert name(name="n" * 62 + "-x") == "n" * 62
    assert name(hostname="other") == "other"


def test_addresses_are_given_and_the_lc_is_found_on_the_node(places: Places) -> None:
    """POD_IP and HOST_IP are there without being asked for; a host that is named stays."""
    made = order(
        places,
        env=[
            {"name": "LC_SERVER", "value": "http://localhost:9100"},
            {"name": "OTHER", "value": "http://localhost:9100"},
        ],
    )
    assert made.env["POD_IP"] == "127.1.1.64"
    assert made.env["HOST_IP"] == "127.1.1.11"
    assert made.env["LC_SERVER"] == "http://127.1.1.11:9100"
    assert made.env["OTHER"] == "http://localhost:9100"
    assert order(places, env=[{"name": "POD_IP", "value": "x"}]).env["POD_IP"] == "x"


def test_nothing_of_the_runners_own_environment_leaks(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold credentials."""
    monkeypatch.setenv("KUBECONFIG", "/secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TZ", "Europe/Rome")
    made = order(places)
    assert "secret" not in " ".join(made.env.values())
    assert made.env["TZ"] == "Europe/Rome"
    assert {"HOME", "TMPDIR", "PATH", "HOSTNAME"} <= set(made.env)
    assert Path(made.env["TMPDIR"]).is_dir()
    assert Path(made.env["HOME"]).is_dir()


def test_the_runners_own_programs_come_first_on_the_path(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that ``python`` has the example's packages, whatever PATH the pod sets."""
    monkeypatch.setenv("PATH", f"{OWN}:/usr/bin")
    assert order(places).env["PATH"] == f"{OWN}:/usr/bin"
    monkeypatch.delenv("PATH")
    assert order(places).env["PATH"].startswith(f"{OWN}:/usr/local/sbin:")
    own = order(places, env=[{"name": "PATH", "value": "/opt/bin"}])
    assert own.env["PATH"] == f"{OWN}:/opt/bin"


def test_the_working_directory(places: Places, tmp_path: Path) -> None:
    """In a volume, on this machine, or a stand-in for one of the image."""
    assert order(places).cwd == places.directory / "rootfs" / "c"
    in_volume = order(places, workingDir="/home/data/a/b/new").cwd
    assert in_volume == places.root / "a" / "b" / "new"
    assert in_volume.is_dir()
    assert order(places, workingDir=str(tmp_path)).cwd == tmp_path
    stand_in = order(places, workingDir="/no/such/../app").cwd
    assert stand_in == places.directory / "rootfs" / "c" / "no" / "app"
    assert stand_in.is_dir()


def test_each_run_has_a_log_of_its_own(places: Places) -> None:
    """Its directory is made."""
    made = order(places)
    assert made.log == log_path(places.directory, "c", 3)
    assert made.log.parent.is_dir()
    assert (made.log_max_bytes, made.marker) == (1000, "m")


def test_what_stops_a_start_is_told(places: Places) -> None:
    """An unknown image and a missing Secret."""
    with pytest.raises(UnknownImage):
        order(places, command=[], image="x")
    missing = {"name": "V", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}}
    with pytest.raises(ConfigProblem):
        order(places, env=[missing])
