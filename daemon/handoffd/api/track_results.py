"""The shared part of the commands about track records: parameters, progress and rendering."""

import asyncio
from collections.abc import Callable
from threading import get_ident
from typing import Any, Literal

from pydantic import Field

from handoff.common.paths import home
from handoffd.api.method import InProject, Send
from handoffd.api.terminal_text import Style, age, shorten_path
from handoffd.session.text import keep
from handoffd.tracks.create_state import CreateRequest
from handoffd.tracks.plan import PHASE_MAX
from handoffd.tracks.steps import Step, Tell

PARTLY = "⚠️ Handoff created, but not all of it; the rest is tried again:"
_MARKS = {"done": "✓", "skipped": "-", "waiting": "…", "failed": "✗"}


class SessionParams(InProject):
    session: str = Field(default="", description="the session's id", max_length=200)


class RecordParams(SessionParams):
    """The description of a record to be made."""

    track: str = Field(default="", description="a track's id, or `general`", max_length=200)
    trigger: Literal["manual", "idle", "design-end", "epic-start", "epic-end", "pre-finish"] = (
        "manual"
    )
    bead: str = Field(default="", description="the epic's id", max_length=200)
    phase: str = Field(default="", description="where the work is", max_length=500)
    general: bool = Field(default=False, description="make conductor/ where there is none")
    strict: bool = Field(default=False, description="refuse to mask secrets")
    author: Literal["agent", "human"] = "agent"


class CreateParams(RecordParams):
    if_parallel: Literal["", "include", "cancel"] = Field(
        default="", description="what to do about parallel workers"
    )


def request_from(params: RecordParams, if_parallel: str) -> CreateRequest:
    return CreateRequest(
        trigger=params.trigger,
        track=params.track,
        bead=params.bead,
        phase=keep(params.phase, PHASE_MAX),
        general=params.general,
        if_parallel=if_parallel,
        # A person at a terminal moves no session to the track.
        binds=bool(params.session),
        strict=params.strict,
        author=params.author,
    )


def progress(send: Send) -> Tell:
    """Return a function that reports each step to a client at once, also from another thread."""
    loop, own = asyncio.get_running_loop(), get_ident()

    def tell(step: Step) -> None:
        found = step._asdict()
        params = {**found, "line": step_line(found)}
        frame = {"jsonrpc": "2.0", "method": "progress", "params": params}
        if get_ident() == own:  # the loop is busy until all steps are taken
            send(frame)
        else:
            loop.call_soon_threadsafe(send, frame)

    return tell


def step_line(step: dict[str, Any]) -> str:
    mark = _MARKS.get(step["outcome"], "?")
    return f"{mark} {step['number']:>2} {step['name']}: {step['text']}"


def render_steps(data: dict[str, Any], wanted: Callable[[dict[str, Any]], bool]) -> list[str]:
    return [f"  {step_line(step)}" for step in data["steps"] if wanted(step)]


def render_created(data: dict[str, Any], _style: Style) -> str:
    """Return the text about a creation."""
    if data["choice"]:
        return render_workers(data["choice"])
    if data["file"]:
        failed = any(step["outcome"] == "failed" for step in data["steps"])
        lines = [PARTLY if failed else "✅ Handoff created successfully."]
        lines += [f"→ Track: {data['track']} | {data['trigger']}"]
        lines += [f"→ Section: {data['section']}"] if data["section"] else []
        found = data["progress"]
        differs = f"; {data['disagreement']}" if data["disagreement"] else ""
        tasks = f"{found['done']}/{found['total']} tasks{differs}"
        lines.append(f"→ Progress: {found['percent']}% ({tasks})")
        lines.append(f"→ File: {data['file']}")
    else:
        lines = ["No track record was made."]
    if data.get("contract"):
        lines.append(f"→ Contract: {shorten_path(data['contract'], home())}")
    masked = "3" if data["secrets"] else ""
    told = ("failed", "waiting") if data["file"] else ("failed", "waiting", "skipped")
    lines += render_steps(data, lambda step: step["outcome"] in told or step["number"] == masked)
    return "\n".join(lines) + "\n"


def render_workers(choice: dict[str, Any]) -> str:
    """Return the text of the choice, with the command for each answer."""
    letters = dict(zip("ABC", choice["options"], strict=True))
    lines = [f"⚠️ {choice['question']}", ""]
    lines += [f"[{letter}] {choice['options'][name]}" for letter, name in letters.items()]
    lines += ["", "Say which:"]
    lines += [f"  {letter}: {choice['commands'][name]}" for letter, name in letters.items()]
    return "\n".join(lines) + "\n"


def render_resumed(data: dict[str, Any], style: Style) -> str:
    """Return the text of the record and of the changes since."""
    if data["choice"]:
        return render_tracks(data["choice"])
    lines = render_steps(data, lambda step: step["outcome"] == "failed")
    text: str = data["analysis"]
    if not data["record"]:
        reason = [step["text"] for step in data["steps"] if step["outcome"] != "done"]
        text = "\n".join([reason[-1] if reason else "There is no record.", *lines]) + "\n"
        lines = []
    if data["todos"]["TodoWrite"]:
        items = [f"  [ ] {item['content']}" for item in data["todos"]["TodoWrite"]]
        text += "\n".join(["To do:", *items]) + "\n"
    if lines:
        text += "\n".join(lines) + "\n"
    if data.get("handoff_skipped"):
        text += f"No record was made: {data['handoff_skipped']}.\n"
    if data.get("handoff"):
        text += "\n" + render_created(data["handoff"], style)
    return text


def render_tracks(choice: dict[str, Any]) -> str:
    lines = []
    for number, item in enumerate(choice["options"], start=1):
        told = f"{item['trigger']}: {item['summary']}".strip(": ")
        lines.append(f"{number}. {item['track']} ({age(item['age_seconds'])} ago) - {told}")
    lines += ["", "Name one: handoff resume TRACK"]
    return "\n".join(lines) + "\n"
