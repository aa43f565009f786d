"""A person's own status line that hangs."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import BIN, allowed, wait_for

# No other process sleeps for so long.
SLEEP = "sleep 86317.5"


def sleepers() -> list[Path]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes() == SLEEP.replace(" ", "\0").encode() + b"\0":
                found.append(place)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("cancelled", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_status_line_that_hangs(sandbox, cancelled, record_property):
    """It is ended with all its children, after five seconds, or as soon as the client cancels."""
    began = time.monotonic()
    process = subprocess.Popen(
        [BIN / "handoff", "statusline", "--beside", f"{SLEEP} & {SLEEP}"],
        env=sandbox.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    wait_for(lambda: len(sleepers()) == 2, what="it hangs")
    if cancelled:
        process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=90)
    took = time.monotonic() - began
    wait_for(lambda: not sleepers(), what="nothing of it is left")
    assert cancelled or b"handoffd is not running" in said
    assert took < allowed(15)
    record_property("figure", f"{'cancelled' if cancelled else 'hanging'}: gone after {took:.1f} s")
