"""Fixtures: a file server that goes wrong as told, and an S3-compatible store."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config

from tests.storage_init.support import ACCESS, SECRET, FileServer, s3_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[FileServer]:
    """Files over HTTP, for a client that writes to ``tmp_path``."""
    async with FileServer().running() as running:
        running.directory = tmp_path
        yield running


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """The store; buckets tell tests apart."""
    with s3_server() as url:
        yield url


@pytest.fixture
async def store(s3_url: str, tmp_path: Path) -> AsyncIterator[FileServer]:
    """The store as clients reach it: through a server that goes wrong as told."""
    async with FileServer(upstream=s3_url).running() as running:
        running.directory = tmp_path
        yield running


@pytest.fixture(scope="session")
def client(s3_url: str) -> Any:
    """A client that fills the store."""
    return botocore.session.Session().create_client(
        "s3",
        endpoint_url=s3_url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
        config=Config(s3={"addressing_style": "path"}),
    )


@pytest.fixture
def bucket(client: Any) -> str:
    """A new bucket."""
    name = f"b-{secrets.token_hex(6)}"
    client.create_bucket(Bucket=name)
    return name
