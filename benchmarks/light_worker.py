"""A worker of a second or so, for the chaos run: ``light_worker.py aggregate|train``.

It keeps the worker contract where that shows mistakes of GM: trainers find the aggregator under
AGG_IP and AGG_PORT, tell it WORKER_NAME, wait for its word, and report to the LC; the aggregator
waits for PARTICIPANTS_COUNT different trainers. Each start and end becomes a line of the file
JOURNAL. Only the standard library, so that a start costs little.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import sys
import threading
import time
from urllib.parse import urlsplit

_WORK_SECONDS = 0.8
_PATIENCE_SECONDS = 120.0
_LC_SECONDS = 3.0


def note(what: str) -> None:
    """Write a line to the journal; one write, so that lines of many processes stay whole."""
    line = f"{what} {os.environ['JOB_NAME']} {os.environ['WORKER_NAME']} {os.getpid()}\n"
    with open(os.environ["JOURNAL"], "ab", buffering=0) as journal:
        journal.write(line.encode())


def aggregate() -> None:
    """Wait for all trainers, work a while, and send them home."""
    wanted = int(os.environ["PARTICIPANTS_COUNT"])
    trainers: dict[bytes, socket.socket] = {}
    address = os.environ.get("POD_IP") or "0.0.0.0", int(os.environ["AGG_BIND_PORT"])
    with socket.create_server(address) as server:
        server.settimeout(_PATIENCE_SECONDS)
        while len(trainers) < wanted:
            connection, _ = server.accept()
            connection.settimeout(_PATIENCE_SECONDS)
            with contextlib.suppress(OSError):
                # a trainer that was restarted comes again under its name
                if name := connection.makefile("rb").readline():
                    trainers[name] = connection
        time.sleep(_WORK_SECONDS)
        for connection in trainers.values():
            with contextlib.suppress(OSError):
                connection.sendall(b"done\n")
                connection.close()


def train() -> None:
    """Join the aggregator, wait for its word, and report."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    address = os.environ["AGG_IP"], int(os.environ["AGG_PORT"])
    while True:
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=5) as link:
            link.settimeout(_PATIENCE_SECONDS)
            link.sendall(f"{os.environ['WORKER_NAME']}\n".encode())
            if link.makefile("rb").readline() == b"done\n":
                break
        if time.monotonic() > deadline:
            sys.exit("the aggregator can not be reached")
        time.sleep(0.1)
    # the LC may wait for a GM that is dead just now: its answer is not what this is about
    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    reporter.join(_LC_SECONDS)


def report() -> None:
    """Tell the LC that a round is done, as a worker library does."""
    environ = os.environ
    name = environ["WORKER_NAME"]
    body = {
        "name": name,
        "namespace": environ["NAMESPACE"],
        "ownerName": environ["JOB_NAME"],
        "ownerKind": "federatedlearningjob",
        "ownerInfo": {"currentRound": 1, "sampleCount": 1},
        "kind": "train",
        "status": "completed",
        "results": [],
    }
    server = urlsplit(environ["LC_SERVER"])
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(
            server.hostname or "", server.port or 80, timeout=_LC_SECONDS
        )
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/sedna/workers/{name}/info", json.dumps(body), headers)
        connection.getresponse().read()


if __name__ == "__main__":
    note("start")
    {"aggregate": aggregate, "train": train}[sys.argv[1]]()
    note("end")
