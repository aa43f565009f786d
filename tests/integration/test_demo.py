"""docs/demo.py, which a newcomer runs first, and the pictures that are made from the same scene."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import REPOSITORY, allowed

pytestmark = pytest.mark.quick

PROMISED_SECONDS = 20


def test_demo_tells_its_story_and_leaves_nothing(tmp_path):
    """The demo shows goal, now, the mask and the brief in 20 s, and leaves no process or file."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "docs/demo.py")],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A group of its own, so that a remaining process can be found afterwards.
        process_group=0,
    )  # fmt: skip
    out, err = process.communicate(timeout=240)
    seconds = time.monotonic() - started

    assert (process.returncode, err) == (0, "")
    assert seconds < allowed(PROMISED_SECONDS)
    assert re.search(r"^  \+ goal: Keep people logged in", out, re.MULTILINE)
    assert re.search(
        r"^  - now: Keep people .*\n(?:  \+ status: .*\n)?  \+ now: The cookie is fine",
        out,
        re.MULTILINE,
    )
    assert "+ now: With [redacted:github-token] staging" in out
    assert "ghp_0123456789" not in out
    brief = out[out.index("<handoffd-context project=") :]
    assert "With [redacted:github-token]" in brief
    assert brief.endswith("</handoffd-context>\n")
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    home = Path(re.search(r"~ is (\S+)/home,", out)[1])
    assert not home.exists()
    assert not any(tmp_path.iterdir())
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_pictures_show_real_output(tmp_path):
    """docs/pictures.py draws each picture from the programs' output, without a path of the machine."""
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "docs/pictures.py"), "--into", str(tmp_path)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (0, "") == (done.returncode, done.stderr)
    drawn = {path.stem: path.read_text() for path in tmp_path.glob("*.svg")}
    assert {"story", "show", "told", "status"} == set(drawn)
    for name, text in drawn.items():
        assert (REPOSITORY / f"docs/{name}.svg").exists()
        assert str(REPOSITORY) not in text
        assert "/tmp/" not in text
    assert "Set the new expiry in refresh()" in drawn["story"]
    assert "Keep people logged in" in drawn["told"]
