"""The data in a store: what job-s3.yaml names, uploaded again at will, errors in one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import botocore.session
import pytest
import yaml
from botocore.config import Config

from gm.examples.federated import upload as module
from gm.examples.federated.upload import ENDPOINT, main
from tests.storage_init.support import s3_server

MANIFEST = Path(__file__).parents[2] / "examples/federated-learning/job-s3.yaml"


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """URL of an S3-compatible server."""
    with s3_server() as url:
        yield url


def keys(store: str, bucket: str) -> list[str]:
    """What lies in ``bucket``."""
    client = botocore.session.Session().create_client(
        "s3",
        endpoint_url=store,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(s3={"addressing_style": "path"}),
    )
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket)["Contents"]]


def test_what_is_uploaded_is_what_the_manifest_names(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bucket, directories and files; a second upload replaces the first."""
    for _ in range(2):
        assert main(["--endpoint", store]) == 0
    told = [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()][:2]
    secret, *datasets, _, _ = yaml.safe_load_all(MANIFEST.read_text())
    assert [dataset["spec"]["url"] for dataset in datasets] == told
    bucket = urlsplit(told[0]).netloc
    assert keys(store, bucket) == [
        *("edge1/heldout.npz", "edge1/train.npz"),
        *("edge2/heldout.npz", "edge2/train.npz"),
    ]
    for dataset in datasets:
        assert dataset["spec"]["credentialName"] == secret["metadata"]["name"]


def test_endpoint_and_keys_of_the_manifest_are_the_defaults() -> None:
    """So that the commands of the README work as they stand."""
    secret = next(yaml.safe_load_all(MANIFEST.read_text()))
    scheme = "http" if secret["metadata"]["annotations"]["s3-usehttps"] == "0" else "https"
    assert f"{scheme}://{secret['metadata']['annotations']['s3-endpoint']}" == ENDPOINT
    assert secret["stringData"] == {
        "ACCESS_KEY_ID": module.ACCESS_KEY_ID,
        "SECRET_ACCESS_KEY": module.SECRET_ACCESS_KEY,
    }


def test_jobs_differ_from_the_example_in_names_and_datasets_only() -> None:
    """What is learnt about one holds for the other."""
    text = MANIFEST.with_name("job.yaml").read_text()
    job = list(yaml.safe_load_all(text))[-1]
    other = list(yaml.safe_load_all(MANIFEST.read_text()))[-1]
    renamed = yaml.safe_dump(job).replace("fl-digits", "fl-digits-s3")
    assert yaml.safe_dump(other) == renamed.replace("digits-edge", "digits-s3-edge")


def test_errors_are_one_line(
    store: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store there, a bucket that can not be, packages that are missing."""
    assert main(["--endpoint", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err.startswith("error: can not upload to http://127.0.0.1:9: ")
    assert main(["--endpoint", "nonsense"]) == 1
    assert main(["--endpoint", store, "--bucket", "No Bucket"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        main([])
    assert "pip install numpy scikit-learn" in capsys.readouterr().err
    monkeypatch.setattr(module, "missing_packages", list)
    with pytest.raises(SystemExit):
        main([])
    assert "pip install botocore" in capsys.readouterr().err
