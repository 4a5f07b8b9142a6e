"""Runs: several pairs, indexes, archives, failures, stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gm.devcluster.tls import Identity
from gm.errors import ConfigError, DownloadFailed
from gm.storage_init import Summary, initialize, parse_pairs, run
from gm.storage_init.paths import WORK_DIRECTORY
from tests.storage_init.support import (
    ACCESS,
    BIG,
    MIB,
    SECRET,
    Fault,
    FileServer,
    Lines,
    bring,
    quick,
    tree,
)
from tests.storage_init.test_archive import tar, zipped

CUT = Fault(cut_after=MIB)


def signed(store: FileServer, **changes: Any) -> Any:
    """Settings with credentials."""
    return quick(
        **{"endpoint_url": store.url, "access_key": ACCESS, "secret_key": SECRET, **changes}
    )


async def failures_of(*arguments: object, **changes: Any) -> list[str]:
    """What a run says of what failed."""
    with pytest.raises(ExceptionGroup) as caught:
        await bring(*arguments, settings=changes.pop("settings", None) or quick(**changes))
    assert all(isinstance(failure, DownloadFailed) for failure in caught.value.exceptions)
    return [str(failure) for failure in caught.value.exceptions]


# --- several pairs ---


async def test_pairs_go_to_their_directories(
    server: FileServer, store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """S3 and http side by side, each told with its place."""
    client.put_object(Bucket=bucket, Key="model/m1/w", Body=b"weights")
    server.put("/pre.bin", b"pre")
    say = Lines()
    summary = await bring(
        f"s3://{bucket}/model/m1/",
        tmp_path / bucket / "model",
        f"{server.url}/pre.bin",
        tmp_path / "http",
        settings=signed(store),
        say=say,
    )
    assert summary == Summary(2, 0, 10)
    assert tree(tmp_path) == {f"{bucket}/model/m1/w": b"weights", "http/pre.bin": b"pre"}
    assert say.lines[0] == f"s3://{bucket}/model/m1/ -> {tmp_path / bucket / 'model'}"
    assert say.lines[-1] == "2 of 2 files, 10 B downloaded"


async def test_no_more_files_come_at_a_time_than_allowed(
    server: FileServer, tmp_path: Path
) -> None:
    """Memory and connections are bounded; but one alone would be slow."""
    arguments = []
    for number in range(20):
        server.put(f"/{number}", BIG)
        arguments += [f"{server.url}/{number}", str(tmp_path)]
    server.hold = 3
    await bring(*arguments, settings=quick(parallel=3))
    assert len(tree(tmp_path)) == 20
    assert server.most_at_once == 3


async def test_pairs_that_overlap_bring_each_file_once(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """A dataset inside a model's directory."""
    client.put_object(Bucket=bucket, Key="d/a", Body=b"1")
    summary = await bring(
        f"s3://{bucket}/d/a", tmp_path / "d", f"s3://{bucket}/d", tmp_path, settings=signed(store)
    )
    assert summary.downloaded == 1
    assert tree(tmp_path) == {"d/a": b"1"}


async def test_two_urls_that_become_one_file_are_told(server: FileServer, tmp_path: Path) -> None:
    """They differ in the query only, which is dropped from the name."""
    server.put("/f", b"1")
    failures = await failures_of(f"{server.url}/f?a", tmp_path, f"{server.url}/f?b", tmp_path)
    assert failures == [
        f"{server.url}/f: another url of this pod becomes {tmp_path}/f too; "
        "give one of the two another name"
    ]


async def test_a_failure_does_not_keep_the_others_from_coming(
    server: FileServer, tmp_path: Path
) -> None:
    """Whoever runs it again has less to do."""
    server.put("/good", b"1")
    say = Lines()
    with pytest.raises(ExceptionGroup):
        await bring(f"{server.url}/bad", tmp_path, f"{server.url}/good", tmp_path, say=say)
    assert tree(tmp_path) == {"good": b"1"}
    assert say.lines[-1] == "1 of 2 files, 1 B downloaded, 1 failed"
    server.put("/bad", b"2")
    again = await bring(f"{server.url}/bad", tmp_path, f"{server.url}/good", tmp_path)
    assert again == Summary(1, 1, 1)


