"""Count free relatives per 1,000 words in documents, docstrings and comments.

python docs/prose.py [--list] [--limit RATE] FILE...

A free relative is a clause that stands in the place of a noun: `what is new`, `whoever asks`,
`who has left answers nothing`. It hides the subject, so ordinary technical English names the thing.

The text that is read:

- Markdown: everything except fenced code, code spans, comments, link targets and front matter.
- Python: docstrings and comments, without code spans and without doctest lines.
- Any other file (TOML): its comments that have a space or a `#` behind the `#`.

The words that are counted:

- `what`, `whatever`, `whoever` and `whomever`, always.
- `who`, `whom` and `whose`, unless a noun precedes them: "the client whose socket is full" is an
  ordinary relative clause. The word before counts as a noun if it is on the same side of any
  punctuation (a comma excepted) and is not in `NO_NOUN`.
- No word of a direct question, that is of a sentence that ends with a question mark.

The count is a heuristic and errs on the strict side: an indirect question (`says what to do`)
counts as well.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ALWAYS = frozenset({"what", "whatever", "whoever", "whomever"})
UNLESS_AFTER_A_NOUN = frozenset({"who", "whom", "whose"})
# Words after which `who` begins a clause of its own: function words, and verbs of saying.
NO_NOUN = frozenset(
    re.findall(
        r"\w+",
        """
    a about after all also although an and answer answers are as ask asks at be because been before
    behind being between but by can check checks compare do does find finds for from had has have
    if in into is its it just know known knows learn like look looks many may must no nor not
    notice of on only or over say says see sees set show shown shows so some tell tells than that
    the then there to told too under unless until upon was were when where whether while why will
    with without you
    """,
    )
)

_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
_TOKEN = re.compile(rf"{_WORD.pattern}|[.!?;:()\[\]|\u2014]")
_SENTENCE_END = frozenset(".!?|")
_NOT_PROSE = re.compile(
    r"""
      (?ms)
      \A---\n.*?^---$          # front matter
    | ^[ ]*```.*?^[ ]*```$     # fenced code
    | <!--.*?-->               # comments
    | ``.+?`` | `[^`\n]+`      # code spans
    | (?<=\])\([^)\n]*\)       # link targets
    | https?://\S+
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Found:
    """A counted word: its line, and the words around it."""

    line: int
    context: str


@dataclass(frozen=True)
class Count:
    """The number of words in a text, and the free relatives among them."""

    words: int
    found: tuple[Found, ...]

    @property
    def rate(self) -> float:
        """Free relatives per 1,000 words."""
        return 1000 * len(self.found) / self.words if self.words else 0.0


def count(prose: str) -> Count:
    """Count the words of a text in which everything but prose has been blanked out."""
    tokens = list(_TOKEN.finditer(prose))
    found = [
        Found(prose.count("\n", 0, token.start()) + 1, _context(prose, token))
        for index, token in enumerate(tokens)
        if _is_free_relative(prose, tokens, index)
    ]
    return Count(sum(token[0][0].isalpha() for token in tokens), tuple(found))


def _is_free_relative(prose: str, tokens: list[re.Match[str]], index: int) -> bool:
    word = tokens[index][0].lower()
    if word not in ALWAYS | UNLESS_AFTER_A_NOUN:
        return False
    if word in UNLESS_AFTER_A_NOUN and _follows_a_noun(prose, tokens, index):
        return False
    rest = (token[0] for token in tokens[index:])
    return next((end for end in rest if end in _SENTENCE_END), ".") != "?"


def _follows_a_noun(prose: str, tokens: list[re.Match[str]], index: int) -> bool:
    if not index:
        return False
    before = tokens[index - 1]
    is_apart = "\n\n" in prose[before.end() : tokens[index].start()]
    return not is_apart and before[0][0].isalpha() and before[0].lower() not in NO_NOUN


def _context(prose: str, token: re.Match[str]) -> str:
    around = prose[max(0, token.start() - 40) : token.end() + 40]
    return " ".join(around.split())


def prose_of(path: Path) -> str:
    """Return the text of a file with everything but its prose blanked out, line by line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = _blanked_python(text)
    elif path.suffix != ".md":
        text = re.sub(r"(?m)^(?!#+ ).*$|^#+ \w+ = .*$|^#+", "", text)
    return _NOT_PROSE.sub(lambda code: "\n" * code[0].count("\n") or " x ", text)


def _blanked_python(source: str) -> str:
    """Return the docstrings and the comments of a module, each in its line."""
    lines = [""] * (source.count("\n") + 2)
    for number, text in [*_docstrings(source), *_comments(source)]:
        for offset, line in enumerate(text.splitlines()):
            is_doctest = line.lstrip().startswith((">>>", "..."))
            lines[number - 1 + offset] += "" if is_doctest else f" {line}"
    return "\n".join(lines)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node, clean=False)):
            yield node.body[0].lineno, text + "\n\n"


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_directive = token.string.startswith(("#!", "# fmt", "# noqa"))
        if token.type == tokenize.COMMENT and not is_directive:
            yield token.start[0], token.string.lstrip("#")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print every counted word in its line")
    parser.add_argument("--limit", type=float, help="exit with 1 if a file has a higher rate")
    given = parser.parse_args()
    counts = {path: count(prose_of(path)) for path in given.files}
    for path, counted in counts.items():
        print(f"{counted.rate:6.1f} {len(counted.found):5} of {counted.words:6} words  {path}")
        for found in counted.found if given.list else ():
            print(f"       {path}:{found.line}: {found.context}")
    words = sum(counted.words for counted in counts.values())
    found = sum(len(counted.found) for counted in counts.values())
    print(f"{1000 * found / max(words, 1):6.1f} {found:5} of {words:6} words  in all")
    limit = float("inf") if given.limit is None else given.limit
    return int(any(counted.rate > limit for counted in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
