"""Threads without a daemon: the same rules, straight from core.db."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from handoff.common.errors import HandoffError
from handoff.common.paths import config_file
from handoffd import config
from handoffd.api.handlers import thread
from handoffd.api.method import shown
from handoffd.api.terminal_text import Style
from handoffd.api.thread_calls import build, concerned
from handoffd.errors import ThreadError
from handoffd.offline import brief
from handoffd.offline.method import open_core, read_params
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_root import find_root
from handoffd.runtime import clock
from handoffd.store.core import CoreStore
from handoffd.store.threads import Thread, ThreadEntry
from handoffd.threads.service import Result, ThreadService


def run(params: dict[str, Any], style: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Do what the daemon would, and show it as it would."""
    given = read_params(thread.METHOD, params)
    with opened(given.cwd) as (threads, used):
        data = thread.act(threads, given, used)
    return data, shown(thread.METHOD, data, Style.model_validate(style))


@contextlib.contextmanager
def opened(directory: str) -> Iterator[tuple[ThreadService, Callable[[str], None]]]:
    """Open the threads, and what notes that one of them was used as code in a directory.

    A configuration that cannot be read keeps nobody from a thread; but what the user wants
    cannot be known then, so nothing is done that they might not.
    """
    try:
        settings, problem = config.load(config_file()), ""
    except HandoffError as found:
        settings, problem = config.Config(), str(found)
    with open_core() as core:

        def changed(found: Thread, entry: ThreadEntry | None) -> None:
            for project_id in concerned(core, found, entry):
                _renew_brief(core, project_id)

        def used(thread_id: str) -> None:
            # What was asked for is done, whether this can be noted or not.
            with contextlib.suppress(Exception):
                if directory and not problem:
                    _note_use(
                        core,
                        LearningPolicy(core, config.LiveConfig(settings)),
                        directory,
                        thread_id,
                    )

        threads = build(core, settings.threads, changed)
        if problem:
            threads = _Wary(core.threads, core.scrub, changed=changed, problem=problem)
        yield threads, used


@dataclass(frozen=True, slots=True)
class _Wary(ThreadService):
    """Threads of which nobody knows whether a copy is wanted when they are closed."""

    refuse_secrets: bool = True
    problem: str = ""

    def close(self, _thread_id: str) -> Result:
        raise ThreadError("It stays open, as a copy may be wanted.", self.problem)


def _note_use(
    core: CoreStore, learning_policy: LearningPolicy, directory: str, thread_id: str
) -> None:
    """Note what a project used, unless nothing may be learned there."""
    root = find_root(directory)
    if not root.exists:
        return
    known = core.project_id(root.path, None)
    if learning_policy.refusal(known, root.path):
        if known:  # what its brief mentions may be from before
            _renew_brief(core, known)
        return
    project_id = known or core.project_id(root.path, clock.iso())
    if project_id and core.threads.note_use(thread_id, project_id):
        _renew_brief(core, project_id)


def _renew_brief(core: CoreStore, project_id: str) -> None:
    # The next daemon writes it anyway; what was asked for is done.
    with contextlib.suppress(HandoffError, OSError):
        brief.keep(core, project_id)
