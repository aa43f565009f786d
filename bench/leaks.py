"""Secrets that a program lets through into its files, and texts that it masks in vain.

All files and all answers of a program are searched.
"""

import contextlib
import os
import random
import re
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import redaction
from keepers import OTHERS, Note, Ours, Program
from measure import Row, Table
from peers import PeerError
from world import World

sys.path.append(str(Path(__file__).parent.parent / "tests"))
import planted_secrets

# Labelled texts, which are not part of this project.
EXAMPLES = "HANDOFFD_BENCH_EXAMPLES"
LINE_ROUNDS = 8
# Kinds that are widespread; many of the other kinds are known to few.
COMMON = (
    "anthropic-key", "aws-key", "bearer-token", "github-token", "gitlab-token", "google-key",
    "hugging-face-token", "jwt", "npm-token", "openai-key", "password", "private-key",
    "pypi-token", "secret", "sendgrid-key", "slack-token", "stripe-key", "telegram-token",
    "url-password", "webhook",
)  # fmt: skip
_LINES_FROM, _LABELLED_FROM = 50_000, 80_000
_CORE, _KEY = 12, 8
_NOTE = re.compile(r"note (\d{5}) /(.*?)(/ \1 /|…|(?=note \d{5} /)|\Z)", re.DOTALL)
_SPACE = re.compile(rb"\s|\\n")
_SQLITE = b"SQLite format 3\0"
_NOTES = (
    (
        "A secret leaks if the 12 characters in its middle, or all of a short one, stand in any "
        "file or answer; a text was taken in if the mark before it does. Ours is a daemon that "
        "reads sessions with the texts as first and last request, as the assistant's words and in "
        "a list of things to do: looked at are its state, log, checkpoints, handoffs and answers."
    ),
    (
        "claude-handoff and claude-code-log get the same texts as prompts of sessions, by the hook "
        "at the end and by a conversion to markdown; ai-handoff and handoff-mcp get them by calls, "
        "as from a model. The set is our own, and larger than what they set out to mask; "
        "handoff-mcp and the viewer claude-code-log never promised redaction."
    ),
)


@dataclass
class Kept:
    """The notes found, by their numbers, in all the files and answers of a program."""

    taken: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    masked: set[int] = field(default_factory=set)
    leaked: set[int] = field(default_factory=set)
    modes: list[int] = field(default_factory=list)


def measure(table: Table, every: int) -> None:
    """Measure with every so many of the planted secrets and lines, and all that is labelled."""
    notes = [*islice(_secrets(), 0, None, every)]
    lines = [*islice(_lines(), 0, None, every)]
    labelled = [*_labelled()]
    kept = {}
    for kind in (Ours, *OTHERS):
        try:
            kept[kind.name] = _kept(kind, [*notes, *lines, *labelled])
        except PeerError as problem:
            table.add(Row(f"secrets: {kind.name}", f"not measured: {problem}", passed=False))
    ours = kept.pop(Ours.name)
    _report_planted(table, notes, ours, kept)
    _report_lines(table, lines, ours, kept)
    _report_labelled(table, labelled, ours, kept)
    _report_modes(table, ours, kept)
    table.notes += _NOTES


# The sets


def _secrets() -> Iterator[Note]:
    found = planted_secrets.plant(random.Random(redaction.SEED))
    for number, (kind, secret, text) in enumerate(found):
        yield Note(number, kind, text, secret)


def _lines() -> Iterator[Note]:
    # Another seed: from the same one a hash is drawn that is part of a secret.
    found = planted_secrets.plain_lines(random.Random(redaction.SEED + 1), LINE_ROUNDS)
    for number, text in enumerate(found, _LINES_FROM):
        if Ours.mask not in text:
            yield Note(number, "plain", text)


def _labelled() -> Iterator[Note]:
    if path := os.environ.get(EXAMPLES):
        for number, row in enumerate(redaction.read_examples(Path(path)), _LABELLED_FROM):
            yield Note(number, row["kind"], row["text"])


# The search


def _kept(kind: type[Program], notes: list[Note]) -> Kept:
    with World() as world:
        program = kind(world)
        program.take(notes)
        return examine(program, notes)


def examine(program: Program, notes: list[Note]) -> Kept:
    """Look for the notes, and for their secrets, in every file and answer."""
    kept, secrets = Kept(), _by_key(notes)
    for path in program.files():
        data = path.read_bytes()
        if path != program.world.base / "daemon.log":  # that one was opened by us
            kept.modes.append(path.stat().st_mode)
        _find_secrets(data, secrets, kept)
        for text in _texts(path, data):
            _find_secrets(text.encode(), secrets, kept)
            _find_notes(text, program.mask, kept)
    for reply in program.replies:
        _find_secrets(reply.encode(), secrets, kept)
        _find_notes(reply, program.mask, kept)
    return kept


def _by_key(notes: list[Note]) -> dict[bytes, list[tuple[bytes, int]]]:
    """Return the searched texts, with their notes' numbers, by their first characters."""
    found: dict[bytes, list[tuple[bytes, int]]] = {}
    for note in notes:
        if note.secret:
            core = _core(note.secret)
            found.setdefault(core[:_KEY], []).append((core, note.number))
    return found


