"""Volumes as directories and files of this machine."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from gm.edge_stub.runner.env import Source, Sources
from gm.edge_stub.runner.files import (
    MountProblem,
    is_refreshed,
    make_volumes,
    mount_paths,
    remove,
    under,
    volume_sources,
)
from tests.edge_stub.runner.support import facts

SOURCES: Sources = {
    Source("Secret", "s"): {"user": b"me", "key": b"\x00\xff"},
    Source("ConfigMap", "m"): {"conf": b"x=1"},
    Source("Secret", "no"): None,
    Source("ConfigMap", "no"): None,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The node's file system."""
    path = tmp_path / "root"
    path.mkdir()
    return path


def make(
    root: Path, *volumes: dict[str, Any], sources: Sources = SOURCES, **spec: Any
) -> dict[str, Path]:
    """The volumes of a pod on the node."""
    mounts = [{"name": volume["name"], "mountPath": "/x"} for volume in volumes]
    containers = [{"name": "c", "image": "i", "volumeMounts": mounts}]
    return make_volumes(
        facts(volumes=list(volumes), containers=containers, **spec),
        root,
        root.parent / "pod" / "volumes",
        sources,
    )


def seen(directory: Path) -> dict[str, bytes]:
    """What processes see in a volume, by the first part of its name."""
    return {p.name: p.read_bytes() for p in directory.iterdir() if not p.name.startswith("..")}


def host_path(root: Path, path: str, kind: str | None = None) -> Path:
    """A hostPath volume."""
    source = {"path": path} | ({} if kind is None else {"type": kind})
    return make(root, {"name": "v", "hostPath": source})["v"]


def test_a_host_path_lies_under_the_nodes_root(root: Path) -> None:
    """Each node has a file system of its own."""
    (root / "data").mkdir()
    assert host_path(root, "/data", "Directory") == root / "data"
    assert host_path(root, "/data/", "Directory") == root / "data"


@pytest.mark.parametrize("kind", ["Directory", "File", "Socket", "CharDevice", "BlockDevice"])
def test_what_must_exist_and_does_not_is_a_problem(root: Path, kind: str) -> None:
    """The message is for the event FailedMount and names both paths."""
    with pytest.raises(MountProblem) as caught:
        host_path(root, "/nowhere", kind)
    message = str(caught.value)
    assert message.startswith(
        'MountVolume.SetUp failed for volume "v" : hostPath type check failed: /nowhere is not a '
    )
    assert str(root / "nowhere") in message


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "", None])
def test_a_directory_is_made_where_that_is_asked_for(root: Path, kind: str | None) -> None:
    """Also without a type, as container runtimes do."""
    assert host_path(root, "/models/fl", kind).is_dir()
    assert host_path(root, "/models/fl", kind).is_dir(), "and taken when it is there"


def test_a_file_is_made_where_that_is_asked_for(root: Path) -> None:
    """But not its directory, as a kubelet."""
    assert host_path(root, "/f", "FileOrCreate").read_bytes() == b""
    (root / "g").write_text("kept")
    assert host_path(root, "/g", "FileOrCreate").read_text() == "kept"
    assert host_path(root, "/g", "File").read_text() == "kept"
    with pytest.raises(MountProblem, match=r"No such file or directory"):
        host_path(root, "/none/f", "FileOrCreate")


def test_a_type_must_be_right(root: Path) -> None:
    """A file is no directory, and the other way round."""
    (root / "f").touch()
    (root / "d").mkdir()
    for path, kind in (("/f", "Directory"), ("/f", "DirectoryOrCreate"), ("/d", "File")):
        with pytest.raises(MountProblem, match="hostPath type check failed"):
            host_path(root, path, kind)


