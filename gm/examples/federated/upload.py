"""Puts the example's data into an S3-compatible store: what `job-s3.yaml` trains on.

``python -m gm.examples.federated.upload --endpoint URL`` makes the bucket if it is missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gm.examples.federated.prepare import DATASET_URL, HELDOUT_URL, NODES, missing_packages, prepare

__all__ = ["BUCKET", "ENDPOINT", "main", "upload"]

ENDPOINT = "http://127.0.0.1:9090"
"""Where `examples/federated-learning/job-s3.yaml` looks for the store."""
BUCKET = "digits"
ACCESS_KEY_ID, SECRET_ACCESS_KEY = "example", "example-secret"
"""The keys in the Secret of `job-s3.yaml`; a local moto server takes any."""


def upload(endpoint: str, bucket: str, environ: Mapping[str, str]) -> list[str]:
    """Upload the data of each edge node; gives the URLs that Datasets name.

    Keys come from ACCESS_KEY_ID and SECRET_ACCESS_KEY in ``environ``, else the example's.
    Raises: what botocore raises.
    """
    client = _client(endpoint, environ)
    if bucket not in {known["Name"] for known in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=bucket)
    with tempfile.TemporaryDirectory() as directory:
        prepare(Path(directory))
        for node in NODES:
            for url in (DATASET_URL, HELDOUT_URL):
                path = Path(directory, node, url.lstrip("/"))
                client.put_object(Bucket=bucket, Key=f"{node}/{path.name}", Body=path.read_bytes())
    return [f"s3://{bucket}/{node}/" for node in NODES]


def _client(endpoint: str, environ: Mapping[str, str]) -> Any:
    import botocore.session
    from botocore.config import Config

    return botocore.session.Session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name=environ.get("AWS_REGION") or "us-east-1",
        aws_access_key_id=environ.get("ACCESS_KEY_ID") or ACCESS_KEY_ID,
        aws_secret_access_key=environ.get("SECRET_ACCESS_KEY") or SECRET_ACCESS_KEY,
        config=Config(
            s3={"addressing_style": "path"}, connect_timeout=10, retries={"max_attempts": 2}
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m gm.examples.federated.upload",
        description="Put the example's data into an S3-compatible store.",
        epilog="keys: ACCESS_KEY_ID and SECRET_ACCESS_KEY, else those of job-s3.yaml",
    )
    parser.add_argument(
        "--endpoint", default=ENDPOINT, metavar="URL", help=f"the store ({ENDPOINT})"
    )
    parser.add_argument("--bucket", default=BUCKET, metavar="NAME", help=f"bucket ({BUCKET})")
    arguments = parser.parse_args(argv)
    if missing := missing_packages():
        parser.error(f"{' and '.join(missing)} are needed: pip install {' '.join(missing)}")
    if importlib.util.find_spec("botocore") is None:
        parser.error("botocore is needed: pip install botocore")
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        urls = upload(arguments.endpoint, arguments.bucket, os.environ)
    except (BotoCoreError, ClientError, ValueError) as exc:
        problem = " ".join(str(exc).split())
        sys.stderr.write(f"error: can not upload to {arguments.endpoint}: {problem}\n")
        return 1
    for url in urls:
        sys.stdout.write(f"{url}: train.npz and heldout.npz, at {arguments.endpoint}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