def _core(secret: str) -> bytes:
    """Return the middle of a long secret, or all of a short one."""
    bare = _SPACE.sub(b"", secret.encode())
    if len(bare) < 2 * _CORE:
        return bare
    start = (len(bare) - _CORE) // 2
    return bare[start : start + _CORE]


def _find_secrets(data: bytes, secrets: dict[bytes, list[tuple[bytes, int]]], kept: Kept) -> None:
    data = _SPACE.sub(b"", data)
    for at in range(len(data) - _KEY + 1):
        for core, number in secrets.get(data[at : at + _KEY], ()):
            if data.startswith(core, at):
                kept.leaked.add(number)


def _texts(path: Path, data: bytes) -> Iterator[str]:
    """Yield the text of a file; of a database each value, since it cuts them into pages."""
    if data.startswith(_SQLITE):
        yield from _values(path)
    elif not path.name.endswith(("-wal", "-shm")):
        yield data.decode(errors="replace")


def _values(path: Path) -> Iterator[str]:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        tables = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            with contextlib.suppress(sqlite3.Error):  # an index of words has tables of its own
                for row in store.execute(f'SELECT * FROM "{table}"'):
                    yield from (value for value in row if isinstance(value, str))


def _find_notes(text: str, mask: str, kept: Kept) -> None:
    for found in _NOTE.finditer(text):
        number = int(found[1])
        kept.taken.add(number)
        if mask in found[2]:
            kept.masked.add(number)
        if found[3].startswith("/"):
            kept.whole.add(number)


# The report


def _report_planted(table: Table, notes: list[Note], ours: Kept, others: dict[str, Kept]) -> None:
    kinds = len({note.kind for note in notes})
    what = f"planted secrets, {len(notes)} texts of {kinds} kinds: leaks"
    taken = sum(note.number in ours.taken for note in notes)
    table.none(f"{what}, ours", len(ours.leaked), f"of {taken} taken in")
    table.none("planted secrets that were not taken in, ours", len(notes) - taken)
    if leaked := sorted({note.kind for note in notes if note.number in ours.leaked}):
        table.notes.append(f"Of ours leaked: {', '.join(leaked)}.")
    for name, theirs in others.items():
        table.add(Row(f"{what}, beside {name}", _leaks(ours, notes), _leaks(theirs, notes)))
    common = [note for note in notes if note.kind in COMMON]
    for name, theirs in others.items():
        row = f"of these the {len(COMMON)} most common kinds: leaks, beside {name}"
        table.add(Row(row, _leaks(ours, common), _leaks(theirs, common)))


def _leaks(kept: Kept, notes: list[Note]) -> str:
    taken = [note for note in notes if note.number in kept.taken | kept.leaked]
    leaked = [note for note in taken if note.number in kept.leaked]
    kinds = f" ({len({note.kind for note in leaked})} kinds)" if leaked else ""
    return f"{len(leaked)} of {len(taken)}{kinds}{_missing(notes, taken)}"


def _missing(notes: list[Note], taken: list[Note]) -> str:
    out = len(notes) - len(taken)
    return f", {out} not taken in" if out else ""


def _report_lines(table: Table, lines: list[Note], ours: Kept, others: dict[str, Kept]) -> None:
    what = "ordinary lines with hashes, ids and look-alikes: masked in vain"
    numbers = {line.number for line in lines}
    share = 1000 * len(ours.masked & numbers) / max(len(ours.taken & numbers), 1)
    table.at_most(f"{what}, ours", share, redaction.FALSE_MOST, "in 1000", _masked(ours, lines))
    for name, theirs in others.items():
        table.add(Row(f"{what}, beside {name}", _masked(ours, lines), _masked(theirs, lines)))


def _masked(kept: Kept, notes: list[Note]) -> str:
    """Say how many have a mask, of those that have one or were taken in to their end."""
    seen = kept.whole | kept.masked
    taken = [note for note in notes if note.number in seen]
    masked = sum(note.number in kept.masked for note in taken)
    share = f" ({masked / len(taken):.1%})" if taken else ""
    return f"{masked} of {len(taken)}{share}{_missing(notes, taken)}"


def _report_labelled(table: Table, notes: list[Note], ours: Kept, others: dict[str, Kept]) -> None:
    if not notes:
        table.notes.append(f"A labelled set is scored, too, where {EXAMPLES} names its file.")
        return
    secrets = [note for note in notes if note.kind == "positive"]
    alike = [note for note in notes if note.kind != "positive"]
    for what, some in (("secrets masked", secrets), ("look-alikes masked", alike)):
        for name, theirs in others.items():
            row = f"labelled set, {what}, beside {name}"
            table.add(Row(row, _masked(ours, some), _masked(theirs, some)))
    redaction.score_examples(table, Path(os.environ[EXAMPLES]), verbose=False)
    table.notes.append(
        "A label is one rule's: what is no key of its kind may be another's secret, as in "
        "`aws_secret_key: …` with a value that is none of Amazon's. Such look-alikes are masked, "
        "and counted as raised."
    )


def _report_modes(table: Table, ours: Kept, others: dict[str, Kept]) -> None:
    for name, theirs in others.items():
        what = f"files that other users may read, beside {name}"
        table.add(Row(what, _readable(ours), _readable(theirs)))


def _readable(kept: Kept) -> str:
    return f"{sum(bool(mode & 0o077) for mode in kept.modes)} of {len(kept.modes)}"
