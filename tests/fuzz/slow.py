"""Every text takes at most linear time, in every place of a transcript or a person's file."""

import json
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

from handoffd.agents.claude_code.record_text import words
from handoffd.agents.claude_code.records import parse_line
from handoffd.api.replay import document
from handoffd.contract import contract_format
from handoffd.contract.composition import Surroundings, account
from handoffd.redaction.redact import redact
from handoffd.session.fold import fold
from handoffd.session.state import SessionState
from handoffd.session.storage import dump
from handoffd.threads.thread_text import as_markdown, tidy
from handoffd.tracks import index, plan, record, settings

SMALL, LARGE = 16 << 10, 64 << 10
# Four times the text may take six times as long, plus a constant: the machine may be busy.
FACTOR, GRACE_SECONDS = 6.0, 0.1
# Limit for the part of a transcript that is read in one go: no request is answered meanwhile.
MOST_SECONDS = 2.0

Lines = list[dict[str, Any]]


def _user(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": content}, **fields}


def _assistant(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": blocks}, **fields}


def _tool(name: str, result: str, *, failed: bool = False, **given: Any) -> Lines:
    block = {"type": "tool_result", "tool_use_id": "t", "content": result, "is_error": failed}
    return [
        _assistant({"type": "tool_use", "id": "t", "name": name, "input": given}),
        _user([block]),
    ]


def _edits(text: str) -> Lines:
    """Write a text and undo it."""
    one, other = (
        {"old_string": text, "new_string": f"{text}x"},
        {"old_string": f"{text}x", "new_string": text},
    )
    return [
        line for pair in (one, other) for line in _tool("Edit", "ok", file_path="/p/a.py", **pair)
    ]


# Every place of a transcript from which words are read.
PLACES: dict[str, Callable[[str], Lines]] = {
    "prompt": lambda text: [_user(text)],
    "said": lambda text: [_user("Do the thing, please"), _assistant({"type": "text", "text": text})],
    "command": lambda text: _tool("Bash", "boom", failed=True, command=text),
    "described": lambda text: _tool("Bash", "ok", command="ls", description=text),
    "output": lambda text: _tool("Bash", text, failed=True, command="make all"),
    "pytest": lambda text: _tool("Bash", text, command=f"pytest -q {text[:999]}"),
    "npm": lambda text: _tool("Bash", text, failed=True, command="npm test && go test ./... | tail"),
    "commit": lambda text: _tool("Bash", f"[main abc1234] {text}", command=f"git commit -m '{text}'"),
    "request": lambda text: _tool("Bash", text, command=f"gh pr create --title '{text}"),
    "edit": _edits,
    "write": lambda text: _tool("Write", text, file_path=f"/p/{text}", content=text),
    "read": lambda text: _tool("Read", text, file_path=f"/p/{text[:999]}"),
    "todo": lambda text: _tool("TodoWrite", "ok", todos=[{"content": text, "status": "pending"}]),
    "plan": lambda text: _tool("ExitPlanMode", f"User has approved your plan. {text}", plan=text),
    "question": lambda text: _tool("AskUserQuestion", text, questions=[{"question": text}]),
    "denied": lambda text: _tool("Bash", f"The user doesn't want to proceed. {text}", failed=True, command=text),
    "summary": lambda text: [{"type": "summary", "summary": text, "leafUuid": "x"}],
    "compacted": lambda text: [{"type": "system", "subtype": "compact_boundary", "content": text}, _user(text, isCompactSummary=True)],
    "slash": lambda text: [_user(f"<command-name>/x</command-name><command-args>{text}</command-args>")],
    "shell": lambda text: [_user(f"<bash-input>{text}</bash-input>"), _user(f"<bash-stdout>{text}</bash-stdout>")],
    "reminder": lambda text: [_user(f"<system-reminder>{text}")],
    "title": lambda text: [{"type": "custom-title", "customTitle": text}],
    "error": lambda text: [_assistant({"type": "text", "text": text}, isApiErrorMessage=True)],
    "context": lambda text: [_user(f"<handoffd-context a>{text}</handoffd-context>"), _assistant({"type": "text", "text": text})],
}  # fmt: skip


def _fold(place: str, text: str) -> None:
    state = SessionState("s")
    for number, line in enumerate(PLACES[place](text)):
        envelope = {"uuid": f"u{number}", "cwd": "/p", "timestamp": f"2026-03-01T10:00:0{number}Z"}
        for found in parse_line(0, json.dumps({**envelope, **line}).encode()).records:
            words(found)
            fold(state, found, "s")
    dump(state)
    document(state)
    contract_format.render(account(state, "/p", Surroundings("2026-03-01", ended=True)))


def _thread(text: str) -> None:
    entry = {
        "seq": 1,
        "from_client": "chat",
        "type": "task",
        "created_at": "",
        "content": tidy(text),
    }
    as_markdown({"title": text[:500], "id": "x", "created_at": "", "project": text[:500]}, [entry])


def _contract(text: str) -> None:
    found = contract_format.parse(text)
    contract_format.without_escalations(text)
    contract_format.foreign_lines(found, found)
    contract_format.persons_words(text)
    str(found.gist)


def _track(text: str) -> None:
    found = record.parse(text, "auth_20260301/x.md")
    record.next_steps(found), record.files_named(found), record.summary(found)
    plan.read_plan(text)
    settings.read_settings(text)
    index.with_rows(text, "auth", [], "x")


WAYS: dict[str, Callable[[str], object]] = {
    "redact": redact,
    "thread": _thread,
    "contract": _contract,
    "track": _track,
    **{place: partial(_fold, place) for place in PLACES},
}


class Attack(NamedTuple):
    """A text of any size: a beginning, a repeated piece and an end."""

    begin: str
    pump: str
    end: str

    def text(self, size: int) -> str:
        return self.begin + self.pump * (size // len(self.pump)) + self.end


def seconds(way: str, attack: Attack, size: int) -> float:
    """Return the processor time that a text of the given size takes in this process."""
    text = attack.text(size)
    began = time.process_time()
    WAYS[way](text)
    return time.process_time() - began


def check(way: str, attack: Attack) -> float:
    """Compare the time for a large text with that for a small one, and return the ratio."""
    large = small = 9e9
    for _ in range(3):  # other load on the machine only ever adds time
        small = min(small, seconds(way, attack, SMALL))
        large = min(large, seconds(way, attack, LARGE))
        if large <= FACTOR * small + GRACE_SECONDS and large < MOST_SECONDS:
            return large / max(small, 1e-6)
    raise AssertionError(
        f"{way}: {SMALL} characters take {small:.3f} s, {LARGE} take {large:.3f} s"
    )


def text(data: bytes) -> Hashable:
    """Use the first byte to choose a way through the product, and the rest as the attack."""
    parts = [part.decode("utf-8", "replace")[:400] for part in data[1:].split(b"\0")]
    begin, pump, end = (*parts, "", "")[:3] if len(parts) > 1 else ("", parts[0], "")
    if not pump:
        return None
    way = list(WAYS)[data[0] % len(WAYS)]
    check(way, Attack(begin, pump, end))
    return way, pump[:2]
