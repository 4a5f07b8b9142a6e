"""The process between the runner and one container: nothing that it started outlives it.

Run by file name with ``python -I -S`` (no site-packages: a fast start and little memory), so only
the standard library is imported here, and nothing of this project.

- Standard input: one JSON line that says what to run (see `main`), then silence. Its end means
  "kill everything now", whether the runner closed it or died.
- SIGTERM is passed on to the container's main process.
- Standard output: JSON lines ``{"started": {...}}`` and ``{"exited": {...}}``, or
  ``{"failed": {...}}`` when there was nothing to execute. Their absence before the end of the
  stream means that the shim itself was killed.

The shim is a subreaper, so processes that lose their parent become its children. When the main
process ends, or the shim is told to stop, it kills children until it has none: killing a parent
hands over the grandchildren, so the loop ends only when everything below is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
KILL_ALL = signal.SIGUSR1
"""Sent by the kernel when the runner dies, and by the runner itself to end a container at once."""

_READ_BYTES = 65536
_LINE_BYTES = 16384  # longer lines are written in parts, marked P, as container runtimes do
_DRAIN_SECONDS = 1.0  # how long output may still trickle in after everything is dead
_LEFTOVERS_SECONDS = 0.002
_LEFTOVERS_MAX_SECONDS = 0.1


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _die_with(parent_pid: int, signum: int) -> bool:
    """Ask for ``signum`` when the parent ends; False when it is gone already."""
    _prctl(_PR_SET_PDEATHSIG, signum)
    # The parent may have died between the fork and the call above; then no signal ever comes.
    return os.getppid() == parent_pid


def _report(**fields: Any) -> None:
    data = (json.dumps(fields) + "\n").encode()
    with contextlib.suppress(OSError):  # the runner is gone: nobody left to tell
        while data:
            data = data[os.write(1, data) :]


class Log:
    """A log file in the runtimes' format: ``TIME stdout|stderr F|P text``, rotated once."""

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._pending = {"stdout": b"", "stderr": b""}
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def write(self, stream: str, data: bytes) -> None:
        """Add what a process wrote; text without a line end waits for the rest of its line.

        What comes in one piece gets one time: a chatty process costs no clock and no system call
        for each line.
        """
        *lines, rest = (self._pending[stream] + data).split(b"\n")
        texts: list[tuple[bytes, bytes]] = []
        for line in lines:
            while len(line) > _LINE_BYTES:
                texts.append((b"P", line[:_LINE_BYTES]))
                line = line[_LINE_BYTES:]
            texts.append((b"F", line))
        while len(rest) >= _LINE_BYTES:
            texts.append((b"P", rest[:_LINE_BYTES]))
            rest = rest[_LINE_BYTES:]
        self._pending[stream] = rest
        self._append(stream, texts)

    def _append(self, stream: str, texts: list[tuple[bytes, bytes]]) -> None:
        seconds, nanos = divmod(time.time_ns(), 1_000_000_000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        prefix = f"{stamp}.{nanos:09d}Z {stream} ".encode()
        buffer = bytearray()
        for tag, text in texts:
            entry = b"%s%s %s\n" % (prefix, tag, text)
            begun = self._size + len(buffer)
            if begun and begun + len(entry) > self._max_bytes:
                self._flush(buffer)
                self._rotate()
            buffer += entry
        self._flush(buffer)

    def _flush(self, buffer: bytearray) -> None:
        with contextlib.suppress(OSError):  # a full disk costs log lines, not the container
            while buffer:
                written = os.write(self._file, buffer)
                self._size += written
                del buffer[:written]
        buffer.clear()

    def _rotate(self) -> None:
        with contextlib.suppress(OSError):  # the pod's directory may be gone
            os.replace(self._path, self._path + ".1")
            old = self._file
            self._open()
            os.close(old)

    def close(self) -> None:
        """Write what waited for its line end, as a part of a line that never came."""
        for stream, rest in self._pending.items():
            if rest:
                self._append(stream, [(b"P", rest)])
        os.close(self._file)


def _execute(order: dict[str, Any], shim_pid: int, outputs: tuple[int, int], errors: int) -> None:
    """In the forked child: become the program, or write an errno to ``errors``; never returns."""
    argv: list[str] = order["argv"]
    try:
        if not _die_with(shim_pid, signal.SIGKILL):
            os._exit(127)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGTERM, signal.SIGCHLD, KILL_ALL, signal.SIGPIPE):
            signal.signal(signum, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        os.chdir(order["cwd"])
        os.execvpe(argv[0], argv, order["env"])  # noqa: S606 - the very purpose, and no shell
    except OSError as exc:
        os.write(errors, f"{exc.errno or 0} {exc.filename or argv[0]}".encode())
    except BaseException as exc:
        os.write(errors, f"0 {exc}".encode())
    finally:
        os._exit(127)


def _children() -> list[int]:
    """Process ids of all descendants, parents first, found by walking /proc."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                # The command in parentheses may hold anything, spaces and brackets included.
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    parents.pop(os.getpid(), None)  # read one after the other they might make a ring, but for this
    below: list[int] = []
    frontier = {os.getpid()}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        below += sorted(frontier, key=lambda pid: pid != Shim.main_pid)
    return below


def kill_everything() -> int | None:
    """Kill and reap all descendants, also those that fork meanwhile.

    The main process first: a shell whose child is killed before it would end by itself, and tell
    another story.

    Returns: the wait status of the main process if it was among them, else None.
    """
    main_status: int | None = None
    pause = _LEFTOVERS_SECONDS
    while True:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == Shim.main_pid:
                    main_status = status
        except ChildProcessError:
            return main_status
        time.sleep(pause)
        pause = min(pause * 2, _LEFTOVERS_MAX_SECONDS)  # one in a system call may take its time


class Shim:
    """Starts the main process and watches it, its output and the runner."""

    main_pid = -1

    def __init__(self, order: dict[str, Any], wakeup: int) -> None:
        self._order, self._wakeup = order, wakeup
        self._log = Log(order["log"], order["log_max_bytes"])
        self._streams: dict[int, str] = {}
        self.terminations = 0  # SIGTERMs not yet passed on
        self.told_to_kill = False

    def on_signal(self, signum: int, _frame: object) -> None:
        """Remember what came; `run` acts on it."""
        if signum == signal.SIGTERM:
            self.terminations += 1
        elif signum == KILL_ALL:
            self.told_to_kill = True

    def start(self) -> bool:
        """Execute the order; False, with the reason reported, if that is not possible."""
        outs = [os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)]
        errors = os.pipe2(os.O_CLOEXEC)
        shim_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            _execute(self._order, shim_pid, (outs[0][1], outs[1][1]), errors[1])
        Shim.main_pid = pid
        for end in (outs[0][1], outs[1][1], errors[1]):
            os.close(end)
        self._streams = {outs[0][0]: "stdout", outs[1][0]: "stderr"}
        problem = os.read(errors[0], 4096)  # ends when exec succeeded: close-on-exec
        os.close(errors[0])
        if problem:
            number, _, what = problem.decode(errors="replace").partition(" ")
            _report(failed={"errno": int(number), "message": self._why(int(number), what)})
            return False
        _report(started={"pid": pid, "at": time.time()})
        return True

    def _why(self, number: int, what: str) -> str:
        program, cwd = self._order["argv"][0], self._order["cwd"]
        if number == errno.ENOENT and what != cwd and "/" not in program:
            return f'exec: "{program}": executable file not found in $PATH'
        return f'exec: "{program}": {what}: {os.strerror(number).lower() if number else "failed"}'

    def run(self) -> None:
        """Serve until the main process ended or everything must die; report how it ended."""
        poll = select.poll()
        for fd in (0, self._wakeup, *self._streams):
            poll.register(fd, select.POLLIN | select.POLLHUP)
        status: int | None = None
        while status is None:
            for fd, _ in poll.poll():
                if fd == 0:
                    self.told_to_kill |= not os.read(0, _READ_BYTES)
                elif fd == self._wakeup:
                    os.read(fd, _READ_BYTES)
                elif not self._copy(fd):
                    poll.unregister(fd)
            if self.told_to_kill:
                break
            self._pass_on_terminations()
            status = self._reap()
        finished = time.time()
        below = kill_everything()
        self._drain()
        self._log.close()
        _report(
            exited={"code": _exit_code(status if status is not None else below), "at": finished}
        )

    def _pass_on_terminations(self) -> None:
        while self.terminations:
            self.terminations -= 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(Shim.main_pid, signal.SIGTERM)

    def _copy(self, fd: int) -> bool:
        """Move output to the log; False when that stream has ended."""
        data = os.read(fd, _READ_BYTES)
        if data:
            self._log.write(self._streams[fd], data)
            return True
        os.close(fd)
        del self._streams[fd]
        return False

    def _reap(self) -> int | None:
        """Collect the dead; the wait status of the main process once it is among them."""
        main_status: int | None = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == Shim.main_pid:
                    main_status = status
        return main_status

    def _drain(self) -> None:
        """Read what the dead still left in the pipes, boundedly: a stranger may hold an end."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._streams:
            left = deadline - time.monotonic()
            ready, _, _ = select.select(list(self._streams), [], [], max(0.0, left))
            if not ready:
                return
            for fd in ready:
                self._copy(fd)


def _exit_code(status: int | None) -> int:
    """Exit code as a shell would tell it: 128 and the number for a signal."""
    if status is None:  # it had been reaped before: only a kill leads here
        return 128 + signal.SIGKILL
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _read_order() -> dict[str, Any] | None:
    """The first line of standard input; None if the runner died before it was complete."""
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(0, _READ_BYTES)
        if not more:
            return None
        data += more
    order: dict[str, Any] = json.loads(data)
    return order


def main(parent_pid: int) -> None:
    """Run the order that comes in on standard input.

    Its fields: ``argv``, ``env``, ``cwd``, ``log`` (path) and ``log_max_bytes``. It comes this way
    since a command line is public and an environment may hold Secrets.
    """
    wakeup, wakeup_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    # Until the order is there, dying by these signals is right: nothing was started yet.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if not _die_with(parent_pid, signal.SIGKILL):
        return
    order = _read_order()
    if order is None:
        return
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    shim = Shim(order, wakeup)
    for signum in (signal.SIGTERM, signal.SIGCHLD, KILL_ALL):
        signal.signal(signum, shim.on_signal)
    if not _die_with(parent_pid, KILL_ALL):
        return
    if shim.start():
        shim.run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
