"""Writing a checkpoint by the library, over a bare durable write of the same bytes."""

import os
import time
from pathlib import Path

from measure import Table, ratio_row, seconds
from world import World

import handoff

SAVE_MOST = 2.0


def measure(table: Table, runs: int) -> None:
    with World() as world:
        project = world.project("shop", git=True)
        ours, floor = [], []
        for number in range(-5, runs):
            started = _clocks()
            path = handoff.save_handoff(_checkpoint(number), project)
            saved = _clocks()
            data = path.read_bytes()
            begun = _clocks()
            write_durably(path.parent, "bare.yaml", data)
            ended = _clocks()
            if number >= 0:  # the first rounds warm up
                ours.append([end - start for start, end in zip(started, saved, strict=True)])
                floor.append([end - start for start, end in zip(begun, ended, strict=True)])
    what = f"save_handoff, {len(data)} bytes"
    wall, processor = map(list, zip(*ours, strict=True))
    bare_wall, bare_processor = map(list, zip(*floor, strict=True))
    table.times(f"{what}: wall", wall, bare_wall, SAVE_MOST)
    # While others use the disk, both wait for it and seem alike; the fastest run had it alone.
    fastest, bare_fastest = min(wall), min(bare_wall)
    figures = seconds(fastest), seconds(bare_fastest), fastest / bare_fastest
    table.add(ratio_row(f"{what}: wall, fastest", *figures, SAVE_MOST))
    table.times(f"{what}: processor", processor, bare_processor)


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _checkpoint(number: int) -> dict:
    """Return a checkpoint of ordinary size that says something new each time."""
    return {
        "goal": "Make the cart survive a reload, on every browser that we support",
        "status": "in_progress",
        "now": f"Step {number}: reading the stored items again and comparing them",
        "hypothesis": "The session cookie is set after the first request was answered",
        "outcome": None,
        "files": [f"source/cart/part{number + index}.py" for index in range(12)],
        "branch": "main",
        "session_id": "00000000-0000-4000-8000-000000000000",
    }


def write_durably(directory: Path, name: str, data: bytes) -> None:
    """Write as little as a durable write can be: temporary file, fsync, rename, fsync."""
    parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        handle = os.open("bare.tmp", flags, 0o600, dir_fd=parent)
        os.write(handle, data)
        os.fsync(handle)
        os.close(handle)
        os.rename("bare.tmp", name, src_dir_fd=parent, dst_dir_fd=parent)
        os.fsync(parent)
    finally:
        os.close(parent)
