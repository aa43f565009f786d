"""What a new session is told without a daemon: the checkpoint on disk, and core.db."""

import contextlib
import os
from typing import TYPE_CHECKING

from handoff import fast, paths
from handoff.errors import HandoffError
from handoffd import files
from handoffd.handoffs import briefing, checkpoint_file
from handoffd.store.core import CoreStore

if TYPE_CHECKING:
    from handoffd.config import Config

# A hook waits for it.
_BUSY_SECONDS = 0.1

Unread = list[tuple[str, int]]


def text(root: str, level: str, unread: Unread) -> str:
    from handoffd import gate  # noqa: PLC0415

    if gate.is_left_alone(root, _config()):
        return ""
    document = checkpoint_file.load(root).data or {}
    return briefing.render(document, root, level, briefing.Around(unread=unread))


def _config() -> "Config":
    """Return the configuration; a broken one is for `handoff doctor` to say."""
    # Seldom needed, and a hook pays for each import.
    from handoffd.config import Config, load  # noqa: PLC0415

    try:
        return load(paths.config_file())
    except HandoffError:
        return Config()


def unread_at(root: str) -> Unread:
    """Return the threads used in a project that have something new for Code, if that is known."""
    path = f"{paths.state_dir()}/core.db"
    if not os.path.exists(path):
        return []
    # Whatever is wrong with it, what else is known is said.
    with contextlib.suppress(Exception):
        core = CoreStore(path, _BUSY_SECONDS)
        try:
            return _unread(core, core.project_id(root, None), root)
        finally:
            core.close()
    return []


def _unread(core: CoreStore, project_id: str | None, root: str) -> Unread:
    found = core.threads.unread(project_id) if project_id else []
    if not found:
        return []
    from handoffd.gate import Gate  # noqa: PLC0415

    refused = Gate(core, _config()).refusal(project_id, root)
    return [] if refused else found


def keep(core: CoreStore, project_id: str) -> None:
    """Let the brief of a project mention what is unread now, as the daemon would.

    The rest of it stays: where no checkpoint is written it is the only copy of the state.
    """
    root = core.project_root(project_id)
    if root is None:
        return
    unread, stamp = _unread(core, project_id, root), paths.checkpoint_stamp(root)
    known = fast.read_brief(root)
    if known is None:
        found = text(root, "L1", unread)
    else:
        found = briefing.mention_anew(known, root, unread)
    if found == (known or ""):
        return
    stamped = f"{root}\t{stamp}\n{found}"
    state, name = os.path.split(paths.brief_file(root))
    with files.directory(os.path.dirname(state), os.path.basename(state), create=True) as handle:
        files.write(handle, name, stamped.encode("utf-8", "replace"))
