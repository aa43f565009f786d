"""What a new session is told without a daemon: the checkpoint on disk, and core.db."""

import contextlib
import os
from typing import TYPE_CHECKING

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoffd.checkpoint import checkpoint_file
from handoffd.fs import files
from handoffd.hooks import brief
from handoffd.store.core import CoreStore

if TYPE_CHECKING:
    from handoffd.config import Config
    from handoffd.projects.learning_policy import LearningPolicy

# A hook waits for it.
_BUSY_SECONDS = 0.1

Unread = list[tuple[str, int]]


def text(root: str, level: str) -> str:
    """Return what is on disk of a project for a session, unless it is to be left alone."""
    from handoffd.projects.learning_policy import is_left_alone  # noqa: PLC0415

    path = f"{paths.state_dir()}/core.db"
    # Whatever is wrong with core.db, what else is known is said.
    with contextlib.suppress(Exception):
        if os.path.exists(path):
            core = CoreStore(path, _BUSY_SECONDS)
            try:
                project_id = core.project_id(root, None)
                refused = _policy(core).refusal(project_id, root)
                return "" if refused else _rendered(root, level, _unread(core, project_id))
            finally:
                core.close()
    return "" if is_left_alone(root, _config()) else _rendered(root, level, [])


def _rendered(root: str, level: str, unread: Unread) -> str:
    document = checkpoint_file.load(root).data or {}
    return brief.render(document, root, level, brief.BriefContext(unread=unread))


def _config() -> "Config":
    """Return the configuration; a broken one is for `handoff doctor` to say."""
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
    """Return the threads used in a project that have something new for Code."""
    found = core.threads.unread(project_id) if project_id else []
    return [(thread.id, thread.number) for thread in found]


def keep(core: CoreStore, policy: "LearningPolicy", project_id: str) -> None:
    """Let the brief of a project mention what is unread now, as the daemon would.

    The rest of it stays: where no checkpoint is written it is the only copy of the state.
    """
    root = core.project_root(project_id)
    if root is None:
        return
    state, name = os.path.split(paths.brief_file(root))
    with files.directory(os.path.dirname(state), os.path.basename(state), create=True) as handle:
        if policy.refusal(project_id, root):
            files.remove(handle, name)  # it is from before
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
