"""Begins anew with a damaged state.db: the transcripts hold everything that is in it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from handoffd.errors import StoreError
from handoffd.ingest.transcript_reader import TranscriptReader
from handoffd.runtime import log
from handoffd.store import damage
from handoffd.store.state import StateStore

RETRY_SECONDS = 10.0
SETTLE_SECONDS = 2.0


@dataclass(slots=True)
class StateRebuild:
    """Replaces a damaged state.db, and says so until everything is read again."""

    state: StateStore
    transcript_reader: TranscriptReader
    run: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    # Returns True if every transcript is read to its end.
    settled: Callable[[], bool]
    # The note for a person while state.db is being rebuilt.
    note: str = ""
    _reading: asyncio.Task[None] | None = None

    def begin_soon(self) -> None:
        """Begin when the statement that met the damage has given up."""
        asyncio.get_running_loop().call_soon(self.begin)

    def begin(self, aside: str = "") -> None:
        """Replace a state.db that was damaged while we used it; if that fails, try again later."""
        if not self.state.given_up:
            return
        aside = aside or damage.name_aside(self.state.path)
        try:
            self.state.renew(aside)
        except StoreError as problem:
            self.transcript_reader.problem = problem.title
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self.begin, aside)
            return
        self.transcript_reader.problem = ""
        self.transcript_reader.start_anew(
            {entry.cursor.session_id for entry in self.transcript_reader.entries.values()}
        )
        self.note_damage(aside)

    def note_damage(self, aside: str) -> None:
        """Note that state.db is being rebuilt, until everything is read again."""
        log.get().error("state_damaged", moved_to=aside)
        self.note = f"state.db was damaged; it is at {aside} and is being rebuilt."
        self._reading = self.run(self._wait_until_read())

    async def _wait_until_read(self) -> None:
        while True:
            await asyncio.sleep(SETTLE_SECONDS)
            if self.settled():
                break
        self.note = ""
        log.get().info("state_rebuilt")
