"""close: write a worker's handoff, with their own words and the facts of the session."""

import asyncio
import os
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from handoff.common.errors import HandoffError
from handoff.common.paths import home
from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import directory_of, named_project, session_at
from handoffd.api.terminal_text import Style, count, shorten_path
from handoffd.context import Context
from handoffd.contract import session_file
from handoffd.contract.composition import is_worth
from handoffd.contract.contract_format import Contract, ForeignLines, parse, persons_words
from handoffd.contract.contract_format import render as render_contract
from handoffd.contract.session_file import WrittenHandoff
from handoffd.runtime import clock
from handoffd.session.state import SessionState
from handoffd.triggers import manual

Words = Annotated[str, Field(max_length=64 << 10)]


class CloseParams(InProject):
    session: str = Field(default="", description="the session's id", max_length=200)
    purpose: str = ""
    done: list[Words] = Field(default=[], max_length=100)
    next: list[Words] = Field(default=[], max_length=100)
    gotcha: list[Words] = Field(default=[], max_length=100)
    risk: list[Words] = Field(default=[], max_length=100)
    reflection: list[Words] = Field(default=[], max_length=100)
    escalate: list[str] = Field(default=[], description="why a person is needed", max_length=20)
    text: Words = Field(default="", description="markdown with sections, as from stdin")
    dry_run: bool = Field(default=False, description="show what is known, and write nothing")


async def handle(context: Context, params: CloseParams, _send: Send) -> MethodReply:
    project = named_project(context, params, create=True)
    # In a thread: searching a megabyte can take seconds.
    given, masked = await asyncio.to_thread(words_of, params)
    state = session_at(context, project, named_session(params)) or blank(params)
    # The session's own project, from any directory.
    stored = context.sessions.session(state.session_id) if state.session_id else None
    known = context.projects.by_id(stored.project_id) if stored and stored.project_id else None
    require_something(state, given)
    if params.dry_run:
        told = await context.contract_writer.compose(known or project, state)
        return MethodReply(preview(told, state), project=(known or project).root.path)
    done = await context.contract_writer.close(known or project, state, given)
    if state.session_id:
        at, path = clock.iso_milliseconds(), done.handoff.path
        fired = manual.closed((known or project).id, state.session_id, at, path)
        context.core.ledger.fire(fired)
    data = outcome(done, state, given, masked)
    return MethodReply(data, project=(known or project).root.path)


def named_session(params: CloseParams) -> str:
    """Return the session that a caller names by a parameter or in its text."""
    return params.session or parse(params.text).session_id


def blank(params: CloseParams) -> SessionState:
    """Return the state of an unknown session."""
    return SessionState(named_session(params), cwd=os.path.realpath(directory_of(params)))


def words_of(params: CloseParams) -> tuple[ForeignLines, int]:
    """Return a worker's words from flags and stdin, and the number of secrets in them."""
    written = parse(params.text)
    sections: dict[str, list[str]] = {
        "Done": params.done,
        "Next": params.next,
        "Gotchas": params.gotcha,
        "Risks": params.risk,
        "Reflection": params.reflection,
    }
    for name, lines in written.sections.items():
        sections[name or "Done"] = [*sections.get(name or "Done", []), "\n".join(lines)]
    calls = [*params.escalate, *written.escalations]
    given, masked = session_file.given_words(sections, params.purpose or written.purpose, calls)
    others = {
        key: " ".join(persons_words(value)[0])
        for key, value in written.others.items()
        if key != "source"
    }
    return replace(given, others=others), masked


def require_something(state: SessionState, given: ForeignLines) -> None:
    if not given and not is_worth(state):
        raise HandoffError(
            "There is nothing to hand off yet.", "Say it: handoff close --done 'fixed the parser'"
        )


def preview(told: Contract, state: SessionState) -> dict[str, Any]:
    """Return the handoff as it would be without any added words."""
    return {
        "path": "",
        "session_id": state.session_id or None,
        "known": bool(state.records),
        "purpose": told.purpose,
        "said": {},
        "escalations": list(told.escalations),
        "redacted": 0,
        "text": render_contract(told),
    }


def outcome(
    done: WrittenHandoff, state: SessionState, given: ForeignLines, masked: int
) -> dict[str, Any]:
    return {
        "path": done.handoff.path,
        "session_id": state.session_id or None,
        "known": bool(state.records),
        "purpose": done.handoff.contract.purpose,
        "said": {name: sum(1 for line in lines if line) for name, lines in given.sections.items()},
        "escalations": list(done.handoff.contract.escalations),
        "redacted": masked,
        "text": done.handoff.text,
    }


def render(data: dict[str, Any], _style: Style) -> str:
    if not data["path"]:
        return f"Nothing was written. This much is known by itself:\n\n{data['text']}"
    lines = [f"Left {shorten_path(data['path'], home())}"]
    session = f"session {data['session_id'][:8]}" if data["session_id"] else "no session"
    known = "" if data["known"] else " (nothing is known of it)"
    lines.append(f"{session}{known}: {data['purpose']}")
    said = ", ".join(f"{name} {number}" for name, number in data["said"].items())
    lines += [f"Lines of yours added: {said}"] if said else []
    lines += [f"A person is needed: {reason}" for reason in data["escalations"]]
    if data["redacted"]:
        lines.append(f"Masked: {count(data['redacted'], 'secret')}.")
    return "\n".join(lines) + "\n"


METHOD = Method("close", CloseParams, handle, render, ("text",), calls=True)
