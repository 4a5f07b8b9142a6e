"""The message layer: wire formats, sessions without I/O, the hub and its server."""

from __future__ import annotations

from gm.messagelayer.hub import Hub, NodeStatus, Onlooker
from gm.messagelayer.message import (
    DELETE,
    DOWN,
    HELLO_V1,
    INSERT,
    KINDS,
    STATUS,
    UP,
    Desired,
    MalformedFrame,
    Report,
    UnknownType,
    V1Message,
    WireKey,
    decode_v1,
    encode_v1,
)
from gm.messagelayer.record import Claim, Holder, MemoryRecord, Record
from gm.messagelayer.reports import ReportLimits
from gm.messagelayer.server import Server
from gm.messagelayer.session import Timing
from gm.messagelayer.shards import ShardConflict, ShardedRecord, ShardStore

__all__ = [
    "DELETE",
    "DOWN",
    "HELLO_V1",
    "INSERT",
    "KINDS",
    "STATUS",
    "UP",
    "Claim",
    "Desired",
    "Holder",
    "Hub",
    "MalformedFrame",
    "MemoryRecord",
    "NodeStatus",
    "Onlooker",
    "Record",
    "Report",
    "ReportLimits",
    "Server",
    "ShardConflict",
    "ShardStore",
    "ShardedRecord",
    "Timing",
    "UnknownType",
    "V1Message",
    "WireKey",
    "decode_v1",
    "encode_v1",
]