async def test_when_all_fail_alike_it_stops(server: FileServer, tmp_path: Path) -> None:
    """A thousand files that are refused need no thousand lines."""
    arguments = [
        text for number in range(200) for text in (f"{server.url}/{number}", str(tmp_path))
    ]
    failures = await failures_of(*arguments, max_failures=3)
    assert len(failures) == 3
    assert len(server.requests) < 20


async def test_a_full_volume_ends_the_run(server: FileServer, tmp_path: Path) -> None:
    """Nothing else will fit either."""
    server.put("/0", b"1", content_length=1 << 60)
    arguments = [f"{server.url}/0", str(tmp_path)]
    for number in range(1, 200):
        server.put(f"/{number}", b"1")
        arguments += [f"{server.url}/{number}", str(tmp_path)]
    failures = await failures_of(*arguments)
    assert len(failures) == 1
    assert len(server.requests) < 200


# --- indexes ---


async def test_an_index_in_the_store_brings_what_it_lists(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Files and directories, below DIR by their names; the index itself is not among them."""
    for key in ("base/1.jpg", "base/sub/2.jpg", "base/dir/a", "base/dir/deep/b", "base/other"):
        client.put_object(Bucket=bucket, Key=key, Body=key.encode())
    index = f"# images\ns3://{bucket}/base/\n1.jpg\nsub/2.jpg\ndir\n1.jpg\n"
    client.put_object(Bucket=bucket, Key="index.txt", Body=index.encode())
    await bring(f"s3://{bucket}/index.txt", f"@{tmp_path}", settings=signed(store))
    wanted = ("1.jpg", "sub/2.jpg", "dir/a", "dir/deep/b")
    assert tree(tmp_path) == {name: f"base/{name}".encode() for name in wanted}


async def test_an_index_over_http_brings_what_it_lists(server: FileServer, tmp_path: Path) -> None:
    """Names are quoted; what the base carries as a query goes along."""
    server.put("/index.txt", f"{server.url}/base?key=1\na b.jpg\n100%.jpg\n".encode())
    server.put("/base/a b.jpg", b"1")
    server.put("/base/100%.jpg", b"2")
    await bring(f"{server.url}/index.txt", f"@{tmp_path}")
    assert tree(tmp_path) == {"a b.jpg": b"1", "100%.jpg": b"2"}
    assert server.of("/base/a b.jpg") or server.requests[1].path.endswith("?key=1")


async def test_an_index_in_a_mounted_directory(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """As Sedna mounts a host path for it."""
    client.put_object(Bucket=bucket, Key="a", Body=b"1")
    index = tmp_path / "index.txt"
    index.write_text(f"s3://{bucket}\na\n")
    await bring(index, f"@{tmp_path}/out", settings=signed(store))
    assert tree(tmp_path / "out") == {"a": b"1"}


async def test_names_of_an_index_that_fail_are_told_each(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """The others come."""
    client.put_object(Bucket=bucket, Key="a", Body=b"1")
    index = tmp_path / "index.txt"
    index.write_text(f"s3://{bucket}\nnone\n../evil\na\nnone/\n")
    failures = await failures_of(index, f"@{tmp_path}/out", settings=signed(store))
    assert [failure.split("; ")[0] for failure in failures] == [
        f"s3://{bucket}/none: there is no such object, and none below it",
        f"s3://{bucket}/../evil: its name has '..' in it and would leave the directory",
        f"s3://{bucket}/none/: there is no such object, and none below it",
    ]
    assert tree(tmp_path / "out") == {"a": b"1"}


async def test_an_index_of_bad_names_ends_the_run_early(tmp_path: Path) -> None:
    """As when all files fail."""
    index = tmp_path / "index.txt"
    index.write_text("http://127.0.0.1:1/base\n" + "".join(f"../{n}\n" for n in range(99)))
    assert len(await failures_of(index, f"@{tmp_path}/out", max_failures=2)) == 2


async def test_a_name_of_an_http_index_that_leads_out_is_told(
    server: FileServer, tmp_path: Path
) -> None:
    """Without a request."""
    server.put("/index.txt", f"{server.url}/base?hidden\n../evil\n".encode())
    (failure,) = await failures_of(f"{server.url}/index.txt", f"@{tmp_path}/out")
    assert "would leave the directory" in failure
    assert "hidden" not in failure
    assert len(server.requests) == 1


async def test_an_index_that_lists_nothing_is_no_failure(tmp_path: Path) -> None:
    """Its files lie on the node; it is said."""
    index = tmp_path / "index.txt"
    index.write_text("/data/images\n1.jpg\n")
    say = Lines()
    assert await bring(index, f"@{tmp_path}/out", say=say) == Summary(0, 0, 0)
    assert f"{index}: the index lists nothing to download" in say.lines


async def test_an_index_that_can_not_be_read_is_told(server: FileServer, tmp_path: Path) -> None:
    """Absent, or no index."""
    server.put("/page", b"<html>\nlogin")
    failures = await failures_of(
        tmp_path / "none", f"@{tmp_path}", f"{server.url}/page", f"@{tmp_path}"
    )
    assert "can not be read (no such file or directory)" in failures[0]
    assert "its first line: '<html>' is not absolute" in failures[1]
    assert "an index is text: a base URL, then a name on each line" in failures[1]


# --- archives ---


async def test_an_archive_is_unpacked_and_kept(
    server: FileServer, store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Workers made for Sedna want its content, MODEL_URL names the file."""
    server.put("/pre.tar.gz", tar({"pre/weights": b"1"}))
    client.put_object(Bucket=bucket, Key="d/data.zip", Body=zipped({"1.jpg": b"2"}))
    arguments = (
        f"{server.url}/pre.tar.gz",
        tmp_path / "http",
        f"s3://{bucket}/d/data.zip",
        tmp_path / "s3",
    )
    say = Lines()
    await bring(*arguments, settings=signed(store), say=say)
    found = set(tree(tmp_path))
    assert found == {"http/pre.tar.gz", "http/pre/weights", "s3/data.zip", "s3/1.jpg"}
    assert f"{server.url}/pre.tar.gz: unpacking" in say.lines
    assert await bring(*arguments, settings=signed(store)) == Summary(0, 2, 0)


async def test_archives_in_a_directory_stay_as_they_are(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Shards of a dataset are read as they are."""
    client.put_object(Bucket=bucket, Key="d/0.tar", Body=tar({"1.jpg": b"2"}, "w"))
    await bring(f"s3://{bucket}/d/", tmp_path, settings=signed(store))
    assert set(tree(tmp_path)) == {"d/0.tar"}


async def test_an_archive_that_is_none_is_asked_for_again_by_the_next_run(
    server: FileServer, tmp_path: Path
) -> None:
    """It never gets its name."""
    server.put("/m.zip", b"<html>login</html>")
    (failure,) = await failures_of(f"{server.url}/m.zip", tmp_path)
    assert "it is no whole archive" in failure
    assert not (tmp_path / "m.zip").exists()
    server.put("/m.zip", zipped({"a": b"1"}), etag='"v2"')
    await bring(f"{server.url}/m.zip", tmp_path)
    assert set(tree(tmp_path)) == {"m.zip", "a"}


# --- TLS ---


async def test_a_private_ca_is_trusted_if_it_is_given(
    s3_url: str, client: Any, bucket: str, tmp_path: Path
) -> None:
    """For files and stores alike; without it, the refusal says what to do."""
    identity = Identity(tmp_path / "ca", "127.0.0.1")
    client.put_object(Bucket=bucket, Key="a", Body=b"1")
    async with FileServer(s3_url).running(identity.server_context()) as store:
        arguments = (f"s3://{bucket}/a", tmp_path / "1", f"{store.url}/{bucket}/a", tmp_path / "2")
        trusting = signed(store, ca_file=str(identity.ca_path))
        client.put_object_acl(Bucket=bucket, Key="a", ACL="public-read")
        await bring(*arguments, settings=trusting)
        assert tree(tmp_path / "1") == tree(tmp_path / "2") == {"a": b"1"}
        failures = await failures_of(*arguments, settings=signed(store))
        assert all("SSL_CERT_FILE" in failure for failure in failures)


async def test_a_ca_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    """By the variable that names it."""
    with pytest.raises(ConfigError, match="SSL_CERT_FILE: /none is no readable file"):
        await bring("http://h/f", tmp_path, settings=quick(ca_file="/none"))


async def test_a_port_without_tls_is_told(server: FileServer, tmp_path: Path) -> None:
    """https to an http port."""
    (failure,) = await failures_of(f"https://{server.host}/f", tmp_path, attempts=2)
    assert "check whether the server speaks https on this port" in failure


# --- stops and progress ---


async def test_a_stop_leaves_what_is_here(server: FileServer, tmp_path: Path) -> None:
    """SIGTERM: the next run goes on."""
    server.put("/f", BIG)
    server.fail("/f", Fault(stall_after=MIB))
    stopping, say = asyncio.Event(), Lines()
    pairs = parse_pairs([f"{server.url}/f", str(tmp_path)])
    settings = quick(progress_seconds=0.01)
    running = asyncio.ensure_future(run(pairs, settings, stopping, say))
    while not any(len(body) == MIB for body in tree(tmp_path).values()):
        await asyncio.sleep(0.01)
    stopping.set()
    assert not await running
    assert next(iter(tree(tmp_path))).startswith(WORK_DIRECTORY)
    assert await run(pairs, settings, asyncio.Event(), say)
    assert tree(tmp_path) == {"f": BIG}


async def test_progress_is_told_while_something_moves(server: FileServer, tmp_path: Path) -> None:
    """A line now and then, with how much and how fast."""
    server.put("/f", BIG)
    server.fail("/f", CUT)
    say = Lines()
    settings = quick(progress_seconds=0.02, first_delay_seconds=0.3)
    await initialize(parse_pairs([f"{server.url}/f", str(tmp_path)]), settings, say)
    told = [line for line in say.lines if line.endswith("/s")]
    assert any(line.startswith("0 of 1 files, 1.0 MiB downloaded, ") for line in told)
    assert len(told) < 10  # nothing moved for 0.15 s at least


# --- whatever happens ---


async def comes(server: FileServer, directory: Path) -> bool:
    """Whether the file comes; all else but that it does not is an error."""
    try:
        await bring(f"{server.url}/f", directory, settings=quick(attempts=3))
    except ExceptionGroup as failed:
        if not all(isinstance(failure, DownloadFailed) for failure in failed.exceptions):
            raise
        return False
    return True


@hypothesis_settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_whatever_happens_the_file_is_one_version_whole(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cuts, refusals, errors and changes in any order, over any number of runs."""

    async def body() -> None:
        directory = tmp_path_factory.mktemp("any")
        versions = [bytes([number]) * size for number, size in enumerate((0, 700_000, 300_001))]
        async with FileServer().running() as server:
            server.directory = directory
            for _ in range(data.draw(st.integers(1, 3))):
                number = data.draw(st.sampled_from(range(len(versions))))
                server.put(
                    "/f",
                    versions[number],
                    etag=data.draw(st.sampled_from([f'"v{number}"', f'W/"v{number}"', ""])),
                    last_modified=f"Mon, 30 Nov 2026 04:18:1{number} GMT",
                    knows_range=data.draw(st.booleans()),
                    knows_if_range=data.draw(st.booleans()),
                )
                cuts = st.integers(0, len(versions[number])).map(lambda n: Fault(cut_after=n))
                errors = st.sampled_from([500, 503, 416, 404]).map(lambda s: Fault(status=s))
                server.faults["/f"].clear()
                server.fail("/f", *data.draw(st.lists(cuts | errors, max_size=4)))
                if await comes(server, directory):
                    assert tree(directory) == {"f": versions[number]}
            server.faults["/f"].clear()
            await bring(f"{server.url}/f", directory)
            assert tree(directory) == {"f": server.resources["/f"].body}

    asyncio.run(body())
