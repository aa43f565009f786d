"""Make the pictures of the documents: a scripted session, the real daemon, the real client.

python docs/pictures.py [--into DIRECTORY] [NAME...]

Each picture is NAME.svg, in docs/ by default. The text in the terminals is printed by the
installed programs, in a temporary HOME; only the session itself is scripted, as in docs/demo.py.
"""

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import picture
from demo import (
    DemoError,
    Sandbox,
    ScriptedSession,
    await_daemon,
    make_project,
    running,
    start_daemon,
    wait_for,
)

HERE = Path(__file__).parent
COLUMNS = 80
BOLD, DIM, GREEN, CYAN = 1, 2, 32, 36

GOAL = "Keep people logged in for a day, not an hour"
FOUND = "The cause: refresh() keeps the old expiry."
TODOS = ("Set the new expiry in refresh()", "Test a refresh after 23 hours")
FILES = ("session.py", "test_session.py")
TESTS = "pytest -q"
RED = "1 failed, 11 passed in 0.42s"


# The session


class WorkingSession(ScriptedSession):
    """A session of Claude Code that also plans, and runs a command."""

    def plan(self, *steps: str) -> None:
        todos = [{"content": step, "status": "pending", "activeForm": step} for step in steps]
        use = {"type": "tool_use", "id": "p", "name": "TodoWrite", "input": {"todos": todos}}
        self.write(self.record("assistant", [use]))

    def command(self, words: str, output: str) -> None:
        use = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": words}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": output, "is_error": True}
        self.write(self.record("assistant", [use]) + self.record("user", [result]))


def work(sandbox: Sandbox) -> None:
    """Run a session, and kill it in the middle of a line."""
    session = WorkingSession(sandbox)
    with running(session.process):
        session.prompt(GOAL)
        session.edit(FILES[1])
        session.command(
            TESTS, f"FAILED test_session.py::test_refresh - assert 3600 == 86400\n{RED}"
        )
        session.say(FOUND)
        session.plan(*TODOS)
        session.edit(FILES[0])
        wait_for(
            lambda: f"Writing {FILES[0]}" in sandbox.checkpoint(), 20, "the edit in handoff.yaml"
        )
        session.die("I look at refresh() now.")


def brief_of_next_session(sandbox: Sandbox) -> str:
    """Return the text that a hook of Claude Code gives to the next session."""
    given = {
        "hook_event_name": "SessionStart",
        "source": "startup",
        "session_id": str(uuid.uuid4()),
        "cwd": str(sandbox.project),
        "transcript_path": str(sandbox.transcripts / "next.jsonl"),
    }
    program = str(Path(sys.executable).parent / "handoff")
    return sandbox.run("sh", "-c", f"echo '{json.dumps(given)}' | {program} hook")


# The terminals


def paint(text: str, *codes: int) -> str:
    return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m"


def prompt_line(command: str, why: str = "") -> str:
    return f"{paint(f'~/shop $ {command}', BOLD)}  {paint(f'# {why}' if why else '', DIM)}"


def folded(text: str, home: str) -> Iterator[str]:
    """Yield the lines of an output, with HOME as ~; a long line is continued below, indented."""
    for line in text.replace(home, "~").splitlines():
        rest = line.rstrip()
        indent = re.match(r"\s*(?:- )?", rest)
        while len(rest) > COLUMNS:
            at = rest.rfind(" ", 1, COLUMNS + 1)
            if at <= 0:
                break
            yield rest[:at]
            rest = " " * (indent.end() if indent else 0) + rest[at + 1 :]
        yield rest


def terminal(sandbox: Sandbox, *parts: str) -> str:
    lines = [line for part in parts for line in folded(part, str(sandbox.home))]
    return picture.draw("\n".join(lines).rstrip(), "~/shop")


def draw_status(sandbox: Sandbox) -> str:
    return terminal(sandbox, prompt_line("handoff status"), sandbox.handoff("status"))


def draw_show(sandbox: Sandbox) -> str:
    return terminal(sandbox, prompt_line("handoff show"), sandbox.handoff("show"))


def draw_brief(sandbox: Sandbox) -> str:
    first = paint("A new session of Claude Code in ~/shop is told:", BOLD, CYAN)
    return terminal(sandbox, first, " ", brief_of_next_session(sandbox))


# The story: one session dies, the next one knows

# The positions fit the widest of the fonts, DejaVu Sans.
WIDE, HIGH = 960, 440
PANEL, TOP, FOOT = 432, 72, 338
INK, PAPER, SOFT, LINE_COLOUR = "#1c2330", "#ffffff", "#5b6576", "#cfd6e2"
RED_INK, GREEN_INK, BLUE_INK = "#b42318", "#14743a", "#1d4fb8"
SANS = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif"
STRONG = {"font_size": "14", "font_weight": "600"}
TITLE = "A session dies. The next one knows."
ABOUT = (
    "reads the transcript that the agent writes anyway: no model, no tokens, nothing to remember"
)


def attributes(**given: str) -> str:
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in given.items())


def text(x: float, y: float, words: str, **look: str) -> str:
    return f'<text x="{x:g}" y="{y:g}"{attributes(**look)}>{escape(words)}</text>'


def path(line: str, **look: str) -> str:
    return f'<path d="{line}"{attributes(**look)}/>'


