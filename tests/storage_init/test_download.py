"""One file over HTTP, from a server that goes wrong in every way that a server can."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gm.errors import DownloadFailed, NoSpace
from gm.storage_init import Summary
from gm.storage_init.paths import WORK_DIRECTORY
from tests.storage_init.support import (
    BIG,
    LAST_MODIFIED,
    MIB,
    MODIFIED_SECONDS,
    Fault,
    FileServer,
    Lines,
    bring,
    quick,
    tree,
)

CUT = Fault(cut_after=MIB)


async def failure_of(*arguments: object, **settings: object) -> DownloadFailed:
    """The one failure of a run."""
    with pytest.raises(ExceptionGroup) as caught:
        await bring(*arguments, settings=quick(**settings))
    (failure,) = caught.value.exceptions
    assert isinstance(failure, DownloadFailed)
    return failure


async def test_a_file_keeps_its_name_and_the_query_is_dropped(
    server: FileServer, tmp_path: Path
) -> None:
    """As the worker is told; the server gets the query all the same."""
    server.put("/sets/train.csv", b"1,2\n")
    summary = await bring(f"{server.url}/sets/train.csv?rev=3", tmp_path / "new" / "dir")
    assert tree(tmp_path) == {"new/dir/train.csv": b"1,2\n"}
    assert summary == Summary(1, 0, 4)
    assert [request.path for request in server.requests] == ["/sets/train.csv?rev=3"]
    assert int((tmp_path / "new/dir/train.csv").stat().st_mtime) == MODIFIED_SECONDS


@pytest.mark.parametrize("body", [b"", b"x", BIG], ids=["empty", "one byte", "several buffers"])
async def test_what_is_complete_is_not_downloaded_again(
    server: FileServer, tmp_path: Path, body: bytes
) -> None:
    """Size and time of modification tell."""
    server.put("/f", body)
    await bring(f"{server.url}/f", tmp_path)
    before = (tmp_path / "f").stat()
    assert await bring(f"{server.url}/f", tmp_path) == Summary(0, 1, 0)
    assert (tmp_path / "f").stat() == before


@pytest.mark.parametrize(
    "change",
    [{"body": b"longer"}, {"last_modified": "Mon, 30 Nov 2026 04:18:14 GMT"}],
    ids=["size", "time"],
)
async def test_what_has_changed_is_downloaded_again(
    server: FileServer, tmp_path: Path, change: dict[str, object]
) -> None:
    """The new version replaces the old one."""
    server.put("/f", b"abc")
    await bring(f"{server.url}/f", tmp_path)
    server.put("/f", **{"body": b"xyz", **change})  # type: ignore[arg-type]
    assert (await bring(f"{server.url}/f", tmp_path)).downloaded == 1
    assert tree(tmp_path) == {"f": server.resources["/f"].body}


async def test_without_a_time_nothing_is_known_to_be_complete(
    server: FileServer, tmp_path: Path
) -> None:
    """Two versions may have one size."""
    server.put("/f", b"abc", last_modified="")
    await bring(f"{server.url}/f", tmp_path)
    server.put("/f", b"xyz", last_modified="", etag='"v2"')
    assert (await bring(f"{server.url}/f", tmp_path)).downloaded == 1
    assert tree(tmp_path) == {"f": b"xyz"}


async def test_a_download_that_is_cut_goes_on_where_it_was(
    server: FileServer, tmp_path: Path
) -> None:
    """Each byte comes once; the condition says which version is wanted."""
    server.put("/f", BIG)
    server.fail("/f", CUT, CUT)
    say = Lines()
    summary = await bring(f"{server.url}/f", tmp_path, say=say)
    assert tree(tmp_path) == {"f": BIG}
    assert summary.received_bytes == len(BIG)
    ranges = [request.range for request in server.of("/f")]
    assert ranges == ["", f"bytes={MIB}-", f"bytes={2 * MIB}-"]
    assert server.of("/f")[1].headers["If-Range"] == '"v1"'
    assert "the connection was cut at 1.0 MiB of 3.0 MiB; trying again" in say.text


async def test_a_later_run_goes_on_where_an_earlier_one_stopped(
    server: FileServer, tmp_path: Path
) -> None:
    """A restarted init container finds what is there, and leaves nothing over."""
    server.put("/f", BIG)
    server.fail("/f", CUT)
    await failure_of(f"{server.url}/f", tmp_path, attempts=1)
    assert [name.partition("/")[0] for name in tree(tmp_path)] == [WORK_DIRECTORY]
    summary = await bring(f"{server.url}/f", tmp_path)
    assert summary.received_bytes == len(BIG) - MIB
    assert tree(tmp_path) == {"f": BIG}
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


async def test_a_part_that_is_whole_is_not_asked_for(server: FileServer, tmp_path: Path) -> None:
    """The earlier run was stopped between the last byte and the renaming."""
    server.put("/f", BIG)
    server.fail("/f", CUT)
    await failure_of(f"{server.url}/f", tmp_path, attempts=1)
    (part,) = (tmp_path / WORK_DIRECTORY).iterdir()
    part.write_bytes(BIG)
    assert (await bring(f"{server.url}/f", tmp_path)).received_bytes == 0
    assert tree(tmp_path) == {"f": BIG}
    assert len(server.of("/f")) == 2


async def test_cancellation_keeps_what_is_here(server: FileServer, tmp_path: Path) -> None:
    """SIGTERM while a file is under way."""
    server.put("/f", BIG)
    server.fail("/f", Fault(stall_after=MIB))
    run = asyncio.ensure_future(bring(f"{server.url}/f", tmp_path))
    while not any(len(body) == MIB for body in tree(tmp_path).values()):
        await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await bring(f"{server.url}/f", tmp_path)).received_bytes == len(BIG) - MIB


@pytest.mark.parametrize("how", ["knows_if_range", "knows_range"])
async def test_a_version_that_changes_between_attempts_is_never_mixed(
    server: FileServer, tmp_path: Path, how: str
) -> None:
    """The server may answer with the whole, or, not knowing If-Range, with a part of the new."""
    new = BIG[::-1]
    server.put("/f", BIG)

    def change() -> None:
        server.put("/f", new, etag='"v2"', **{how: False})

    say = Lines()
    server.fail("/f", CUT)
    run = asyncio.ensure_future(
        bring(f"{server.url}/f", tmp_path, settings=quick(first_delay_seconds=0.2), say=say)
    )
    while not server.requests:
        await asyncio.sleep(0.001)
    change()
    await run
    assert tree(tmp_path) == {"f": new}


async def test_a_version_that_changes_between_runs_is_never_mixed(
    server: FileServer, tmp_path: Path
) -> None:
    """The part of the old one is thrown away."""
    server.put("/f", BIG)
    server.fail("/f", CUT)
    await failure_of(f"{server.url}/f", tmp_path, attempts=1)
    server.put("/f", BIG[::-1], etag='"v2"')
    server.fail("/f", CUT)
    await failure_of(f"{server.url}/f", tmp_path, attempts=1)
    assert len(tree(tmp_path)) == 1
    await bring(f"{server.url}/f", tmp_path)
    assert tree(tmp_path) == {"f": BIG[::-1]}


@pytest.mark.parametrize(
    "how",
    [
        {"knows_range": False},
        {"etag": "", "last_modified": ""},
        {"etag": 'W/"weak"', "last_modified": ""},
    ],
    ids=["no ranges", "no version", "weak version"],
)
async def test_what_can_not_go_on_starts_over(
    server: FileServer, tmp_path: Path, how: dict[str, object]
) -> None:
    """A server without ranges, or whose versions can not be told apart."""
    server.put("/f", BIG, **how)
    server.fail("/f", CUT)
    summary = await bring(f"{server.url}/f", tmp_path)
    assert summary.received_bytes == len(BIG) + MIB
    assert tree(tmp_path) == {"f": BIG}
    assert len(server.of("/f")) == 2


async def test_a_server_that_gives_less_than_is_asked_for_is_asked_again(
    server: FileServer, tmp_path: Path
) -> None:
    """Some cap the size of a range."""
    server.put("/f", BIG, most_bytes=MIB)
    server.fail("/f", CUT)
    summary = await bring(f"{server.url}/f", tmp_path, settings=quick(attempts=2))
    assert summary.received_bytes == len(BIG)
    assert tree(tmp_path) == {"f": BIG}


async def test_a_weak_version_goes_on_by_its_time(server: FileServer, tmp_path: Path) -> None:
    """If-Range takes no weak ETag."""
    server.put("/f", BIG, etag='W/"weak"')
    server.fail("/f", CUT)
    assert (await bring(f"{server.url}/f", tmp_path)).received_bytes == len(BIG)
    assert server.of("/f")[1].headers["If-Range"] == LAST_MODIFIED


async def test_a_server_that_cuts_always_at_one_place_is_given_up(
    server: FileServer, tmp_path: Path
) -> None:
    """Starting over is no progress."""
    server.put("/f", BIG, knows_range=False)
    server.fail("/f", *[CUT] * 10)
    failure = await failure_of(f"{server.url}/f", tmp_path, attempts=3)
    assert len(server.of("/f")) == 3
    assert "cut at 1.0 MiB of 3.0 MiB, after 3 attempts without progress" in str(failure)


async def test_a_bad_link_that_makes_progress_is_not_given_up(
    server: FileServer, tmp_path: Path
) -> None:
    """Attempts count only in a row."""
    server.put("/f", BIG)
    server.fail("/f", *[Fault(cut_after=300_000)] * 10)
    assert (await bring(f"{server.url}/f", tmp_path, settings=quick(attempts=2))).downloaded == 1
    assert tree(tmp_path) == {"f": BIG}


async def test_a_length_that_is_too_large_is_found_out(server: FileServer, tmp_path: Path) -> None:
    """The file never appears with fewer bytes than promised."""
    server.put("/f", b"abc", content_length=5, knows_range=False)
    server.fail("/f", *[Fault(cut_after=3)] * 2)
    failure = await failure_of(f"{server.url}/f", tmp_path, attempts=2)
    assert "at 3 B of 5 B" in str(failure)
    assert not (tmp_path / "f").exists()


async def test_a_body_of_chunks_is_whole_or_nothing(server: FileServer, tmp_path: Path) -> None:
    """No length is told, but the end is marked."""
    server.put("/f", BIG, is_chunked=True)
    server.fail("/f", CUT)
    await bring(f"{server.url}/f", tmp_path)
    assert tree(tmp_path) == {"f": BIG}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 599])
async def test_a_server_in_trouble_is_asked_again(
    server: FileServer, tmp_path: Path, status: int
) -> None:
    """These pass."""
    server.put("/f", b"abc")
    server.fail("/f", Fault(status=status), Fault(status=status))
    say = Lines()
    await bring(f"{server.url}/f", tmp_path, say=say)
    assert tree(tmp_path) == {"f": b"abc"}
    assert f"the server answered {status}; trying again" in say.text


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "credentials"),
        (403, "the link has expired"),
        (404, "nothing is there"),
        (410, "nothing is there"),
        (405, "read with GET"),
        (204, "read with GET"),
        (501, "read with GET"),
    ],
)
async def test_a_refusal_is_told_at_once(
    server: FileServer, tmp_path: Path, status: int, advice: str
) -> None:
    """URL without its query, status, and what to do; no second attempt."""
    server.fail("/f", Fault(status=status))
    failure = await failure_of(f"{server.url}/f?token=hidden", tmp_path)
    assert failure.status == status
    assert str(failure).startswith(f"{server.url}/f: the server answered {status}; ")
    assert advice in failure.advice
    assert "hidden" not in str(failure)
    assert len(server.requests) == 1


async def test_a_range_that_is_refused_leads_to_a_new_start(
    server: FileServer, tmp_path: Path
) -> None:
    """416 although the size was told before."""
    server.put("/f", BIG)
    server.fail("/f", CUT, Fault(status=416))
    await bring(f"{server.url}/f", tmp_path)
    assert tree(tmp_path) == {"f": BIG}
    assert server.of("/f")[2].range == ""


async def test_a_server_that_falls_silent_is_left(server: FileServer, tmp_path: Path) -> None:
    """A half-open connection does not hold the pod for ever."""
    server.put("/f", BIG)
    server.fail("/f", Fault(stall_after=MIB))
    say = Lines()
    await bring(f"{server.url}/f", tmp_path, settings=quick(read_timeout_seconds=0.3), say=say)
    assert tree(tmp_path) == {"f": BIG}
    assert "no data came in time at 1.0 MiB" in say.text


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the system's reason."""
    async with FileServer().running() as gone:
        pass
    url = f"http://u:hidden@{gone.host}/f?hidden"
    failure = await failure_of(url, tmp_path, attempts=2)
    assert "hidden" not in str(failure)
    assert "no connection came about (connection refused), after 2 attempts" in str(failure)


