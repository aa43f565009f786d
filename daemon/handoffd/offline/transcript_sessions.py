"""The sessions that a command names without a daemon, each folded from its transcript."""

from pathlib import Path

from handoffd.agents import registry
from handoffd.api.replay import replay
from handoffd.config import LiveConfig
from handoffd.projects.registry import ProjectRegistry
from handoffd.runtime import clock
from handoffd.session.state import FOLD_VERSION
from handoffd.session.storage import dump
from handoffd.store.state import StoredEnd, StoredSession


class TranscriptSessions:
    """A SessionStore that keeps nothing: state.db may be old, the transcripts are not."""

    def __init__(self, config: LiveConfig, projects: ProjectRegistry) -> None:
        self._roots = registry.roots(config.current)
        self._projects = projects
        self._folded: dict[str, StoredSession] = {}

    def session(self, session_id: str) -> StoredSession | None:
        """Return the state of a session, by its whole id."""
        path = None
        if session_id not in self._folded and _is_plain(session_id):
            path = self._transcripts(session_id).get(session_id)
        if path is not None:
            self._folded[session_id] = self._fold(path)
        return self._folded.get(session_id)

    def sessions(
        self, project_id: str | None, limit: int, *, headless: bool | None = None
    ) -> list[StoredSession]:
        """Return the sessions that were requested so far: others are unknown."""
        found = [
            stored
            for stored in self._folded.values()
            if project_id in (None, stored.project_id) and headless in (None, stored.headless)
        ]
        return found[:limit]

    def session_ids_like(self, prefix: str) -> set[str]:
        """Return the ids of sessions that begin with a text."""
        return set(self._transcripts(f"{prefix}*")) if _is_plain(prefix) else set()

    def end_of(self, session_id: str) -> StoredEnd | None:
        """Return nothing: the session that asks is at work."""

    def set_ended(self, session_id: str, end: StoredEnd | None) -> None:
        """Keep nothing: the next daemon finds the clients that are gone."""

    def _transcripts(self, pattern: str) -> dict[str, Path]:
        return {
            session_id: Path(path)
            for root in self._roots
            for session_id, path in registry.agent_of(root).find(root, pattern).items()
        }

    def _fold(self, path: Path) -> StoredSession:
        state = replay(path)[0]
        project_id = self._projects.of(state).id if state.cwd else None
        # The session is live: it runs this command.
        return StoredSession(
            state.session_id, project_id, clock.wall(), state.headless, FOLD_VERSION, dump(state)
        )


def _is_plain(name: str) -> bool:
    """Return True if a name is an id, or the beginning of one, and no pattern or path."""
    return name.replace("-", "").isalnum()
