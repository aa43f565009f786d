"""Keep the states of the few sessions that are being read in memory, as the store has them."""

from collections import OrderedDict
from dataclasses import dataclass, field

from handoffd.agents.registry import agent_of
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
    """Loads session states, and turns them into stored rows."""

    state: StateStore
    _sessions: OrderedDict[str, SessionState] = field(default_factory=OrderedDict)
    # The number of masked secrets in the stored state of each session.
    _masks: dict[str, int] = field(default_factory=dict)
    # The sessions that are read anew, of which the store still has an older version's state: only
    # memory has what was read of them.
    held: set[str] = field(default_factory=set)

    def of(self, session_id: str) -> SessionState:
        known = self._sessions.get(session_id)
        if known is None:
            stored = self.state.session(session_id)
            usable = stored is not None and stored.fold_version == FOLD_VERSION
            known = load(stored.fold) if stored and usable else SessionState(session_id)
            self._sessions[session_id] = known
            self._masks[session_id] = count_masks(stored.fold) if stored else 0
            self._shrink()
        self._sessions.move_to_end(session_id)
        return known

    def _shrink(self) -> None:
        others = [name for name in self._sessions if name not in self.held]
        for name in others[: max(len(others) - SESSIONS_MAX, 0)]:
            self.drop(name)

    def drop(self, session_id: str) -> None:
        """Drop a state from memory: the next caller gets the stored one."""
        self._sessions.pop(session_id, None)
        self._masks.pop(session_id, None)

    def clear(self) -> None:
        self._sessions.clear()
        self._masks.clear()

    def as_stored(self, session: SessionState, project_id: str | None) -> tuple[StoredSession, int]:
        """Return a state as a stored row, and how many more secrets it masks than before."""
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


def update_tasks(
    session: SessionState, path: str, learning_policy: LearningPolicy, project_id: str | None
) -> None:
    """Read the client's task files if they changed; leave out tasks changed during a pause."""
    agent = agent_of(path)
    changed = agent.tasks_changed_at(path, session.session_id)
    if changed <= session.tasks_at:
        return
    session.tasks_at = changed
    items = [
        task.data
        for task in agent.tasks(path, session.session_id)
        if not learning_policy.is_silent(
            project_id, session.session_id, clock.iso_milliseconds(task.mtime_ns / 1e9), ""
        )
    ]
    todos.take_tasks(session, items, clock.iso_milliseconds(changed / 1e9))
