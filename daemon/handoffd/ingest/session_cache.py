"""The session states in memory: of the few sessions that are being read, as the store has them."""

from collections import OrderedDict
from dataclasses import dataclass, field

from handoffd.agents.claude_code import tasks
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.runtime import clock
from handoffd.session import todos
from handoffd.session.state import FOLD_VERSION, SessionState
from handoffd.session.storage import dump, load
from handoffd.session.text import count_masks
from handoffd.store.state import StateStore, StoredSession

SESSIONS_MAX = 16


@dataclass(slots=True)
class SessionCache:
    """Loads session states, and makes of them what is stored."""

    state: StateStore
    _sessions: OrderedDict[str, SessionState] = field(default_factory=OrderedDict)
    # How many secrets are masked in what is kept of each session.
    _masks: dict[str, int] = field(default_factory=dict)

    def of(self, session_id: str) -> SessionState:
        known = self._sessions.get(session_id)
        if known is None:
            stored = self.state.session(session_id)
            known = load(stored.fold) if stored else SessionState(session_id)
            self._sessions[session_id] = known
            self._masks[session_id] = count_masks(stored.fold) if stored else 0
            while len(self._sessions) > SESSIONS_MAX:
                self.drop(next(iter(self._sessions)))
        self._sessions.move_to_end(session_id)
        return known

    def drop(self, session_id: str) -> None:
        """Let go of a state: the next who asks has that of the store."""
        self._sessions.pop(session_id, None)
        self._masks.pop(session_id, None)

    def clear(self) -> None:
        self._sessions.clear()
        self._masks.clear()

    def stored(self, session: SessionState, project_id: str | None) -> tuple[StoredSession, int]:
        """Return a state as it is kept, and how many more secrets are masked in it than before."""
        folded = dump(session)
        masks = count_masks(folded)
        more = max(masks - self._masks.get(session.session_id, 0), 0)
        self._masks[session.session_id] = masks
        kept = StoredSession(
            session.session_id,
            project_id,
            clock.parse(session.last_time),
            session.headless,
            FOLD_VERSION,
            folded,
        )
        return kept, more


def take_tasks(
    session: SessionState, path: str, learning_policy: LearningPolicy, project_id: str | None
) -> None:
    """Take the client's task files where they changed, but nothing of a pause."""
    changed = tasks.changed_at(path, session.session_id)
    if changed <= session.tasks_at:
        return
    session.tasks_at = changed
    items = [
        task.data
        for task in tasks.read(path, session.session_id)
        if not learning_policy.is_silent(
            project_id, session.session_id, clock.iso_milliseconds(task.mtime_ns / 1e9), ""
        )
    ]
    todos.take_tasks(session, items, clock.iso_milliseconds(changed / 1e9))
