"""WORKER_NAME: what a worker calls itself when it reports; GM and LC both can compute it."""

from __future__ import annotations

import hashlib

__all__ = ["AGGREGATION", "TRAIN", "short_hash", "worker_name"]

AGGREGATION = "aggregation"
TRAIN = "train"

_PREFIX = {AGGREGATION: "aggworker", TRAIN: "trainworker"}
# Kubernetes' alphabet for random suffixes: no vowels, no look-alikes
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def short_hash(text: str, *, length: int = 5) -> str:
    """``length`` characters that depend on ``text`` alone, fit for a Kubernetes name."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest())
    characters = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)


def worker_name(uid: str, role: str, index: int = 0) -> str:
    """WORKER_NAME of worker ``index`` of ``role`` in the job with ``uid``.

    Stable for the life of the job, whatever happens to the worker's pods. ``role`` is the
    worker-type label: ``aggregation``, ``train``, or another kind's, which is its own prefix.
    """
    return f"{_PREFIX.get(role, role + 'worker')}-{short_hash(f'{uid}/{role}/{index}')}"
