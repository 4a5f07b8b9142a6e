"""S3: objects and directories of a real S3-compatible server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore import exceptions

from gm.errors import ConfigError, DownloadFailed
from gm.storage_init import Settings, Summary, s3
from gm.storage_init.backoff import Transient
from gm.storage_init.progress import Progress
from gm.storage_init.s3 import Store
from tests.storage_init.support import (
    ACCESS,
    BIG,
    MIB,
    SECRET,
    Fault,
    FileServer,
    Lines,
    bring,
    md5,
    quick,
    tree,
)


def signed(store: FileServer, **changes: Any) -> Settings:
    """Settings with credentials."""
    keys = {"access_key": ACCESS, "secret_key": SECRET}
    return quick(**{"endpoint_url": store.url, **keys, **changes})


async def failures_of(*arguments: object, settings: Settings) -> list[str]:
    """What a run says of what failed."""
    with pytest.raises(ExceptionGroup) as caught:
        await bring(*arguments, settings=settings)
    assert all(isinstance(failure, DownloadFailed) for failure in caught.value.exceptions)
    return [str(failure) for failure in caught.value.exceptions]


def put(client: Any, bucket: str, **objects: bytes) -> None:
    """Upload; ``__`` stands for a slash."""
    for key, body in objects.items():
        client.put_object(Bucket=bucket, Key=key.replace("__", "/"), Body=body)


def refusal(status: int, code: str) -> exceptions.ClientError:
    """A failure that the store answered."""
    answer: Any = {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}
    return exceptions.ClientError(answer, "secret")


async def test_an_object_keeps_its_name(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """By a signed link, path style."""
    put(client, bucket, edge1__train=b"1,2\n", edge1__train2=b"another")
    summary = await bring(f"s3://{bucket}/edge1/train", tmp_path, settings=signed(store))
    assert tree(tmp_path) == {"train": b"1,2\n"}
    assert summary == Summary(1, 0, 4)
    (get,) = store.of(f"/{bucket}/edge1/train")
    assert "X-Amz-Algorithm=AWS4-HMAC-SHA256" in get.path
    assert SECRET not in get.path


@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_directory_keeps_its_name(
    store: FileServer, client: Any, bucket: str, tmp_path: Path, slash: str
) -> None:
    """With or without slash at the end; a neighbour that begins alike is left alone."""
    put(client, bucket, model__m1__a=b"1", model__m1__deep__b=b"2", model__m10__c=b"3")
    put(client, bucket, model__m1__empty__=b"")
    await bring(f"s3://{bucket}/model/m1{slash}", tmp_path, settings=signed(store))
    assert tree(tmp_path) == {"m1/a": b"1", "m1/deep/b": b"2"}
    assert (tmp_path / "m1/empty").is_dir()
    again = await bring(f"s3://{bucket}/model/m1{slash}", tmp_path, settings=signed(store))
    assert again == Summary(0, 2, 0)


async def test_a_whole_bucket_becomes_a_directory_of_its_name(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """As the worker is told: /downloads/<bucket>."""
    put(client, bucket, a=b"1", b__c=b"2")
    await bring(f"s3://{bucket}", tmp_path, settings=signed(store))
    assert tree(tmp_path) == {f"{bucket}/a": b"1", f"{bucket}/b/c": b"2"}


async def test_an_object_goes_before_a_directory_of_its_name(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """S3 can hold both; the slash at the end tells."""
    put(client, bucket, d=b"object", d__a=b"below")
    await bring(f"s3://{bucket}/d", tmp_path / "1", settings=signed(store))
    await bring(f"s3://{bucket}/d/", tmp_path / "2", settings=signed(store))
    assert tree(tmp_path) == {"1/d": b"object", "2/d/a": b"below"}


async def test_more_objects_than_a_page_lists(
    store: FileServer, client: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages are followed."""
    monkeypatch.setattr(s3, "PAGE_KEYS", 5)
    for number in range(13):
        client.put_object(Bucket=bucket, Key=f"d/{number:04}", Body=b"x")
    await bring(f"s3://{bucket}/d/", tmp_path, settings=signed(store))
    assert len(tree(tmp_path)) == 13
    assert len(store.of(f"/{bucket}")) == 3


