"""Keeps core.db while the daemon runs: its log, its copy, its erased bytes, and its recovery."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.errors import DamagedError, StoreError
from handoffd.runtime import log
from handoffd.store import damage, recovery
from handoffd.store.core import CoreStore
from handoffd.store.database import LOOP_BUSY_SECONDS


def recover_before_opening(path: str) -> None:
    """Recover core.db before it is opened, if it is damaged."""
    recovery.finish(path)
    if problem := recovery.find_problem(path):
        log.get().error("core_damaged", why=problem)
        log.get().warning("core_mended", note=recovery.recover(path, problem).describe())


@dataclass(slots=True)
class CoreKeeper:
    """Does the work on the file as a whole; in a thread, since the file may be large."""

    core: CoreStore
    # Held by each task that writes core.db, or its copy, anew.
    wiping: asyncio.Lock
    run: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    # Called when core.db was replaced.
    recovered: Callable[[], None]
    # Why a damaged core.db could not be replaced, and why it could not be copied.
    problem: str = ""
    copy_problem: str = ""
    _recovery: asyncio.Task[None] | None = None

    async def look(self) -> None:
        """Bring the log of core.db into it, and copy it when due."""
        try:
            if self.core.restore_deleted():
                log.get().warning("core_restored", why="it was deleted")
            if self.problem or recovery.is_lost(self.core.path):
                if problem := recovery.find_problem(self.core.path):
                    self.recover_soon(problem, retry=True)
                    return
                self.problem = ""
            due = self.core.needs_copy()
            if not due and not damage.size(self.core.path + damage.LOG):
                return
            async with self.wiping:
                await asyncio.to_thread(_keep, self.core.path, due=due)
        except DamagedError as damaged:
            self.recover_soon(damaged.title)
        except (OSError, HandoffError) as failed:
            self.copy_problem = str(failed).splitlines()[0]
            log.get().warning("copy_failed", why=self.copy_problem)
        else:
            self.copy_problem = ""

    def recover_soon(self, why: str, *, retry: bool = False) -> None:
        """Recover core.db as soon as the statement that met the damage has given up.

        While that fails, as on a full disk, only the look of each minute tries again.
        """
        idle = self._recovery is None or self._recovery.done()
        if idle and (retry or not self.problem):
            log.get().error("core_damaged", why=why)
            self._recovery = self.run(self._recover(why))

    async def _recover(self, why: str) -> None:
        async with self.wiping:
            self.core.suspend()
            try:
                found = await asyncio.to_thread(recovery.recover, self.core.path, why)
            except StoreError as problem:
                self.problem = problem.title
                log.get().error("core_not_mended", why=problem.title)
            else:
                self.problem = ""
                log.get().warning("core_mended", note=found.describe())
            self.core.resume()
        self.recovered()

    async def wait(self) -> None:
        """Wait until a damaged core.db is replaced."""
        if self._recovery is not None:
            await asyncio.wait([self._recovery])

    async def wipe(self) -> None:
        """Leave no erased byte in core.db: it is written anew as a whole."""
        async with self.wiping:
            await asyncio.to_thread(_scrub, self.core.path)

    async def renew_copy(self) -> None:
        """Let the copy of core.db know of a pause at once, should core.db be damaged later."""
        async with self.wiping:
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(_renew_copy, self.core.path)


# Each in a thread, with a connection of its own


def _keep(path: str, *, due: bool) -> None:
    with contextlib.closing(CoreStore(path, LOOP_BUSY_SECONDS)) as core:
        core.shorten_log()
        if due:
            core.back_up()


def _scrub(path: str) -> None:
    with contextlib.closing(CoreStore(path)) as core:
        core.scrub()


def _renew_copy(path: str) -> None:
    with contextlib.closing(CoreStore(path)) as core:
        core.renew_copy()
