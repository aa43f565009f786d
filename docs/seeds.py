"""Write docs/seeds.md: each sentence of the four specifications, and the test that proves it.

docs/seeds.toml has the first words of each sentence, in their order. A test that proves one has the
marker `@pytest.mark.seed("000", "first words of the sentence")`. A sentence from which handoffd
departs has, in seeds.toml, the first words of its row in docs/departures.md. Run:
`python docs/seeds.py`; a test fails if the page is not current or a sentence has no proof.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/seeds.md"
NAMES = {
    "000": "Threads (000)",
    "001": "handoff.yaml (001)",
    "002": "The contract (002)",
    "003": "Track records (003)",
}
# The values of seeds.toml, beside an empty one, which says that a test is needed.
BACKGROUND, DEPARTS = "background", "departs: "
# The sentences that are not proved yet.
OPEN = "open"
_SHOWN_MAX = 72
_HEAD = """\
# The specifications, sentence by sentence

This page is made by `python docs/seeds.py` from the markers of the tests and from
[the departures](departures.md). Each sentence is quoted by its first words. *Background* stands for
a sentence that asks nothing of a program: a reason, a remark, or something that is out of scope.
"""


@dataclass(slots=True)
class Sentence:
    """A sentence of a specification, and its proofs."""

    seed: str
    words: str
    value: str
    tests: list[str] = field(default_factory=list)
    departure: tuple[str, str] | None = None

    @property
    def is_proved(self) -> bool:
        return bool(self.tests or self.departure or self.value == BACKGROUND)

    @property
    def proof(self) -> str:
        if self.value == BACKGROUND:
            return "*background*"
        found = [", ".join(f"`{test}`" for test in self.tests)] if self.tests else []
        if self.departure:
            does, because = self.departure
            found.append(f"[departs](departures.md): {does}; because {because}")
        return "<br>".join(found) or "*open*"


def plain(words: str) -> str:
    """Return words without the marks of a list or a table, and with single blanks."""
    return " ".join(words.split()).removeprefix("- ").removeprefix("| ")


def listed() -> tuple[list[Sentence], list[str]]:
    """Return the sentences of all specifications, and those that are open."""
    found: dict[str, Any] = tomllib.loads((ROOT / "docs/seeds.toml").read_text())
    opened: list[str] = found.pop(OPEN)
    sentences = [
        Sentence(seed, words, value)
        for seed, rows in found.items()
        for words, value in rows.items()
    ]
    return sentences, opened


def markers() -> Iterator[tuple[str, str, str]]:
    """Yield the seed, the words and the name of each test that is marked."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "mark.seed(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.seed":
                        seed, words = (ast.literal_eval(given) for given in mark.args)
                        yield seed, words, f"{path.relative_to(ROOT / 'tests')}::{node.name}"


def matching(sentences: list[Sentence], seed: str, words: str) -> list[Sentence]:
    """Return the sentences that begin with these words, or with which these words begin."""
    given = plain(words)
    own = [sentence for sentence in sentences if sentence.seed == seed]
    exact = [sentence for sentence in own if plain(sentence.words) == given]
    return exact or [
        sentence
        for sentence in own
        if plain(sentence.words).startswith(given) or given.startswith(plain(sentence.words))
    ]


def departures() -> dict[str, tuple[str, str]]:
    """Return the rows of docs/departures.md: what handoffd does, and the reason."""
    rows = {}
    for line in (ROOT / "docs/departures.md").read_text().splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if line.startswith("| ") and len(cells) == len(("says", "does", "because")):
            rows[cells[0]] = (cells[1], cells[2])
    return rows


def collect() -> tuple[list[Sentence], list[str], list[str]]:
    """Return the sentences with their proofs, the open ones, and the problems."""
    sentences, opened = listed()
    problems = []
    for seed, words, test in markers():
        found = matching(sentences, seed, words)
        if not found:
            problems.append(f"{test}: seed {seed} has no sentence {words!r}")
        for sentence in found:
            if test not in sentence.tests:
                sentence.tests.append(test)
    rows = departures()
    for sentence in sentences:
        if sentence.value.startswith(DEPARTS):
            begin = sentence.value.removeprefix(DEPARTS)
            sentence.departure = next(
                (row for says, row in rows.items() if says.startswith(begin)), None
            )
            if sentence.departure is None:
                problems.append(f"departures.md has no row that begins with {begin!r}")
        elif sentence.value not in ("", BACKGROUND):
            problems.append(f"seeds.toml: {sentence.value!r} is no value")
    return sentences, opened, problems


def shown(words: str) -> str:
    """Return the first words of a sentence for a cell of a table, as code."""
    text = plain(words)
    text = text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1].rstrip() + "…"
    text = text.replace("\\|", "|").replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def page() -> str:
    sentences, _, _ = collect()
    lines = [_HEAD]
    for seed, name in NAMES.items():
        own = [sentence for sentence in sentences if sentence.seed == seed]
        lines += [f"## {name}", "", "| sentence | proof |", "|---|---|"]
        lines += [f"| {shown(sentence.words)} | {sentence.proof} |" for sentence in own]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
