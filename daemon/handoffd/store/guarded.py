"""A database that nobody can rebuild: copied, and never written to once it is damaged."""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from handoffd import clock
from handoffd.errors import DamagedError, StoreError
from handoffd.store import backup, damage
from handoffd.store.damage import Watched
from handoffd.store.database import (
    BUSY_SECONDS,
    LOOP_BUSY_SECONDS,
    connect,
    empty_log,
    prepare,
    remedy,
    scrub,
)
from handoffd.store.schema import JSON, MIGRATIONS

if TYPE_CHECKING:
    from handoffd.store.salvage import Salvaged


class GuardedStore:
    """A file that turns out to be damaged, at once or later, is never written nor discarded.

    A copy of it is kept aside, `damage` says what is wrong, and what can be read of it and of
    its copy stands in for it. Whatever would write is a DamagedError.
    """

    def __init__(
        self, path: str, busy_seconds: float = BUSY_SECONDS, *, check: bool = False
    ) -> None:
        self.path = path
        self.damage = ""
        # Whoever sets it sees to it that `rescue` is run beside, and `stand_in` after that; what
        # is asked until then is answered from the damaged file, as far as that goes.
        self.on_damage: Callable[[], None] | None = None
        # Of the damaged file, in which somebody may be in the middle of a transaction.
        self._left: Watched | None = None
        self._db = self._open(busy_seconds, check=check)
        self._tie()

    def _tie(self) -> None:
        """Let everything that asks use the connection that is there now."""

    def _open(self, busy_seconds: float, *, check: bool) -> Watched:
        if found := damage.find_before(self.path):
            return self._found_damaged(found)
        db = None
        try:
            db = connect(self.path, busy_seconds)
            prepare(db, self.path, durable=True, migrations=MIGRATIONS, busy_seconds=busy_seconds)
            found = damage.look_over(db, "quick_check(1)", JSON) if check else "ok"
        except sqlite3.DatabaseError as problem:
            if not damage.is_damage(problem):
                raise StoreError(
                    f"{self.path} cannot be used: {problem}. It is left as it is.",
                    remedy(problem),
                ) from None
            found = damage.describe(problem)
        if db is None or found != "ok":
            return self._found_damaged(found, db)
        db.damaged = self._give_up
        return db

    def _found_damaged(self, why: str, left: Watched | None = None) -> Watched:
        self._close_off(why, left)
        self._left = left
        return self._described(self._rescue(left))

    def _close_off(self, why: str, left: Watched | None) -> None:
        """Let nobody write any more; whoever meets the damage from now on is told the same."""
        self.damage = why.splitlines()[-1]
        damage.mark(self.path, self.damage)
        if left is not None:  # somebody may hold it still, or be in the middle of writing
            left.stands_in = self.damage
            left.damaged = lambda _why: damage.refusal(self.damage)

    def rescue(self) -> "Salvaged":
        """Keep the damaged file aside, and read what can be read of it; in a thread."""
        if not damage.size(self.path):  # SQLite would delete its log
            return self._rescue(None)
        # While we have it open ourselves nothing is written when this one is closed.
        with contextlib.ExitStack() as stack:
            lock = None
            with contextlib.suppress(sqlite3.DatabaseError):
                lock = connect(self.path, LOOP_BUSY_SECONDS)
                stack.callback(lock.close)
            return self._rescue(lock)

    def _rescue(self, lock: sqlite3.Connection | None) -> "Salvaged":
        from handoffd.store.salvage import salvage  # noqa: PLC0415  seldom needed

        try:
            damage.keep_aside(self.path, lock)
        except StoreError as problem:
            self.damage += f"; {problem.title.lower().rstrip('.')}"
        return salvage(self.path)

    def stand_in(self, found: "Salvaged") -> None:
        """Answer from what was rescued."""
        self._left, self._db = self._db, self._described(found)
        self._tie()

    def _described(self, found: "Salvaged") -> Watched:
        if found.blind:
            self.damage += "; what is paused is not known, so everything is"
        found.db.stands_in = self.damage
        return found.db

    def _give_up(self, why: str) -> DamagedError:
        """Go on with what can be read; returns what whoever noticed it is told."""
        if self.on_damage is None:
            self._db = self._found_damaged(why, self._db)
            self._tie()
        else:
            self._close_off(why, self._db)
            self.on_damage()
        return damage.refusal(self.damage)

    def look_again(self, found: str = "") -> None:
        """Take note of damage that was found otherwise: by a close look, or by another process."""
        if not self.damage and (found := found or damage.find_known(self.path)):
            self._give_up(found)

    def require_whole(self) -> None:
        if self.damage:
            raise damage.refusal(self.damage)

    def _require_rescued(self) -> None:
        """Refuse while the damaged file itself is still asked."""
        if self._db.path:
            raise damage.refusal(self.damage)

    def close(self) -> None:
        if not self.damage and damage.is_lost(self.path):
            self._close_off(damage.LOST, self._db)
        if self.damage:  # SQLite writes the log into the file, and deletes it
            with contextlib.suppress(StoreError):
                damage.keep_aside(self.path, self._db if self._db.path else None)
        self._db.close()
        if self._left is not None:
            self._left.close()

    # Its copy

    def scrub(self) -> None:
        """Leave no erased byte in the file, its log and its copy."""
        self._require_sound()
        try:
            scrub(self._db, os.path.basename(self.path))
            backup.make(self._db, self.path)
        except StoreError:
            backup.drop(self.path)
            raise

    def shorten_log(self) -> None:
        """Bring the log into the file, and empty it unless somebody reads: little is in it alone.

        The first step, which may take long, holds up no writer; the second waits for nobody.
        """
        self.require_whole()
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        empty_log(self._db, 0)

    def needs_copy(self, every_seconds: float) -> bool:
        """Tell a copy that is old, or that has nothing yet of what is to be kept."""
        age, now = backup.age_seconds(self.path), clock.wall()
        # An entry of the future was written before the clock was set.
        return age > every_seconds or now - age - 1.0 < self._first_kept() < now

    def _first_kept(self) -> float:
        """Return the time of the oldest entry, which a copy should have; 0 without one."""
        return 0.0

    def back_up(self) -> None:
        """Make the copy anew; where there is none, it may be because a scrub was held up."""
        if backup.exists(self.path):
            self._require_sound()
            backup.make(self._db, self.path)
        else:
            self.scrub()

    def renew_copy(self) -> None:
        """Make the copy anew at once, if there is one: should this file be damaged, it knows."""
        if backup.exists(self.path):
            with contextlib.suppress(StoreError):
                self.back_up()

    def _drop_copies(self) -> None:
        self.require_whole()  # a copy may be all that is left
        backup.drop_all(self.path)

    def _require_sound(self) -> None:
        """Look closely before the copy goes: it may have what is missing without a trace."""
        self.require_whole()
        found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self._give_up(found)
