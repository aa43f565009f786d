"""Make the brief of a new session without a daemon: from the checkpoint on disk and core.db."""

import contextlib
import os
from typing import TYPE_CHECKING

from handoff.common import paths
from handoff.common.ages import with_ages
from handoff.common.errors import HandoffError
from handoffd.checkpoint import checkpoint_file
from handoffd.fs import files
from handoffd.hooks import brief
from handoffd.runtime import clock
from handoffd.store.core import CoreStore

if TYPE_CHECKING:
    from handoffd.config import Config
    from handoffd.projects.learning_policy import LearningPolicy

# A hook waits for the answer.
_BUSY_SECONDS = 0.1

Unread = list[tuple[str, int]]


def text(root: str, level: str) -> str:
    """Return the brief of a project's state on disk; empty if the policy refuses the project."""
    from handoffd.projects.learning_policy import is_left_alone  # noqa: PLC0415

    path = f"{paths.state_dir()}/core.db"
    # Without a usable core.db, the checkpoint alone makes the brief.
    with contextlib.suppress(Exception):
        if os.path.exists(path):
            core = CoreStore(path, _BUSY_SECONDS)
            try:
                project_id = core.project_id(root, None)
                refused = _policy(core).refusal(project_id, root)
                return "" if refused else _told(root, level, _unread(core, project_id))
            finally:
                core.close()
    return "" if is_left_alone(root, _config()) else _told(root, level, [])


def _told(root: str, level: str, unread: Unread) -> str:
    return with_ages(_rendered(root, level, unread), clock.wall())


def _rendered(root: str, level: str, unread: Unread) -> str:
    document = checkpoint_file.load(root).data or {}
    return brief.render(document, root, level, brief.BriefContext(unread=unread))


def _config() -> "Config":
    """Return the configuration; `handoff doctor` reports a broken one."""
    # Seldom needed, and a hook pays for each import.
    from handoffd.config import Config, load  # noqa: PLC0415

    try:
        return load(paths.config_file())
    except HandoffError:
        return Config()


def _policy(core: CoreStore) -> "LearningPolicy":
    from handoffd.config import LiveConfig  # noqa: PLC0415
    from handoffd.projects.learning_policy import LearningPolicy  # noqa: PLC0415

    return LearningPolicy(core, LiveConfig(_config()))


def _unread(core: CoreStore, project_id: str | None) -> Unread:
    """Return the threads of a project with unread entries for Code."""
    found = core.threads.unread(project_id) if project_id else []
    return [(thread.id, thread.number) for thread in found]


def keep(core: CoreStore, policy: "LearningPolicy", project_id: str) -> None:
    """Update the unread threads in a project's brief file, as the daemon does.

    The rest stays: if no checkpoint is written, the brief is the only copy of the state.
    """
    root = core.project_root(project_id)
    if root is None:
        return
    state, name = os.path.split(paths.brief_file(root))
    with files.directory(os.path.dirname(state), os.path.basename(state), create=True) as handle:
        if policy.refusal(project_id, root):
            files.remove(handle, name)  # it was written before the refusal
            return
        known = paths.read_brief(root)
        found = _anew(known, root, _unread(core, project_id))
        if found != (known or ""):
            stamped = f"{root}\t{paths.checkpoint_stamp(root)}\n{found}"
            files.write(handle, name, stamped.encode("utf-8", "replace"))


def _anew(known: str | None, root: str, unread: Unread) -> str:
    if known is None:
        return _rendered(root, "L1", unread)
    return brief.mention_anew(known, root, unread)