def test_sockets_and_devices_are_told_apart(root: Path) -> None:
    """A socket of the node."""
    with socket.socket(socket.AF_UNIX) as listening:
        directory = os.open(root, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{directory}/s")
        os.close(directory)
        assert host_path(root, "/s", "Socket") == root / "s"


def test_nothing_leads_out_of_the_root(root: Path) -> None:
    """Neither dots nor links."""
    assert under(root, "/../../etc") == root / "etc"
    (root / "link").symlink_to("/etc")
    with pytest.raises(MountProblem, match="leads out of the node's root directory"):
        host_path(root, "/link/ssl", "Directory")
    (root / "inside").mkdir()
    (root / "good").symlink_to(root / "inside")
    assert host_path(root, "/good", "Directory") == root / "good"


def test_an_empty_dir_is_the_pods_own(root: Path) -> None:
    """And what is in it survives a second call."""
    volume = {"name": "e", "emptyDir": {}}
    path = make(root, volume)["e"]
    assert path == root.parent / "pod" / "volumes" / "e"
    (path / "f").write_text("kept")
    make(root, volume)
    assert (path / "f").read_text() == "kept"


def test_secrets_and_config_maps_become_files(root: Path) -> None:
    """All keys, or the chosen ones under their paths and with their modes."""
    paths = make(
        root,
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {
            "name": "m",
            "configMap": {"name": "m", "items": [{"key": "conf", "path": "a/b", "mode": 0o755}]},
        },
    )
    assert seen(paths["s"]) == SOURCES[Source("Secret", "s")]
    assert stat.S_IMODE((paths["s"] / "key").stat().st_mode) == 0o400
    assert stat.S_IMODE(paths["s"].stat().st_mode) == 0o700
    assert (paths["m"] / "a" / "b").read_text() == "x=1"
    assert stat.S_IMODE((paths["m"] / "a" / "b").stat().st_mode) == 0o755


def test_downward_api_files(root: Path) -> None:
    """What the pod is told about itself, as files."""
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}},
    ]
    path = make(root, {"name": "d", "downwardAPI": {"items": items}})["d"]
    assert (path / "labels").read_text().startswith('app="a"')
    assert (path / "cpu").read_text() == "4"


def test_a_projected_volume_joins_sources_without_credentials_for_the_api(root: Path) -> None:
    """Real API servers add such a volume to every pod."""
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"secret": {"name": "s"}},
        {"configMap": {"name": "no", "optional": True}},
        {
            "downwardAPI": {
                "items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]
            }
        },
    ]
    path = make(root, {"name": "p", "projected": {"sources": sources, "defaultMode": 0o600}})["p"]
    assert sorted(seen(path)) == ["key", "ns", "user"]
    assert stat.S_IMODE((path / "ns").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        (
            {"configMap": {"name": "m", "items": [{"key": "k", "path": "k"}]}},
            "references non-existent configmap key: k",
        ),
        ({"persistentVolumeClaim": {"claimName": "x"}}, "does not support persistentVolumeClaim"),
        ({"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "y"}}]}}, "not supp"),
        ({}, "does not support no source"),
    ],
)
def test_what_can_not_be_had_is_named(root: Path, volume: dict[str, Any], message: str) -> None:
    """The message says which volume and why."""
    with pytest.raises(MountProblem, match=f'volume "v" : .*{message}'):
        make(root, {"name": "v", **volume})


def test_optional_sources_may_be_missing(root: Path) -> None:
    """An absent object makes an empty directory, an absent key no file."""
    paths = make(
        root,
        {"name": "a", "secret": {"secretName": "no", "optional": True}},
        {
            "name": "b",
            "configMap": {"name": "m", "optional": True, "items": [{"key": "k", "path": "k"}]},
        },
    )
    assert seen(paths["a"]) == seen(paths["b"]) == {}


def test_volume_sources_name_all_that_is_read() -> None:
    """Before the volumes are made."""
    spec = {
        "volumes": [
            {"name": "a", "secret": {"secretName": "s"}},
            {"name": "b", "configMap": {"name": "m"}},
            {"name": "c", "emptyDir": {}},
            {"name": "d", "projected": {"sources": [{"secret": {"name": "t"}}]}},
            {"name": "e", "secret": {"secretName": "nobody mounts it"}},
        ],
        "initContainers": [{"volumeMounts": [{"name": "d"}]}],
        "containers": [{"volumeMounts": [{"name": name} for name in "abc"]}],
    }
    assert list(volume_sources(spec)) == [
        Source("Secret", "s"),
        Source("ConfigMap", "m"),
        Source("Secret", "t"),
    ]


def test_mounts_map_to_real_paths_with_sub_paths(tmp_path: Path) -> None:
    """A subPath is made when it is missing; subPathExpr knows variables."""
    volumes = {"v": tmp_path}
    container = {
        "volumeMounts": [
            {"name": "v", "mountPath": "/a/"},
            {"name": "v", "mountPath": "/b", "subPath": "x/y"},
            {"name": "v", "mountPath": "/c", "subPathExpr": "$(POD)"},
        ]
    }
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").touch()
    copies = tmp_path / "copies"
    assert mount_paths(container, volumes, {"POD": "p0"}, copies=copies) == {
        "/a/": str(tmp_path),
        "/b": str(tmp_path / "x" / "y"),
        "/c": str(tmp_path / "p0"),
    }
    assert (tmp_path / "p0").is_dir()
    assert not copies.exists()


def test_a_mount_without_its_volume_is_a_problem(tmp_path: Path) -> None:
    """An API server refuses it; ours may be younger."""
    with pytest.raises(MountProblem, match='no volume "w" for mount /a'):
        mount_paths({"volumeMounts": [{"name": "w", "mountPath": "/a"}]}, {}, {}, copies=tmp_path)


def versions(path: Path) -> list[str]:
    """The directories of versions of a volume."""
    return [p.name for p in path.iterdir() if p.is_dir() and not p.is_symlink()]


def test_files_follow_their_secret_all_at_once(root: Path) -> None:
    """Changed, new and removed keys; who has the old version open keeps it."""
    volume = {"name": "s", "secret": {"secretName": "s"}}
    path = make(root, volume)["s"]
    (first,) = versions(path)
    assert (path / "..data").readlink() == Path(first)
    assert (path / "user").readlink() == Path("..data/user")
    with (path / "user").open() as file:
        newer = {**SOURCES, Source("Secret", "s"): {"user": b"you", "more": b"m"}}
        assert make(root, volume, sources=newer)["s"] == path
        assert file.read() == "me"
    assert seen(path) == {"user": b"you", "more": b"m"}
    (second,) = versions(path)
    assert second != first


def test_what_did_not_change_is_not_written_again(root: Path) -> None:
    """Neither contents nor modes."""
    volume = {"name": "s", "secret": {"secretName": "s"}}
    path = make(root, volume)["s"]
    first = versions(path)
    make(root, volume)
    assert versions(path) == first
    make(root, {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}})
    assert versions(path) != first
    assert stat.S_IMODE((path / "key").stat().st_mode) == 0o400