def rectangle(x: float, y: float, wide: float, high: float, **look: str) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"'
    return f"<rect {place}{attributes(**look)}/>"


def panel(x: float, title: str, when: str) -> Iterator[str]:
    yield rectangle(x, TOP, PANEL, FOOT - TOP, fill=PAPER, stroke=LINE_COLOUR, rx="10")
    yield text(x + 18, TOP + 30, title, font_size="16", font_weight="600", fill=INK)
    yield text(x + PANEL - 18, TOP + 30, when, font_size="13", fill=SOFT, text_anchor="end")
    yield path(f"M{x} {TOP + 45}h{PANEL}", stroke=LINE_COLOUR)


def rows(x: float, y: float, *lines: tuple[str, str, str]) -> Iterator[str]:
    """Yield the lines of a panel: a label in colour, and the words behind it."""
    for number, (label, words, colour) in enumerate(lines):
        base = y + 30 * number
        yield text(x + 18, base, label, fill=colour, **STRONG)
        yield text(x + 82, base, words, font_size="14", fill=INK)


def field(brief: str, name: str) -> str:
    """Return a field of the brief, so that the picture shows only text from the brief."""
    found = re.search(rf"(?m)^\*\*{name}:\*\*(?: |\n- )(.+)$", brief)
    if not found:
        raise DemoError(f"The brief has no {name}:\n{brief}")
    return found[1]


def verdict(x: float, words: str, ink: str, paper: str) -> Iterator[str]:
    """Yield the last line of a panel, on the end or the beginning of its session."""
    yield rectangle(x + 14, FOOT - 46, PANEL - 28, 32, fill=paper, rx="6")
    yield text(x + PANEL / 2, FOOT - 25, words, fill=ink, text_anchor="middle", **STRONG)


def daemon_bar(left: float, right: float) -> Iterator[str]:
    """Yield the daemon below both panels, with an arrow from the first and one to the second."""
    middle, into, out = WIDE / 2, left + PANEL / 2, right + PANEL / 2
    yield rectangle(left, FOOT + 24, WIDE - 2 * left, 56, fill=INK, rx="10")
    look = {"text_anchor": "middle", "fill": PAPER}
    yield text(middle, FOOT + 48, "handoffd", font_size="16", font_weight="700", **look)
    yield text(middle, FOOT + 67, ABOUT, font_size="13", text_anchor="middle", fill="#c9d1de")
    yield path(f"M{into} {FOOT}v18M{out} {FOOT + 24}v-18", stroke=INK, stroke_width="2")
    yield path(f"M{into - 5} {FOOT + 15}l5 9l5 -9zM{out - 5} {FOOT + 9}l5 -9l5 9z", fill=INK)


def draw_story(sandbox: Sandbox) -> str:
    brief = brief_of_next_session(sandbox)
    left, right = 24, WIDE - 24 - PANEL
    size = f'viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" height="{HIGH}"'
    label = f'role="img" aria-label="{TITLE}" font-family="{SANS}"'
    worked = (
        ("you", GOAL, BLUE_INK),
        ("agent", f"edits {FILES[1]}", SOFT),
        ("agent", f"{TESTS}: {RED.partition(' in ')[0]}", SOFT),
        ("agent", FOUND, SOFT),
        ("agent", f"edits {FILES[0]}", SOFT),
    )
    names = ("Goal", "Now", "Next", "Tests", "Files")
    knows = ((name, field(brief, name).partition(" (")[0], GREEN_INK) for name in names)
    pieces = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        rectangle(0, 0, WIDE, HIGH, fill="#f4f6fa", rx="14"),
        text(left, 46, TITLE, font_size="23", font_weight="700", fill=INK),
        *panel(left, "A session", "in the evening"),
        *rows(left, TOP + 78, *worked),
        *verdict(left, "\u2715 killed: no goodbye, no summary", RED_INK, "#fdecea"),
        *panel(right, "The next session is told", "the next day"),
        *rows(right, TOP + 78, *knows),
        *verdict(right, "\u2713 it goes on where the first one stopped", GREEN_INK, "#e7f6ec"),
        *daemon_bar(left, right),
        "</svg>",
        "",
    ]
    return "\n".join(pieces)


PICTURES: dict[str, Callable[[Sandbox], str]] = {
    "story": draw_story,
    "show": draw_show,
    "told": draw_brief,
    "status": draw_status,
}


def make(names: list[str], directory: Path) -> None:
    # The real path below /tmp, as in docs/demo.py: the path of a Unix socket must be short.
    with tempfile.TemporaryDirectory(prefix="pic-", dir=os.path.realpath("/tmp")) as base:
        sandbox = Sandbox(Path(base))
        make_project(sandbox)
        with contextlib.ExitStack() as processes:
            daemon = processes.enter_context(running(start_daemon(sandbox)))
            await_daemon(sandbox, daemon)
            work(sandbox)
            for name in names:
                target = directory / f"{name}.svg"
                target.write_text(PICTURES[name](sandbox), encoding="utf-8")
                print(target.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--into", type=Path, default=HERE, metavar="DIRECTORY")
    given = parser.parse_args()
    names = given.names or list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        parser.error(f"no such picture: {', '.join(unknown)}")
    try:
        make(names, given.into)
    except DemoError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
