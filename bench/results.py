"""Write bench/results.md, one section per measured part, and the table of docs/comparison.md."""

import os
import platform
import re
import sys
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path

import network
from measure import HEADS, Row, Table

RESULTS = Path(__file__).with_name("results.md")
PAGE = RESULTS.parent.parent / "docs/comparison.md"
# In the order of the page.
TITLES = {
    "freshness": "Freshness: from a line that is appended to a handoff that says so",
    "start": "The start of a session: from the start of a program to what it tells",
    "mcp": "MCP over stdio",
    "deaths": "Deaths: is there a right handoff a minute later, with nobody touching anything?",
    "secrets": "Secrets: what is let through, and what is masked in vain",
    "scan": "The first start over a large tree",
    "standing": "Standing cost: what it takes while nothing happens",
    "worth": "Worth: what a token of it tells the next session",
    "inside": "Inside: the daemon's own work over its floors",
}
_INTRODUCTION = """# Measured

Written by `make bench`; [README.md](README.md) says how each figure is taken.
Times are medians with the 95th percentile over ten runs or more, ours and theirs in turns.
Where the bar is `<=` less is better, where it is `>=` more. Without a bar a ratio is ours over the
floor's, or, "against" and "beside" another program, how many times better ours is.
"""
_SECTION = re.compile(r"(?ms)^## (?P<title>[^\n]+)\n(?P<body>.*?)(?=^## |\Z)")
_ROW = re.compile(r"(?m)^\| (.+?) \| (.*?) ?\| (.*?) ?\| (.*?) ?\| (.*?) ?\| (.*?) ?\|$")
# The rows of docs/comparison.md: their words, and the part and the row (a pattern) of the figures.
COMPARED: tuple[tuple[str, str, str], ...] = (
    (
        "after quiet, a line of a 100 MB session is in the handoff; claude-handoff's hook at it",
        "freshness",
        "100 MB: handoff.yaml against claude-handoff's hook",
    ),
    (
        "the same for 10 MB; `claude-code-log watch`, which renders the whole",
        "freshness",
        "10 MB: handoff.yaml against claude-code-log watch",
    ),
    (
        "a session starts and is told; claude-handoff",
        "start",
        "hook, SessionStart, against claude-handoff",
    ),
    (
        "an MCP server answers; handoff-mcp",
        "mcp",
        "MCP, start to initialize, against handoff-mcp",
    ),
    (
        "memory of an open MCP session (RSS, PSS, and the ratio of PSS); handoff-mcp",
        "mcp",
        "MCP, an open session: RSS, PSS, against handoff-mcp",
    ),
    (
        "and one daemon for all of them",
        "mcp",
        "MCP, the daemon behind all sessions: RSS, PSS",
    ),
    ("a right handoff within a minute of `kill -9`", "deaths", "kill -9 in the middle of a line"),
    ("and of `/exit`, with their hooks and without ours", "deaths", "/exit"),
    (
        "planted secrets (our own set) that leak; claude-handoff",
        "secrets",
        "planted secrets, * kinds: leaks, beside claude-handoff",
    ),
    (
        "a labelled public set: secrets masked; claude-handoff",
        "secrets",
        "labelled set, secrets masked, beside claude-handoff",
    ),
    (
        "and look-alikes masked (fewer is better)",
        "secrets",
        "labelled set, look-alikes masked, beside claude-handoff",
    ),
    (
        "answers found in 1,000 tokens (sessions of our own); claude-handoff's digest, to paste",
        "worth",
        "fields in 1,000 tokens, beside claude-handoff's digest",
    ),
    (
        "and its brief, told at a session's start",
        "worth",
        "fields in 1,000 tokens, beside claude-handoff's brief*",
    ),
    (
        "agreement with Claude Code's own summaries of real sessions; claude-handoff",
        "worth",
        "* compactions of real sessions*",
    ),
    (
        "1 GB of old transcripts in 10,000 files read; a bare loop of `json.loads`",
        "scan",
        "complete, against a bare json loop",
    ),
    (
        "memory while nothing happens (RSS); `claude-code-log watch` (the others have no daemon)",
        "standing",
        "RSS, against claude-code-log watch, 1,000 sessions known",
    ),
)
_MARKED = re.compile(r"(?s)(<!-- bench -->\n).*?(<!-- /bench -->)")


def enter(part: str, table: Table, load: float) -> None:
    """Replace the section of a part, then the table of docs/comparison.md."""
    sections = {match["title"]: match["body"] for match in _SECTION.finditer(_text())}
    sections[TITLES[part]] = _section(table, load)
    for name, drawing in table.drawings.items():
        RESULTS.with_name(f"{name}.svg").write_text(drawing)
    ordered = [(title, sections[title]) for title in TITLES.values() if title in sections]
    body = "".join(f"\n## {title}\n\n{text.strip()}\n" for title, text in ordered)
    RESULTS.write_text(_INTRODUCTION + _missed(body) + body)
    made = _MARKED.sub(lambda marks: marks[1] + comparison() + marks[2], PAGE.read_text())
    PAGE.write_text(made)


def _missed(body: str) -> str:
    """Return which bars were missed, where a reader looks first."""
    rows = [row for row in _ROW.findall(body) if row[5] in ("pass", "MISS")]
    missed = [row for row in rows if row[5] == "MISS"]
    lines = [f"- {row[0]}: {row[3] or row[1]}, the bar is {row[4]}" for row in missed]
    return "\n".join(["", f"Missed: {len(missed)} of {len(rows)} bars.", "", *lines, ""])


def _text() -> str:
    return RESULTS.read_text() if RESULTS.exists() else ""


def _section(table: Table, load: float) -> str:
    lines = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    lines += [f"| {' | '.join(map(_one_line, row.cells()))} |" for row in table.rows]
    lines += [f"\n{' '.join(note.split())}" for note in table.notes]
    lines += [f"\n![{name}]({name}.svg)" for name in table.drawings]
    return "\n".join([*lines, "", f"{table.verdict()} {_taken(load)}"])


def _one_line(cell: str) -> str:
    return " ".join(cell.replace("|", "/").split())


def _taken(load: float) -> str:
    """Return the time and the machine of the measurement."""
    where = "network off" if network.is_off() else "network on"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return (
        f"Measured on {day} with handoffd {version('handoffd')}: {_processor()}, "
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {system}, "
        f"Python {sys.version.split()[0]}; load {load:.1f} before, {where}."
    )


def _processor() -> str:
    names = re.findall(r"(?m)^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text())
    return names[0] if names else platform.machine()


def rows(part: str) -> list[Row]:
    """Return the rows of a section."""
    body = next((m["body"] for m in _SECTION.finditer(_text()) if m["title"] == TITLES[part]), "")
    found = [match.groups() for match in _ROW.finditer(body)][1:]
    return [Row(what, figure, floor, note=ratio) for what, figure, floor, ratio, *_ in found]


def comparison() -> str:
    """Return the table of docs/comparison.md, made from the rows of results.md."""
    lines = [
        f"| {words} | {row.figure} | {row.floor} | {row.note} |"
        for words, part, pattern in COMPARED
        for row in rows(part)
        if fnmatchcase(row.what, pattern)
    ]
    return "\n".join(
        [
            "| measurement; other program | handoffd | the other | times better |",
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )
