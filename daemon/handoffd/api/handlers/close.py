"""close: a worker's handoff, in their own words and with what is known of the session."""

import os
from typing import Any

from pydantic import Field

from handoff.errors import HandoffError
from handoff.paths import home
from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import named_project
from handoffd.api.text import Style, count, shorten_path
from handoffd.handoffs import leaving
from handoffd.handoffs.account import is_worth
from handoffd.handoffs.contract import Theirs, parse
from handoffd.handoffs.lanes import choose
from handoffd.handoffs.leaving import Leaving
from handoffd.parts import Parts
from handoffd.projects import Project
from handoffd.session.state import SessionState
from handoffd.session.storage import load


class CloseParams(InProject):
    session: str = Field(default="", description="the session's id", max_length=200)
    purpose: str = ""
    done: list[str] = Field(default=[], max_length=100)
    next: list[str] = Field(default=[], max_length=100)
    gotcha: list[str] = Field(default=[], max_length=100)
    risk: list[str] = Field(default=[], max_length=100)
    reflection: list[str] = Field(default=[], max_length=100)
    escalate: list[str] = Field(default=[], description="why a person is needed", max_length=20)
    text: str = Field(default="", description="markdown with sections, as from stdin")


async def handle(parts: Parts, params: CloseParams, _send: Send) -> Reply:
    project = named_project(parts, params, create=True)
    state = _session(parts, project, params)
    given, masked = words_of(params)
    require_something(state, given)
    done = await parts.archivist.close(project, state, given)
    return Reply(outcome(done, state, masked), project=project.root.path)


def _session(parts: Parts, project: Project, params: CloseParams) -> SessionState:
    """Return the session a caller closes: the one it names, or the one at work here."""
    if params.session:
        stored = parts.state.session(params.session)
        return load(stored.fold) if stored else blank(params)
    main = choose(parts.board.lanes(project.id))
    return main.state if main and main.live else blank(params)


def blank(params: CloseParams) -> SessionState:
    """Return a session of which nothing is known."""
    place = os.path.realpath(os.path.join(params.cwd, os.path.expanduser(params.project or "")))
    return SessionState(params.session, cwd=place)


def words_of(params: CloseParams) -> tuple[Theirs, int]:
    """Return what a worker said, by flags and on stdin, and how many secrets were in it."""
    written = parse(params.text)
    sections: dict[str, list[str]] = {
        "Done": params.done,
        "Next": params.next,
        "Gotchas": params.gotcha,
        "Risks": params.risk,
        "Reflection": params.reflection,
    }
    for name, lines in written.sections.items():
        known = sections.setdefault(name or "Done", [])
        sections[name or "Done"] = [*known, "\n".join(lines)]
    calls = [*params.escalate, *written.escalations]
    return leaving.given_words(sections, params.purpose or written.purpose, calls)


def require_something(state: SessionState, given: Theirs) -> None:
    if not given and not is_worth(state):
        raise HandoffError(
            "There is nothing to hand off yet.", "Say it: handoff close --done 'fixed the parser'"
        )


def outcome(done: Leaving, state: SessionState, masked: int) -> dict[str, Any]:
    return {
        "path": done.handoff.path,
        "session_id": state.session_id or None,
        "purpose": done.handoff.contract.purpose,
        "escalations": list(done.handoff.contract.escalations),
        "redacted": masked,
        "text": done.handoff.text,
    }


def render(data: dict[str, Any], _style: Style) -> str:
    lines = [f"Left {shorten_path(data['path'], home())}"]
    session = f"session {data['session_id'][:8]}" if data["session_id"] else "no session is known"
    lines += [f"{session}: {data['purpose'] or '(no purpose)'}"]
    lines += [f"A person is needed: {reason}" for reason in data["escalations"]]
    if data["redacted"]:
        lines.append(f"Masked: {count(data['redacted'], 'secret')}.")
    return "\n".join(lines) + "\n"


METHOD = Method("close", CloseParams, handle, render)
