"""Names of children: deterministic, so that a stale cache can not create one twice."""

from __future__ import annotations

import re

from gm.api.worker_names import short_hash

__all__ = ["label_value", "pod_name", "service_name", "shortened"]

_MAX = 63  # longest label value, DNS-1035 name, and host name of a pod
_HASH = 8
_NOT_LABEL = re.compile(r"[^A-Za-z0-9._-]")


def shortened(text: str, *, limit: int = _MAX) -> str:
    """``text`` if it has at most ``limit`` characters, else its beginning and a hash of it all."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - _HASH - 1].rstrip('-._')}-{short_hash(text, length=_HASH)}"


def label_value(text: str) -> str:
    """``text`` as a label value: at most 63 characters of those that labels allow.

    Object names are up to 253 characters long, labels are not.
    """
    clean = _NOT_LABEL.sub("-", text).strip("-._")
    if clean == text:
        return shortened(text)
    readable = clean[: _MAX - _HASH - 1].rstrip("-._")
    return "-".join(filter(None, (readable, short_hash(text, length=_HASH))))


def pod_name(owner: str, suffix: str) -> str:
    """``<owner>-<suffix>``, shortened with a hash beyond 63 characters.

    Pod names may be longer, but a pod's host name is its name cut off at 63.
    """
    name = f"{owner}-{suffix}"
    if len(name) <= _MAX:
        return name
    # the suffix stays whole: it says which worker this is, and keeps siblings apart
    room = _MAX - len(suffix) - _HASH - 2
    return f"{owner[:room].rstrip('-.')}-{short_hash(owner, length=_HASH)}-{suffix}"


def service_name(owner: str, suffix: str) -> str:
    """``<owner>-<suffix>`` as a DNS-1035 label, which Service names must be.

    ``x`` goes before a leading digit, dots become dashes, and whatever was changed gets a hash,
    so that ``a.b`` and ``a-b`` do not meet.
    """
    wanted = f"{owner}-{suffix}"
    clean = owner.replace(".", "-")
    if not clean[:1].isalpha():
        clean = "x" + clean
    if clean == owner:
        return pod_name(owner, suffix)
    room = _MAX - len(suffix) - _HASH - 2
    return f"{clean[:room].rstrip('-')}-{short_hash(wanted, length=_HASH)}-{suffix}"
