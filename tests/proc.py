"""Measurements of a process from /proc: for tests, and for the benchmarks."""

import contextlib
import os
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads, to the nanosecond (stat has ticks of 10 ms)."""
    return sum(int(_read(f"{task}/schedstat").split()[0]) for task in _tasks(pid)) / 1e9


def switches(pid: int) -> dict[str, int]:
    """Return the number of times that each thread went to sleep, and so was woken again.

    To be put aside for another program, which the kernel counts apart, is no wake-up of ours.
    """
    return {str(task): _field(f"{task}/status", "voluntary_ctxt_switches:") for task in _tasks(pid)}


def memory_bytes(pid: int) -> tuple[int, int]:
    """Return the resident and the proportional set size."""
    resident = _field(f"/proc/{pid}/status", "VmRSS:")
    return resident * 1024, _field(f"/proc/{pid}/smaps_rollup", "Pss:") * 1024


def threads(pid: int) -> int:
    return len(_tasks(pid))


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid: int) -> list[int]:
    """Return the processes that it has started and that have not been waited for."""
    found = []
    for task in _tasks(pid):
        with contextlib.suppress(FileNotFoundError):  # the thread is over
            found += [int(child) for child in _read(f"{task}/children").split()]
    return found


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def _read(path: str) -> str:
    with open(path) as stream:
        return stream.read()


def _field(path: str, name: str) -> int:
    lines = (line.split() for line in _read(path).splitlines())
    return next(int(words[1]) for words in lines if words and words[0] == name)
