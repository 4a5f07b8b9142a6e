"""A child process that can not outlive its parent, however the parent dies."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

__all__ = ["LIFELINE", "adopt", "die_with"]

LIFELINE = "GM_LIFELINE"
"""Environment variable ``<parent pid>:<ready fd>`` that a supervisor gives its children."""

_PR_SET_PDEATHSIG = 1


def adopt() -> Callable[[], None]:
    """Tie this process to the supervisor that started it, if one did.

    Returns: what to call, once, when the program is ready. The variable leaves the environment, so
    that this program's own children are nobody's business but its own.
    """
    value = os.environ.pop(LIFELINE, None)
    if value is None:
        return lambda: None
    parent_pid, ready_fd = map(int, value.split(":"))
    die_with(parent_pid)
    os.set_inheritable(ready_fd, False)

    def ready() -> None:
        os.write(ready_fd, b"1")
        os.close(ready_fd)

    return ready


def die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when ``parent_pid`` ends, also by ``kill -9``.

    Called by the child itself, early. The signal comes when the *thread* that forked ends, so the
    parent must fork from its main thread. Linux only, see prctl(2).

    Raises: SystemExit if the parent is gone already.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # The parent may have died between the fork and the call above; then no signal comes.
    if os.getppid() != parent_pid:
        raise SystemExit(1)
