"""The documents are written in ordinary technical English, in lines of at most 100 characters."""

import re
import subprocess
import sys

import pytest

from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "docs"))
import prose

LIMIT = 4  # free relatives per 1,000 words
DOCUMENTS = [
    "config.example.toml",
    "client/plugin/README.md",
    "bench/README.md",
    "bench/promises.md",
    *sorted(path.name for path in REPOSITORY.glob("*.md")),
    *sorted(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_few_free_relatives(document):
    """A document has at most 4 free relatives per 1,000 words; a short one may have a single one."""
    counted = prose.count(prose.prose_of(REPOSITORY / document))

    contexts = [f"{found.line}: {found.context}" for found in counted.found]
    assert len(contexts) <= max(1, LIMIT * counted.words / 1000), contexts


@pytest.mark.parametrize("document", DOCUMENTS)
def test_lines_are_wrapped(document):
    """No line has more than 100 characters, except in tables, code and pictures."""
    text = (REPOSITORY / document).read_text()
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    long = [line for line in text.splitlines() if len(line) > 100]

    assert [] == [line for line in long if not line.startswith(("|", "!["))]


def test_readme_is_a_landing_page():
    """README.md has at most 150 lines."""
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It says what is new.", 1),
        ("Whoever asks is told so. Who has left answers nothing.", 2),
        ("The client whose socket is full waits, and a person who looks sees it.", 0),
        ("A process is ended by who started it.", 1),
        ("What is it? It is `what` it seems.", 0),
        ("| what | who |", 2),
    ],
)
def test_free_relatives(text, found, tmp_path):
    """Clauses in the place of a noun count; ordinary relative clauses, questions and code do not."""
    document = tmp_path / "x.md"
    document.write_text(text)

    assert found == len(prose.count(prose.prose_of(document)).found)


def test_prose_of_a_module(tmp_path):
    """Only a module's docstrings and comments count, each in its line."""
    module = tmp_path / "x.py"
    module.write_text('"""Say what is new."""\n\nwhat = "what"  # noqa: X\n# Whatever it is.\n')

    assert [1, 4] == [found.line for found in prose.count(prose.prose_of(module)).found]


def test_prose_as_a_program(tmp_path):
    """docs/prose.py prints the rate of each file, and fails above a limit."""
    document = tmp_path / "x.md"
    document.write_text("What is new is shown.")
    words = [sys.executable, str(REPOSITORY / "docs/prose.py"), "--list", "--limit", "4"]
    done = subprocess.run([*words, str(document)], capture_output=True, text=True, check=False)

    assert 1 == done.returncode
    assert "200.0     1 of      5 words" in done.stdout
    assert "x.md:1: What is new is shown." in done.stdout
