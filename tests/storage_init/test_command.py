"""The command, as the init container runs it; and what GM's pods ask of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gm.api.urls import DOWNLOAD_PREFIX, HostPath, Remote
from gm.controllers.credentials import S3Credentials
from gm.controllers.federatedlearning.world import JobSettings
from gm.controllers.storage import Location, Storage, apply_storage
from gm.storage_init import Settings, parse_pairs
from tests.controllers.federatedlearning.test_golden import world_of
from tests.controllers.support import golden, settle
from tests.storage_init.support import ACCESS, BIG, MIB, SECRET, Fault, FileServer, tree


async def start(
    *arguments: object, env: Mapping[str, str] | None = None
) -> asyncio.subprocess.Process:
    """``gm storage-init`` with an environment of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gm",
        "storage-init",
        *[str(argument) for argument in arguments],
        env={"PATH": os.environ["PATH"], **(env or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def command(*arguments: object, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of a run."""
    process = await start(*arguments, env=env)
    output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


def credentials(store: FileServer) -> dict[str, str]:
    """The environment that reads the store."""
    return {"S3_ENDPOINT_URL": store.url, "ACCESS_KEY_ID": ACCESS, "SECRET_ACCESS_KEY": SECRET}


async def test_a_run_that_succeeds(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Exit code 0, a line for each pair and one at the end."""
    client.put_object(Bucket=bucket, Key="d/a", Body=b"1")
    code, output, errors = await command(f"s3://{bucket}/d/", tmp_path, env=credentials(store))
    assert (code, errors) == (0, "")
    assert output == f"s3://{bucket}/d/ -> {tmp_path}\n1 of 1 files, 1 B downloaded\n"
    assert tree(tmp_path) == {"d/a": b"1"}


async def test_a_run_that_fails_ends_with_what_to_do(
    store: FileServer, bucket: str, tmp_path: Path
) -> None:
    """The last lines become the pod's message (FallbackToLogsOnError)."""
    code, output, errors = await command(
        f"s3://{bucket}/none", tmp_path, f"{store.url}/no-such/f", tmp_path, env=credentials(store)
    )
    assert code == 1
    assert output.endswith("0 of 1 files, 0 B downloaded, 2 failed\n")
    lines = errors.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"gm: s3://{bucket}/none: there is no such object, and none below")
    assert lines[1].startswith(f"gm: {store.url}/no-such/f: the server answered 404; check the url")


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (("s3://b/k",), {}, "gm: storage-init takes pairs of URL and DIR"),
        (("nfs://b/k", "/d"), {}, "gm: argument 1: 'nfs://b/k': nfs: is not supported"),
        (("s3://b/k", "/d"), {"ACCESS_KEY_ID": SECRET}, "gm: SECRET_ACCESS_KEY is empty"),
        (("s3://b/k", "/d"), {"S3_ENDPOINT_URL": "ftp://x"}, "gm: S3_ENDPOINT_URL is no address"),
    ],
)
async def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], env: dict[str, str], message: str
) -> None:
    """No traceback, no secret."""
    code, output, errors = await command(*arguments, env=env)
    assert (code, output) == (2, "")
    assert errors.startswith(message)
    assert len(errors.splitlines()) == 1
    assert SECRET not in errors


async def test_sigterm_ends_the_run_and_the_next_goes_on(
    server: FileServer, tmp_path: Path
) -> None:
    """A pod that is deleted, or a node that restarts."""
    server.put("/f", BIG)
    server.fail("/f", Fault(stall_after=MIB))
    process = await start(f"{server.url}/f", tmp_path)
    while not any(len(body) == MIB for body in tree(tmp_path).values()):
        assert process.returncode is None
        await asyncio.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (130, b"")
    code, output, _ = await command(f"{server.url}/f", tmp_path)
    assert code == 0
    assert "1 of 1 files, 2.0 MiB downloaded" in output
    assert tree(tmp_path) == {"f": BIG}


async def test_kill_9_leaves_nothing_that_looks_whole(server: FileServer, tmp_path: Path) -> None:
    """The next run goes on from what is here."""
    server.put("/f", BIG)
    server.fail("/f", Fault(stall_after=MIB))
    process = await start(f"{server.url}/f", tmp_path)
    while not any(len(body) == MIB for body in tree(tmp_path).values()):
        assert process.returncode is None
        await asyncio.sleep(0.02)
    process.kill()
    await process.communicate()
    assert not (tmp_path / "f").exists()
    _, output, _ = await command(f"{server.url}/f", tmp_path)
    assert "2.0 MiB downloaded" in output
    assert tree(tmp_path) == {"f": BIG}


