"""The command line's contract as shell transcripts: command, output and exit code."""

import re
import subprocess
from pathlib import Path

import pytest

from conftest import BIN

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.transcript"))


def steps(text: str) -> list[tuple[str, str]]:
    """Split a transcript into pairs of a command and its expected output."""
    parts = re.split(r"(?m)^\$ ", text)[1:]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(sandbox, path):
    """Each command prints exactly the output in its transcript; `...` stands for any text."""
    environment = {**sandbox.environment, "PATH": f"{BIN}:{sandbox.environment['PATH']}"}
    for command, expected in steps(path.read_text()):
        done = subprocess.run(
            ["sh", "-c", command], env=environment, cwd=sandbox.home, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=60,
        )  # fmt: skip
        said = done.stdout.replace(str(sandbox.home), "~")
        said += f"== {done.returncode}\n" if done.returncode else ""
        pattern = re.escape(expected.rstrip("\n")).replace(r"\.\.\.", ".*")
        assert re.fullmatch(pattern, said.rstrip("\n"), re.DOTALL), (
            f"$ {command}\n{said}\nexpected:\n{expected}"
        )
