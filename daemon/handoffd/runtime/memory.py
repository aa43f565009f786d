"""Returns unused memory of the C library to the kernel. Without glibc nothing is done."""

import sys
from functools import cache
from typing import Any

# From glibc's malloc.h.
_M_ARENA_MAX = -8


def use_one_heap() -> None:
    """Let all threads share one heap: separate heaps would each keep their peak size."""
    if mallopt := _function("mallopt"):
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Return free pages to the kernel: reading leaves some, and an idle daemon needs none."""
    if trim := _function("malloc_trim"):
        trim(0)


@cache
def _function(name: str) -> Any:
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  on Linux the file observer has loaded it already

    return getattr(ctypes.CDLL(None), name, None)  # musl has neither function