async def test_a_redirect_is_followed_to_a_signed_link(server: FileServer, tmp_path: Path) -> None:
    """As release pages and model hubs do; the link's own form is kept."""
    server.put("/real", b"abc")
    link = f"{server.url}/real?X-Signature=a%2Fb%2Bc"
    server.fail("/f", Fault(status=302, headers={"Location": link}))
    await bring(f"{server.url}/f", tmp_path)
    assert tree(tmp_path) == {"f": b"abc"}
    assert server.requests[1].path == "/real?X-Signature=a%2Fb%2Bc"


@pytest.mark.parametrize(
    ("location", "problem"),
    [("/f", "redirects without end"), ("ftp://example.com/f", "can not be read")],
)
async def test_a_redirect_that_leads_nowhere_is_told(
    server: FileServer, tmp_path: Path, location: str, problem: str
) -> None:
    """No traceback of a library."""
    server.fail("/f", *[Fault(status=302, headers={"Location": location})] * 20)
    assert problem in str(await failure_of(f"{server.url}/f", tmp_path))


async def test_credentials_in_a_url_are_sent_but_not_shown(
    server: FileServer, tmp_path: Path
) -> None:
    """Basic authentication."""
    server.put("/f", b"abc")
    server.fail("/f", Fault(status=500))
    say = Lines()
    await bring(f"http://user:hidden@{server.host}/f", tmp_path, say=say)
    assert server.requests[0].headers["Authorization"].startswith("Basic ")
    assert "hidden" not in say.text
    assert f"http://...@{server.host}/f" in say.text


