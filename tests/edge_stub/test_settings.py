"""Settings are refused with the flag, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gm.edge_stub.settings import EdgeSettings, parse_images, parse_listen
from gm.errors import ConfigError


def settings(**changes: Any) -> EdgeSettings:
    """Good ones, but for ``changes``."""
    good: dict[str, Any] = {
        "node": "edge1",
        "gm": "ws://gm:9000",
        "root": Path("/"),
        "state": Path("/var/lib/gm"),
    }
    return EdgeSettings(**{**good, **changes})


def test_worker_api_listens_where_gm_expects_it() -> None:
    """The default of GM's localController.server."""
    assert (settings().listen_host, settings().listen_port) == ("127.0.0.1", 9100)


@pytest.mark.parametrize("url", ["ws://10.0.0.1:9000", "ws://gm.example", "wss://[::1]:443/path"])
def test_gm_may_be_a_name_or_an_address_P1_047(url: str) -> None:
    """With or without a port, with or without TLS."""
    assert settings(gm=url).gm == url


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node": ""}, "--name '': want a node name"),
        ({"node": "Edge_1"}, "--name 'Edge_1': want a node name"),
        ({"node": "a" * 254}, "want a node name"),
        ({"gm": "gm:9000"}, "--gm 'gm:9000': want ws://HOST:PORT"),
        ({"gm": "http://gm:9000"}, "want ws://HOST:PORT or wss://HOST:PORT"),
        ({"gm": "ws://"}, "want ws://HOST:PORT"),
        ({"gm": "ws://gm:99999"}, "want ws://HOST:PORT"),
        ({"listen": "9100"}, "--listen '9100': want ADDRESS:PORT"),
        ({"listen": "localhost:9100"}, "want ADDRESS:PORT with an IP address"),
        ({"listen": "127.0.0.1:70000"}, "want ADDRESS:PORT"),
    ],
)
def test_what_can_not_work_is_refused(changes: dict[str, Any], message: str) -> None:
    """At the start, in one line."""
    with pytest.raises(ConfigError) as caught:
        settings(**changes)
    assert message in str(caught.value)


def test_listen_takes_ipv6() -> None:
    """In brackets, as in URLs."""
    assert parse_listen("[::1]:9100") == ("::1", 9100)


def test_images_map_to_commands_as_a_shell_splits_them() -> None:
    """The name may have a tag and a registry with a port."""
    assert parse_images(["host:5000/me/train:v1=python -m 'my train'"]) == {
        "host:5000/me/train:v1": ("python", "-m", "my train")
    }


@pytest.mark.parametrize("flag", ["", "image", "image=", "=python", "image='open"])
def test_image_without_command_is_refused(flag: str) -> None:
    """With what is wanted."""
    with pytest.raises(ConfigError, match="--image"):
        parse_images([flag])
