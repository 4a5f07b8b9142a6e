"""URLs of models and data in pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gm.controllers.credentials import S3Credentials
from gm.controllers.storage import Location, Storage, apply_storage
from gm.errors import InvalidSpec

KEYS = S3Credentials("s3", "http://store:9000")


def applied(spec: dict[str, Any], *locations: Location, **options: Any) -> dict[str, Any]:
    """A pod spec with its storage."""
    spec = copy.deepcopy(spec)
    apply_storage(spec, Storage.of(locations, **options), initializer_image="init:v1")
    return spec


def test_a_host_path_is_mounted_with_its_directory() -> None:
    """/a/b/file: /a/b/ at /home/data/a/b/."""
    location = Location(variable="DATA", urls=("/a/b/file",))
    spec = applied({"containers": [{"name": "c"}, {"name": "d"}]}, location)
    volume = spec["volumes"][0]
    assert volume["hostPath"] == {"path": "/a/b/", "type": "Directory"}
    for container in spec["containers"]:
        assert container["volumeMounts"] == [
            {"name": volume["name"], "mountPath": "/home/data/a/b/"}
        ]
    env = Storage.of((location,)).env
    assert env == {"DATA": "/home/data/a/b/file", "DATA_PATH_PREFIX": "/home/data"}


def test_directories_that_look_alike_have_volumes_of_their_own() -> None:
    """Sedna's volume names are lossy: /a/b-c and /a-b/c meet."""
    spec = applied(
        {"containers": [{"name": "c"}]},
        Location(variable="A", urls=("/a/b-c/f",)),
        Location(variable="B", urls=("/a-b/c/f",)),
    )
    names = [volume["name"] for volume in spec["volumes"]]
    assert len(set(names)) == 2


def test_files_of_one_directory_share_a_volume_which_is_made_if_one_of_them_asks() -> None:
    """A Model's directory is DirectoryOrCreate."""
    spec = applied(
        {"containers": [{"name": "c"}]},
        Location(variable="DATA", urls=("/a/one", "/a/two")),
        Location(variable="MODEL", urls=("/a/model",), create=True),
    )
    assert [v["hostPath"]["type"] for v in spec["volumes"]] == ["DirectoryOrCreate"]


def test_several_urls_are_joined() -> None:
    """By a semicolon, in their order."""
    storage = Storage.of((Location(variable="D", urls=("/a/one", "s3://b/two")),))
    assert storage.env["D"] == "/home/data/a/one;/downloads/b/two"


def test_the_users_volumes_and_mounts_are_kept_and_not_shadowed_P2_092() -> None:
    """A volume of our name gets another, a container that mounts there keeps its own."""
    location = Location(variable="M", urls=("/a/model",))
    ours = applied({"containers": [{"name": "c"}]}, location)["volumes"][0]["name"]
    spec = applied(
        {
            "containers": [
                {"name": "c", "volumeMounts": [{"name": "pvc", "mountPath": "/home/data"}]},
                {"name": "d", "volumeMounts": [{"name": "pvc", "mountPath": "/home/database"}]},
            ],
            "volumes": [{"name": ours, "emptyDir": {}}],
        },
        location,
    )
    assert [v["name"] for v in spec["volumes"]] == [ours, f"{ours}-2"]
    assert [m["name"] for m in spec["containers"][0]["volumeMounts"]] == ["pvc"]
    assert [m["name"] for m in spec["containers"][1]["volumeMounts"]] == ["pvc", f"{ours}-2"]


def test_remote_urls_are_downloaded_by_an_init_container() -> None:
    """First of all, with the S3 variables and INDIRECT_URL_MARK."""
    spec = applied(
        {
            "containers": [{"name": "c"}],
            "initContainers": [{"name": "storage-initializer", "image": "mine"}],
        },
        Location(variable="M", urls=("s3://bucket/model/m1/",), credentials=KEYS),
        Location(variable="D", urls=("https://h.example/a/b.csv?rev=3",)),
    )
    first, second = spec["initContainers"]
    assert first["name"] == "storage-initializer-2"
    assert second["image"] == "mine"
    assert first["args"] == [
        "s3://bucket/model/m1/",
        "/downloads/bucket/model/",
        "https://h.example/a/b.csv?rev=3",
        "/downloads/h.example/a/",
    ]
    assert first["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert {e["name"] for e in first["env"]} == {
        "S3_ENDPOINT_URL",
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "INDIRECT_URL_MARK",
    }
    assert spec["containers"][0]["volumeMounts"][0]["readOnly"] is True


def test_the_same_url_is_downloaded_once() -> None:
    """Model and pretrained model may be one."""
    spec = applied(
        {"containers": [{"name": "c"}]},
        Location(variable="A", urls=("s3://b/x",)),
        Location(variable="B", urls=("s3://b/x",)),
    )
    assert len(spec["initContainers"][0]["args"]) == 2


def test_nothing_is_added_for_nothing() -> None:
    """No URL, no volume."""
    spec = {"containers": [{"name": "c"}]}
    assert applied(spec) == spec
    assert Storage.of(()).env == {}


@pytest.mark.parametrize("url", ["", "relative/path", "ftp://x/y", "s3://b/%zz", "http://a b/"])
def test_a_url_that_nobody_can_read_names_its_variable(url: str) -> None:
    """P2-091: said, not ignored."""
    with pytest.raises(InvalidSpec, match="DATA"):
        Storage.of((Location(variable="DATA", urls=(url,)),))


def test_the_credentials_that_come_last_win() -> None:
    """A pod has one set of S3 variables; the transmitter's are the last."""
    other = S3Credentials("other", "http://o")
    location = Location(variable="M", urls=("s3://b/x",), credentials=KEYS)
    assert Storage.of((location,)).credentials == KEYS
    assert Storage.of((location,), extra=other).credentials == other
