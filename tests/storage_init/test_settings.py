"""What the init container's environment says."""

from __future__ import annotations

import pytest

from gm.errors import ConfigError
from gm.storage_init import Settings


def test_an_empty_environment_reads_aws_anonymously() -> None:
    """Nothing is required."""
    settings = Settings.from_env({})
    assert (settings.endpoint_url, settings.access_key, settings.secret_key) == ("", "", "")
    assert (settings.region, settings.mark) == ("us-east-1", "@")


def test_what_gm_gives_is_read() -> None:
    """Names as in Sedna; a newline at the end of a key is no part of it."""
    settings = Settings.from_env(
        {
            "S3_ENDPOINT_URL": "http://minio.example.com:9000/",
            "ACCESS_KEY_ID": "AKEXAMPLE\n",
            "SECRET_ACCESS_KEY": " topsecret\n",
            "INDIRECT_URL_MARK": "#",
            "AWS_REGION": "eu-west-7",
            "SSL_CERT_FILE": "/ca.pem",
        }
    )
    assert settings.endpoint_url == "http://minio.example.com:9000"
    assert (settings.access_key, settings.secret_key) == ("AKEXAMPLE", "topsecret")
    assert (settings.mark, settings.region, settings.ca_file) == ("#", "eu-west-7", "/ca.pem")


@pytest.mark.parametrize(
    ("endpoint", "url", "region"),
    [
        ("minio:9000", "https://minio:9000", "us-east-1"),
        ("https://s3.amazonaws.com", "", "us-east-1"),
        ("https://s3.eu-central-1.amazonaws.com", "", "eu-central-1"),
        ("https://s3-eu-west-1.amazonaws.com/", "", "eu-west-1"),
        ("https://s3.cn-north-1.amazonaws.com.cn", "", "cn-north-1"),
        ("http://s3.amazonaws.com", "http://s3.amazonaws.com", "us-east-1"),
        ("https://[::1]:9000", "https://[::1]:9000", "us-east-1"),
    ],
)
def test_an_endpoint_is_a_store_or_aws(endpoint: str, url: str, region: str) -> None:
    """AWS's own hosts tell the region; without scheme it is https."""
    settings = Settings.from_env({"S3_ENDPOINT_URL": endpoint})
    assert (settings.endpoint_url, settings.region) == (url, region)


def test_the_region_that_is_named_wins() -> None:
    """AWS_REGION before AWS_DEFAULT_REGION before the host's."""
    environ = {"S3_ENDPOINT_URL": "https://s3.eu-west-1.amazonaws.com", "AWS_DEFAULT_REGION": "a"}
    assert Settings.from_env(environ).region == "a"
    assert Settings.from_env({**environ, "AWS_REGION": "b"}).region == "b"


@pytest.mark.parametrize(
    "endpoint",
    ["ftp://minio", "http://", "https://h:port", "http://key:secret@minio", "http://[::"],
)
def test_an_endpoint_that_is_none_is_told(endpoint: str) -> None:
    """With what is allowed, and without repeating what may be secret."""
    with pytest.raises(ConfigError, match=r"S3_ENDPOINT_URL.*allowed is http") as caught:
        Settings.from_env({"S3_ENDPOINT_URL": endpoint})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "missing"),
    [("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"), ("SECRET_ACCESS_KEY", "ACCESS_KEY_ID")],
)
def test_half_a_credential_is_told(given: str, missing: str) -> None:
    """It would be read anonymously otherwise, and refused for no visible reason."""
    with pytest.raises(ConfigError, match=f"{missing} is empty") as caught:
        Settings.from_env({given: "hidden"})
    assert "hidden" not in str(caught.value)


def test_settings_do_not_show_keys() -> None:
    """A repr reaches logs."""
    assert "hidden" not in repr(Settings(access_key="hidden", secret_key="hidden"))
