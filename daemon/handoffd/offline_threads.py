"""Threads without a daemon: the same rules, straight from core.db."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from handoff.errors import HandoffError
from handoffd import clock, offline_brief
from handoffd.api.handlers import thread
from handoffd.api.threads import archive_directory
from handoffd.config import Config
from handoffd.gate import Gate
from handoffd.offline_contract import open_core, read_params, shown
from handoffd.sources.projects import find_root
from handoffd.store.core import CoreStore
from handoffd.store.threads import Entry, Thread
from handoffd.workflow.threads import Threads


def run(
    params: dict[str, Any], style: dict[str, Any], config: Config
) -> tuple[dict[str, Any], str]:
    """Do what the daemon would, and show it as it would."""
    given = read_params(thread.METHOD, params)
    with opened(config, given.cwd) as (threads, used):
        data = thread.act(threads, given, used)
    return data, shown(thread.METHOD, data, style)


@contextlib.contextmanager
def opened(config: Config, directory: str) -> Iterator[tuple[Threads, Callable[[str], None]]]:
    """Open the threads, and what notes that one of them was used as code in a directory."""
    with open_core() as core:

        def changed(found: Thread, entry: Entry | None) -> None:
            # What Code itself says changes nothing of what it has not read.
            if entry is None or entry.from_client != "code":
                for project_id in core.threads.users(found.id):
                    _renew_brief(core, project_id)

        def used(thread_id: str) -> None:
            # What was asked for is done, whether this can be noted or not.
            with contextlib.suppress(HandoffError):
                project_id = _project(core, config, directory)
                if project_id and core.threads.note_use(thread_id, project_id):
                    _renew_brief(core, project_id)

        settings = config.threads
        archive = archive_directory() if settings.archive_on_close else ""
        threads = Threads(core.threads, core.scrub, archive, settings.refuse_secrets, changed)
        yield threads, used


def _project(core: CoreStore, config: Config, directory: str) -> str:
    """Return the id of a directory's project, unless nothing may be learned there."""
    root = find_root(directory)
    known = core.project_id(root.path, None)
    if not root.exists or Gate(core, config).refusal(known, root.path):
        return ""
    return known or core.project_id(root.path, clock.iso()) or ""


def _renew_brief(core: CoreStore, project_id: str) -> None:
    # The next daemon writes it anyway; what was asked for is done.
    with contextlib.suppress(HandoffError, OSError):
        offline_brief.keep(core, project_id)
