"""What a container said when it ended: its exit code, and the last line of its message.

Where a template does not say otherwise its containers get the policy FallbackToLogsOnError, so a
kubelet takes the end of the log as the message of a container that failed without writing one.
"""

from __future__ import annotations

import re

from gm.api.core import ContainerStatus, Terminated

__all__ = ["ended_with", "last_words"]

_MAX_CHARACTERS = 400

# A log may hold anything, but what obviously is a credential must not reach a job's status.
_AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_ASSIGNED = re.compile(
    r"(?i)([\w.-]*(?:secret|password|passwd|token|access_?key|credential|signature)[\w.-]*"
    r"[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)"
)
_USER_INFO = re.compile(r"(://)[^/\s@]+@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def ended_with(status: ContainerStatus) -> Terminated | None:
    """How the container ended last, if it ever did."""
    for state in (status.state, status.last_state):
        if state is not None and state.terminated is not None:
            return state.terminated
    return None


def last_words(ended: Terminated) -> str:
    """Exit code and the message's last line, short and without credentials."""
    code = f"exit code {ended.exit_code}"
    lines = [line for line in (ended.message or "").splitlines() if line.strip()]
    if not lines:
        return code
    line = _CONTROL.sub(" ", lines[-1]).strip()
    line = _USER_INFO.sub(r"\1***@", line)
    line = _ASSIGNED.sub(r"\1***", _AUTHORIZATION.sub(r"\1 ***", line))
    if len(line) > _MAX_CHARACTERS:
        line = line[: _MAX_CHARACTERS - 3] + "..."
    return f"{code}: {line}"
