"""docs/protocol.md says what the code does, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from gm.messagelayer import DOWN, HELLO_V1, UP, WireKey, decode_v1, encode_v1, v2
from gm.messagelayer.session import NODE_GONE, REPLACED, REVOKED, SUPERSEDED
from gm.messagelayer.session_v2 import REPORT_WINDOW

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
PAIRS = re.findall(r"```json\n(.*?)\n```\n```hex\n(.*?)\n```", TEXT, re.DOTALL)
V1 = re.findall(r"```v1-(?:down|up) (\w+) (.*?)\n(.*?)\n```", TEXT)
FROM_EDGE = ("hello", "ack", "refused", "report")


@pytest.mark.parametrize(("example", "encoded"), PAIRS)
def test_v2_example_is_what_is_sent_and_understood(example: str, encoded: str) -> None:
    """The bytes decode to what the JSON shows, and our encoder gives the same bytes."""
    payload = bytes.fromhex(encoded.replace("\n", " "))
    shown = msgspec.json.decode(example)
    decode = v2.decode_from_edge if shown["type"] in FROM_EDGE else v2.decode_from_gm
    assert v2.encode_v2(decode(payload)) == payload
    plain = msgspec.msgpack.decode(payload)
    if "content" in plain:
        plain["content"] = plain["content"].decode()
    assert plain == shown


def test_every_frame_of_v2_has_an_example() -> None:
    """Both directions."""
    shown = {msgspec.json.decode(example)["type"] for example, _ in PAIRS}
    types = {frame.__struct_config__.tag for frame in (*v2.FromEdge.__args__, *v2.FromGm.__args__)}
    assert shown == types


def test_v1_examples_are_what_is_sent_and_understood() -> None:
    """The hello, a frame down and one up."""
    assert f"```v1-hello\n{HELLO_V1.decode()}```" in TEXT
    assert len(V1) == 2
    for operation, content, frame in V1:
        key = WireKey("dataset", "default", "digits")
        assert encode_v1(key, operation, content.encode()).decode() == frame
        message = decode_v1(frame, operations=UP | DOWN)
        assert message is not None
        assert (message.key, message.operation) == (key, operation)
        assert message.content == content.encode()


def test_limits_and_close_codes_are_those_of_the_code() -> None:
    """Numbers that somebody else builds on."""
    codes = set(re.findall(r"^\| (4\d\d\d) \|", TEXT, re.MULTILINE))
    assert codes == {str(code) for code in (REPLACED, NODE_GONE, SUPERSEDED, REVOKED)}
    assert f'"reportWindow":{REPORT_WINDOW}' in TEXT
