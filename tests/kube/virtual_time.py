"""Async tests in a loop whose time jumps."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from tests.fakes.kube_clock import run_in_virtual_time

Test = Callable[..., Coroutine[Any, Any, None]]


def virtual_time(test: Test) -> Callable[..., None]:
    """Run an async test in a loop whose time jumps; for tests without sockets."""

    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        run_in_virtual_time(test(*args, **kwargs))

    wrapper.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return wrapper
