"""A session state as text and back: nothing of it that has not passed the gate. Pure."""

from handoffd.agents.claude_code.records import context_tokens
from handoffd.session import work
from handoffd.session.state import SessionState, decode, encode
from handoffd.session.statements import statements


def dump(state: SessionState) -> str:
    """Write a state as JSON; it is done for every record that arrives."""
    statements(state)
    work.settle(state)
    state.context_tokens = context_of(state)
    state.usage = b""
    return encode(state)


def context_of(state: SessionState) -> int:
    """Return how many tokens of its context the session used last, if it is known."""
    return (context_tokens(state.usage) if state.usage else 0) or state.context_tokens


def load(text: str) -> SessionState:
    return decode(text)
