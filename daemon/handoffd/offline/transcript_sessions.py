"""The sessions that a command names without a daemon, each folded from its transcript."""

from pathlib import Path

from handoffd.api.replay import replay
from handoffd.config import Config
from handoffd.projects.registry import ProjectRegistry
from handoffd.runtime import clock
from handoffd.runtime.directories import claude_dirs
from handoffd.session.state import FOLD_VERSION
from handoffd.session.storage import dump
from handoffd.store.state import StoredSession


class TranscriptSessions:
    """A SessionStore that keeps nothing: state.db may be old, the transcripts are not."""

    def __init__(self, settings: Config, projects: ProjectRegistry) -> None:
        self._directories = claude_dirs(settings.claude.config_dirs)
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
        """Return the sessions that were asked for so far: others are unknown."""
        found = [
            stored
            for stored in self._folded.values()
            if project_id in (None, stored.project_id) and headless in (None, stored.headless)
        ]
        return found[:limit]

    def session_ids_like(self, prefix: str) -> set[str]:
        """Return the sessions whose id begins so."""
        return set(self._transcripts(f"{prefix}*")) if _is_plain(prefix) else set()

    def set_ended(self, session_id: str, at: float | None) -> None:
        """Keep nothing: the next daemon sees by itself which clients are gone."""

    def _transcripts(self, pattern: str) -> dict[str, Path]:
        return {
            path.stem: path
            for directory in self._directories
            for path in Path(directory, "projects").glob(f"*/{pattern}.jsonl")
        }

    def _fold(self, path: Path) -> StoredSession:
        state = replay(path)[0]
        project_id = self._projects.of(state).id if state.cwd else None
        # It is at work now: it runs this command.
        return StoredSession(
            state.session_id, project_id, clock.wall(), state.headless, FOLD_VERSION, dump(state)
        )


def _is_plain(name: str) -> bool:
    """Return True if a name is an id, or the beginning of one, and no pattern or path."""
    return name.replace("-", "").isalnum()