@pytest.mark.parametrize("path", ["", "/", "/sets/"])
async def test_a_url_without_a_file_name_is_told(
    server: FileServer, tmp_path: Path, path: str
) -> None:
    """Nothing over http can be listed."""
    assert "it names no file" in str(await failure_of(f"{server.url}{path}", tmp_path))
    assert server.requests == []


async def test_a_name_with_spaces_and_letters_of_the_world(
    server: FileServer, tmp_path: Path
) -> None:
    """Quoted by the user or not."""
    server.put("/a b/ü.csv", b"abc")
    await bring(
        f"{server.url}/a%20b/%C3%BC.csv", tmp_path / "1", f"{server.url}/a b/ü.csv", tmp_path / "2"
    )
    assert tree(tmp_path) == {"1/ü.csv": b"abc", "2/ü.csv": b"abc"}


async def test_content_that_does_not_fit_is_not_begun(server: FileServer, tmp_path: Path) -> None:
    """The server tells the size first."""
    server.put("/f", b"abc", content_length=1 << 60)
    failure = await failure_of(f"{server.url}/f", tmp_path)
    assert isinstance(failure, NoSpace)
    assert "1.0 EiB are to come, but" in failure.problem
    assert tree(tmp_path) == {}


async def test_a_volume_that_is_full_is_told_and_freed(server: FileServer, tmp_path: Path) -> None:
    """The kernel refuses a write in the middle; what is there would only be in the way."""
    server.put("/f", BIG)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))

    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gm",
        "storage-init",
        f"{server.url}/f",
        str(tmp_path),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=limit,
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert f"gm: {server.url}/f: {tmp_path} is full (file too large); give the node" in (
        errors.decode()
    )
    assert tree(tmp_path) == {}


async def test_a_directory_in_the_way_is_told(server: FileServer, tmp_path: Path) -> None:
    """The file can not replace it."""
    server.put("/f", b"abc")
    (tmp_path / "f" / "g").mkdir(parents=True)
    failure = await failure_of(f"{server.url}/f", tmp_path)
    assert f"{tmp_path}/f can not be written (is a directory)" in str(failure)


async def test_a_file_in_the_way_of_the_directory_is_told(
    server: FileServer, tmp_path: Path
) -> None:
    """DIR is a file."""
    server.put("/f", b"abc")
    (tmp_path / "dir").write_bytes(b"")
    failure = await failure_of(f"{server.url}/f", tmp_path / "dir")
    assert "can not be written (not a directory)" in str(failure) or "exists" in str(failure)
