"""Memory that the C library keeps though nobody uses it. Without glibc nothing is done."""

import sys
from functools import cache
from typing import Any

# From its malloc.h.
_M_ARENA_MAX = -8


def use_one_heap() -> None:
    """Let all threads share a heap: each of them would keep the most that it ever needed."""
    if mallopt := _function("mallopt"):
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Return the pages that are free: reading leaves some, and waiting needs none."""
    if trim := _function("malloc_trim"):
        trim(0)


@cache
def _function(name: str) -> Any:
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  there the observer has it in memory already

    return getattr(ctypes.CDLL(None), name, None)  # musl has neither