async def test_odd_keys_become_files(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Spaces, percent signs, question marks and letters of the world."""
    names = ["a b", "100%", "q?x=1", "ü+&#", "trailing."]
    for name in names:
        client.put_object(Bucket=bucket, Key=f"d/{name}", Body=name.encode())
    await bring(f"s3://{bucket}/d/", tmp_path, settings=signed(store))
    assert tree(tmp_path) == {f"d/{name}": name.encode() for name in names}


async def test_a_key_that_leads_out_is_refused(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Whoever may write to the bucket must not write to the pod."""
    body = (
        '<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>'
        "<Contents><Key>d/../../evil</Key></Contents><Contents><Key>d/good</Key></Contents>"
        "<Contents><Key>d/.gm-storage-init/x</Key></Contents>"
        "</ListBucketResult>"
    )
    client.put_object(Bucket=bucket, Key="d/good", Body=b"good")
    store.fail(f"/{bucket}", Fault(status=200, body=body.encode()))
    failures = await failures_of(f"s3://{bucket}/d/", tmp_path / "x", settings=signed(store))
    assert "'..' in it and would leave the directory; rename it in the store" in failures[0]
    assert "kept for partial files" in failures[1]
    assert tree(tmp_path) == {"x/d/good": b"good"}


async def test_a_cut_object_goes_on_where_it_was(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """As any file; the checksum is that of both parts together."""
    client.put_object(Bucket=bucket, Key="f", Body=BIG)
    store.fail(f"/{bucket}/f", Fault(cut_after=MIB))
    summary = await bring(f"s3://{bucket}/f", tmp_path, settings=signed(store))
    assert tree(tmp_path) == {"f": BIG}
    assert summary.received_bytes == len(BIG)
    assert store.of(f"/{bucket}/f")[1].headers["If-Range"] == md5(BIG)


async def test_a_later_run_checks_what_an_earlier_one_left(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """A part that a power cut has damaged is found out by the checksum."""
    client.put_object(Bucket=bucket, Key="f", Body=BIG)
    store.fail(f"/{bucket}/f", Fault(cut_after=MIB))
    await failures_of(f"s3://{bucket}/f", tmp_path, settings=signed(store, attempts=1))
    (part,) = tmp_path.rglob("*.part")
    part.write_bytes(b"\0" * MIB)
    say = Lines()
    await bring(f"s3://{bucket}/f", tmp_path, settings=signed(store), say=say)
    assert tree(tmp_path) == {"f": BIG}
    assert "does not have the checksum that the store tells (ETag); trying again" in say.text


async def test_damaged_content_is_never_taken(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """The length is right, the checksum is not, each time."""
    client.put_object(Bucket=bucket, Key="f", Body=b"abc")
    damaged = Fault(status=200, headers={"ETag": md5(b"abc")}, body=b"abX")
    store.fail(f"/{bucket}/f", *[damaged] * 3)
    (failure,) = await failures_of(f"s3://{bucket}/f", tmp_path, settings=signed(store, attempts=3))
    assert "checksum that the store tells (ETag), after 3 attempts" in failure
    assert tree(tmp_path) == {}


async def test_an_object_of_several_parts_has_no_checksum_to_compare(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Its ETag is no MD5 of the content."""
    upload = client.create_multipart_upload(Bucket=bucket, Key="f")["UploadId"]
    parts = []
    for number, body in enumerate((b"x" * (5 * MIB), b"end"), start=1):
        told = client.upload_part(
            Bucket=bucket, Key="f", UploadId=upload, PartNumber=number, Body=body
        )
        parts.append({"ETag": told["ETag"], "PartNumber": number})
    client.complete_multipart_upload(
        Bucket=bucket, Key="f", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    await bring(f"s3://{bucket}/f", tmp_path, settings=signed(store))
    assert (tmp_path / "f").stat().st_size == 5 * MIB + 3


async def test_a_store_in_trouble_is_asked_again(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """List and object alike."""
    put(client, bucket, d__a=b"1")
    store.fail(f"/{bucket}", Fault(status=503, body=b"<Error><Code>SlowDown</Code></Error>"))
    store.fail(f"/{bucket}/d/a", Fault(status=500, body=b"<Error><Code>Internal</Code></Error>"))
    say = Lines()
    await bring(f"s3://{bucket}/d/", tmp_path, settings=signed(store), say=say)
    assert tree(tmp_path) == {"d/a": b"1"}
    assert f"s3://{bucket}/d/: the server answered 503 (SlowDown); trying again" in say.text
    assert f"s3://{bucket}/d/a: the server answered 500 (Internal); trying again" in say.text


async def test_what_is_not_there_is_told(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Object, directory, bucket."""
    for url in (f"s3://{bucket}/none", f"s3://{bucket}/none/", f"s3://{bucket}"):
        (failure,) = await failures_of(url, tmp_path, settings=signed(store))
        assert "there is no such object, and none below it; check the url" in failure
    (failure,) = await failures_of("s3://no-such-bucket/x", tmp_path, settings=signed(store))
    assert failure.startswith("s3://no-such-bucket/x: the server answered 404 (NoSuchBucket); ")


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "RequestTimeTooSkewed"])
async def test_a_refusal_is_told_with_the_stores_own_word(
    store: FileServer, client: Any, bucket: str, tmp_path: Path, code: str
) -> None:
    """Of the list, and of an object; the key that the store repeats is not shown."""
    put(client, bucket, d__a=b"1")
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>{ACCESS}</AWSAccessKeyId></Error>"
    refusal = Fault(status=403, body=body.encode())
    store.fail(f"/{bucket}", refusal)
    store.fail(f"/{bucket}/d/a", refusal)
    listed = await failures_of(f"s3://{bucket}/d/", tmp_path, settings=signed(store))
    fetched = await failures_of(f"s3://{bucket}/d/a", tmp_path, settings=signed(store))
    for (failure,), path in ((listed, "d/"), (fetched, "d/a")):
        assert failure.startswith(f"s3://{bucket}/{path}: the server answered 403 ({code}); check")
        assert "clock" in failure
        assert ACCESS not in failure


async def test_an_object_that_may_only_be_listed_is_refused_by_name(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """The answer to HEAD has no reason in it, the one to GET has."""
    put(client, bucket, k=b"1")
    denied = Fault(status=403, body=b"<Error><Code>AccessDenied</Code></Error>")
    store.fail(f"HEAD /{bucket}/k", Fault(status=403))
    store.fail(f"/{bucket}/k", denied)
    (failure,) = await failures_of(f"s3://{bucket}/k", tmp_path, settings=signed(store))
    assert failure.startswith(f"s3://{bucket}/k: the server answered 403 (AccessDenied); ")
    store.fail(f"HEAD /{bucket}/k", Fault(status=403))
    store.fail(f"/{bucket}", denied)
    (failure,) = await failures_of(f"s3://{bucket}/k", tmp_path, settings=signed(store))
    assert failure.startswith(f"s3://{bucket}/k: the server answered 403 (AccessDenied); ")


async def test_a_question_that_fails_is_asked_again(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """HEAD alike."""
    put(client, bucket, k=b"1")
    store.fail(f"HEAD /{bucket}/k", Fault(status=500))
    await bring(f"s3://{bucket}/k", tmp_path, settings=signed(store))
    assert tree(tmp_path) == {"k": b"1"}


async def test_a_wrong_region_is_told(store: FileServer, bucket: str, tmp_path: Path) -> None:
    """Of those that S3 answers with 400."""
    body = b"<Error><Code>AuthorizationHeaderMalformed</Code></Error>"
    store.fail(f"/{bucket}", *[Fault(status=400, body=body)] * 3)
    (failure,) = await failures_of(f"s3://{bucket}/d/", tmp_path, settings=signed(store))
    assert "400 (AuthorizationHeaderMalformed); check the store's endpoint, and its region" in (
        failure
    )


async def test_an_object_in_the_place_of_a_directory_is_told(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """S3 can hold both, a disk can not."""
    put(client, bucket, d__x=b"file", d__x__y=b"below")
    for _ in range(2):
        (failure,) = await failures_of(
            f"s3://{bucket}/d/", tmp_path, settings=signed(store, parallel=1)
        )
        assert failure.startswith(f"s3://{bucket}/d/x/y: {tmp_path}/d/x/y can not be written")
        assert "rename one" in failure
    put(client, bucket, e__x=b"file", e__x__=b"")
    (tmp_path / "e").mkdir()
    (tmp_path / "e/x").write_bytes(b"file")
    (failure,) = await failures_of(f"s3://{bucket}/e/", tmp_path, settings=signed(store))
    assert failure.startswith(f"s3://{bucket}/e/x/: {tmp_path}/e/x can not be written (file exis")


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (exceptions.ReadTimeoutError(endpoint_url="secret"), "can not be reached"),
        (exceptions.ConnectionClosedError(endpoint_url="secret"), "can not be reached"),
        (exceptions.ProxyConnectionError(proxy_url="secret", error="secret"), "not be reached"),
        (exceptions.SSLError(endpoint_url="secret", error="secret"), "no trusted TLS connection"),
        (exceptions.NoRegionError(), "the S3 client refuses the request (NoRegionError)"),
        (refusal(400, "SlowDown"), "the server answered 400 (SlowDown)"),
        (refusal(200, "<odd>"), "the server answered 200 in a way that makes no sense"),
    ],
)
def test_errors_of_the_client_become_ours(error: Exception, problem: str) -> None:
    """Without its texts: they may hold what is secret."""

    def call() -> None:
        raise error

    with pytest.raises((Transient, DownloadFailed)) as caught:
        s3._translated("s3://b/k", call)
    failure: Any = caught.value
    assert problem in failure.problem
    assert "secret" not in failure.problem + failure.advice


async def test_an_endpoint_that_the_client_can_not_use_is_told(
    store: FileServer, tmp_path: Path
) -> None:
    """By its variable."""
    settings = signed(store, endpoint_url="http://bad host")
    with pytest.raises(ConfigError, match="S3_ENDPOINT_URL: the S3 client can not use"):
        await Store(settings, Progress(Lines(), interval_seconds=1)).bucket("b")


async def test_without_credentials_nothing_is_signed(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """A public object can be read; a private one is refused by the store."""
    client.put_object(Bucket=bucket, Key="public", Body=b"1", ACL="public-read")
    client.put_object(Bucket=bucket, Key="private", Body=b"2", ACL="private")
    settings = quick(endpoint_url=store.url)
    await bring(f"s3://{bucket}/public", tmp_path, settings=settings)
    assert tree(tmp_path) == {"public": b"1"}
    (failure,) = await failures_of(f"s3://{bucket}/private", tmp_path, settings=settings)
    assert "403" in failure
    for request in store.requests:
        assert "Authorization" not in request.headers
        assert "Signature" not in request.path


async def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the annotation to look at."""
    async with FileServer().running() as gone:
        pass
    (failure,) = await failures_of("s3://b/k", tmp_path, settings=signed(gone, attempts=2))
    assert failure == (
        "s3://b/k: the store can not be reached, after 2 attempts without progress; check the "
        "store's endpoint (annotation s3-endpoint of the Secret) and this node's network"
    )


async def test_an_endpoint_that_is_no_store_is_told(server: FileServer, tmp_path: Path) -> None:
    """Such as a console's port."""
    server.put("/b", b"<R><Contents><Size>many</Size></Contents></R>")
    (failure,) = await failures_of("s3://b/", tmp_path, settings=signed(server, attempts=2))
    assert "what answers there is no S3 store, after 2 attempts without progress" in failure


async def test_a_name_that_can_be_no_bucket_is_told(store: FileServer, tmp_path: Path) -> None:
    """Without a request."""
    (failure,) = await failures_of("s3://~/k", tmp_path, settings=signed(store))
    assert "no valid bucket or key" in failure
    assert store.requests == []


async def test_the_region_is_that_of_the_settings(
    store: FileServer, client: Any, bucket: str, tmp_path: Path
) -> None:
    """Stores with regions of their own check it."""
    put(client, bucket, a=b"1")
    await bring(f"s3://{bucket}/a", tmp_path, settings=signed(store, region="eu-west-7"))
    (get,) = store.of(f"/{bucket}/a")
    assert "%2Feu-west-7%2Fs3%2Faws4_request" in get.path


async def test_aws_itself_is_spoken_to_by_bucket_and_region() -> None:
    """No endpoint: the client knows AWS's hosts."""
    settings = Settings(access_key=ACCESS, secret_key=SECRET, region="eu-central-1")
    store = Store(settings, Progress(Lines(), interval_seconds=1))
    link = (await store.bucket("my-bucket")).link("a b")
    store.close()
    assert link.startswith("https://my-bucket.s3.eu-central-1.amazonaws.com/a%20b?X-Amz-")


async def test_without_the_client_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, store: FileServer, tmp_path: Path
) -> None:
    """The package is optional."""
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ExceptionGroup) as caught:
        await bring("s3://b/k", tmp_path, settings=signed(store))
    leaf: BaseException = caught.value
    while isinstance(leaf, BaseExceptionGroup):
        (leaf,) = leaf.exceptions
    assert isinstance(leaf, ConfigError)
    assert "pip install botocore" in str(leaf)


def test_the_client_is_loaded_only_for_s3() -> None:
    """The command starts fast, and plain http needs no extra."""
    script = (
        "import sys, gm.cli, gm.storage_init;"
        "sys.exit(any(name.split('.')[0] == 'botocore' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