def test_a_sub_path_of_a_secret_stays_as_it_was(root: Path, tmp_path: Path) -> None:
    """A file or a directory; a mount of the whole follows."""
    items = [{"key": "user", "path": "deep/user"}, {"key": "key", "path": "key"}]
    volume = {"name": "s", "secret": {"secretName": "s", "items": items}}
    volumes = make(root, volume)
    mounts = [
        {"name": "s", "mountPath": "/file", "subPath": "key"},
        {"name": "s", "mountPath": "/dir", "subPath": "deep"},
        {"name": "s", "mountPath": "/all"},
    ]
    paths = mount_paths({"volumeMounts": mounts}, volumes, {}, copies=tmp_path / "copies")
    newer = {**SOURCES, Source("Secret", "s"): {"user": b"you", "key": b"new"}}
    make(root, volume, sources=newer)
    assert Path(paths["/file"]).read_bytes() == b"\x00\xff"
    assert Path(paths["/dir"], "user").read_bytes() == b"me"
    assert Path(paths["/all"], "deep", "user").read_bytes() == b"you"


def test_only_files_that_are_made_are_refreshed() -> None:
    """Not what lies on the node, nor what the pod writes itself."""
    assert not is_refreshed({"name": "h", "hostPath": {"path": "/"}})
    assert not is_refreshed({"name": "e", "emptyDir": {}})
    assert is_refreshed({"name": "d", "downwardAPI": {}})


def test_a_pods_directory_is_removed_whatever_its_processes_did(tmp_path: Path) -> None:
    """Also read-only directories in it."""
    directory = tmp_path / "pod"
    (directory / "deep").mkdir(parents=True)
    (directory / "deep" / "f").touch()
    (directory / "deep").chmod(0o500)
    remove(directory)
    assert not directory.exists()
    remove(directory)  # once more: nothing to do