async def test_no_secret_is_ever_shown(
    server: FileServer, store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Keys, passwords, queries and signatures: neither on success nor on any failure."""
    client.put_object(Bucket=bucket, Key="d/a", Body=BIG)
    client.put_object(Bucket=bucket, Key="d/b", Body=b"1")
    echo = f"<Error><Code>SignatureDoesNotMatch</Code><X>{SECRET}</X></Error>".encode()
    store.fail(f"/{bucket}/d/a", Fault(status=503), Fault(cut_after=0))
    store.fail(f"/{bucket}/d/b", Fault(status=403, body=echo))
    store.directory = tmp_path / "s3"
    server.fail("/gone", Fault(status=302, headers={"Location": "/loop?token=hidden"}))
    server.fail("/loop", *[Fault(status=302, headers={"Location": "/loop?token=hidden"})] * 20)
    server.fail("/ftp", Fault(status=302, headers={"Location": "ftp://u:hidden@h/x?hidden"}))
    server.put("/i", f"http://u:hidden@{server.host}/base?token=hidden\nnone\n../x\n".encode())
    secret = f"http://user:hidden@{server.host}"
    code, output, errors = await command(
        f"s3://{bucket}/d/",
        tmp_path / "s3",
        *(f"s3://no-such-{bucket}/x", tmp_path),
        *(f"{secret}/none?token=hidden", tmp_path),
        *(f"{secret}/gone?token=hidden", tmp_path),
        *(f"{secret}/ftp?token=hidden", tmp_path),
        *(f"{secret}/i?token=hidden", f"@{tmp_path}/i"),
        env=credentials(store),
    )
    assert code == 1
    assert len(errors.splitlines()) == 7
    for text in (output, errors):
        assert "Traceback" not in text
        for hidden in ("hidden", SECRET, ACCESS, "X-Amz", "Signature="):
            assert hidden not in text


# --- both sides of the contract ---


def pods(whose: str) -> list[Any]:
    """Sedna's pods for the recorded job, or GM's."""
    recording = golden("fl-s3")
    if whose == "sedna":
        return [child for child in recording["steps"][0]["children"] if child["kind"] == "Pod"]
    settings = JobSettings(aggregation_service="clusterDNS", inline_credentials=whose == "inline")
    seen, _ = settle(world_of(recording, settings))
    return [msgspec.json.decode(pod.raw) for pod in seen.pods]


@pytest.mark.parametrize("whose", ["sedna", "by reference", "inline"])
def test_pods_of_the_recorded_job_ask_for_what_we_can_read(whose: str) -> None:
    """Every argument can be read; each file lands where the worker looks, and nothing else."""
    found = pods(whose)
    assert len(found) == 3
    for pod in found:
        (container,) = pod["spec"]["initContainers"]
        given = pod["spec"]["containers"][0]["env"]
        worker = {entry["name"]: entry.get("value", "") for entry in given}
        env = {entry["name"]: entry.get("value", "by reference") for entry in container["env"]}
        settings = Settings.from_env(env)
        assert settings.endpoint_url == "http://minio.example.com:9000"
        assert bool(settings.access_key and settings.secret_key)
        pairs = parse_pairs(container["args"], mark=settings.mark)
        assert 2 * len(pairs) == len(container["args"])
        told = {
            path
            for name in ("MODEL_URL", "PRETRAINED_MODEL_URL", "TRAIN_DATASET_URL")
            if name in worker
            for path in worker[name].split(";")
        }
        brought = set()
        for pair in pairs:
            assert isinstance(pair.location, Remote)
            brought.add(str(pair.directory / pair.location.path.rpartition("/")[2]))
        assert brought == told


async def test_what_gm_asks_for_arrives_where_the_worker_looks(
    server: FileServer, store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """The pod of gm.controllers.storage, its init container run, its worker's variables read."""
    client.put_object(Bucket=bucket, Key="edge1/train.csv", Body=b"train")
    client.put_object(Bucket=bucket, Key="edge 1/test.csv", Body=b"test")
    client.put_object(Bucket=bucket, Key="model/m1/weights", Body=b"weights")
    server.put("/pre.bin", b"pre")
    locations = (
        Location(
            variable="TRAIN_DATASET_URL",
            urls=(f"s3://{bucket}/edge1/train.csv", f"s3://{bucket}/edge%201/test.csv"),
            credentials=S3Credentials("secret", store.url, ACCESS, SECRET),
        ),
        Location(variable="MODEL_URL", urls=(f"s3://{bucket}/model/m1/",)),
        Location(variable="WHOLE_URL", urls=(f"s3://{bucket}",)),
        Location(variable="PRETRAINED_MODEL_URL", urls=(f"{server.url}/pre.bin?rev=3",)),
    )
    storage = Storage.of(locations)
    spec: dict[str, Any] = {"containers": [{"name": "worker"}]}
    apply_storage(spec, storage, initializer_image="gm")
    (container,) = spec["initContainers"]
    downloads = str(tmp_path)  # stands for the volume
    arguments = [text.replace(DOWNLOAD_PREFIX, downloads, 1) for text in container["args"]]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    code, _, errors = await command(*arguments, env=env)
    assert (code, errors) == (0, "")
    paths = {
        name: [Path(path.replace(DOWNLOAD_PREFIX, downloads, 1)) for path in value.split(";")]
        for name, value in storage.env.items()
    }
    assert [path.read_bytes() for path in paths["TRAIN_DATASET_URL"]] == [b"train", b"test"]
    assert tree(paths["MODEL_URL"][0]) == {"weights": b"weights"}
    assert set(tree(paths["WHOLE_URL"][0])) == {
        "edge1/train.csv",
        "edge 1/test.csv",
        "model/m1/weights",
    }
    assert paths["PRETRAINED_MODEL_URL"][0].read_bytes() == b"pre"


def test_a_host_path_is_never_given_to_the_initializer() -> None:
    """It is mounted; the parser would refuse it."""
    storage = Storage.of((Location(variable="MODEL_URL", urls=("/data/m",)),))
    assert storage.downloads == {}
    assert all(isinstance(place, HostPath) for place in storage.directories)
