"""Mending the stores, with nobody at work in them: shown first, done when a person agrees.

core.db is made anew of all that can be read of it, of its log and of its copy. state.db is only
moved away, since the transcripts hold all of it.
"""

import contextlib
import os
from dataclasses import asdict
from typing import Any

from handoffd import clock
from handoffd.errors import StoreError
from handoffd.lock import lock_instance
from handoffd.paths import make_state_dir
from handoffd.store import backup, damage
from handoffd.store.core import CoreStore
from handoffd.store.frames import Patched
from handoffd.store.salvage import Salvaged, salvage, write
from handoffd.store.schema import JSON
from handoffd.store.state import find_damage, move_aside, project_roots
from handoffd.store.wreck import new_name

_INTERRUPTED = "a repair of it was interrupted"
_AGAIN = "it was found damaged before, and is whole now"

Data = dict[str, Any]


def look() -> Data:
    """Return what is wrong and what would be done; changes nothing."""
    directory = make_state_dir()
    core, state = f"{directory}/core.db", f"{directory}/state.db"
    data: Data = {"core": None, "state": None, "done": False}
    if problem := _core_problem(core):
        data["core"] = {"problem": problem, "kept": None}
        if problem not in (_INTERRUPTED, _AGAIN):
            found = salvage(core, project_roots(state))
            found.db.close()
            data["core"] |= _described(found)
    if problem := find_damage(state, closely=True):
        data["state"] = {"problem": problem, "moved_to": None}
    return data


def mend() -> Data:
    """Do it; whoever holds the daemon's lock is at work in the stores, and is left alone."""
    directory = make_state_dir()
    lock = lock_instance(f"{directory}/handoffd.lock")
    try:
        core, state = f"{directory}/core.db", f"{directory}/state.db"
        data: Data = {"core": None, "state": None, "done": True}
        if problem := _core_problem(core):
            data["core"] = {"problem": problem, **_mend_core(core, state, problem)}
        if problem := find_damage(state, closely=True):
            aside = f"{state}.damaged-{clock.iso().replace(':', '')}"
            move_aside(state, aside)
            data["state"] = {"problem": problem, "moved_to": aside}
        return data
    finally:
        os.close(lock)


def _core_problem(path: str) -> str:
    """Return what is wrong with core.db, or nothing; to look leaves it as it is."""
    known = damage.is_known(path)
    if os.path.lexists(path + damage.MENDED):
        return _INTERRUPTED
    if damage.is_lost(path) or (known and not damage.size(path)):
        return damage.LOST
    if not os.path.lexists(path):
        return ""
    if not os.path.isfile(path) or os.path.islink(path):
        raise StoreError(f"{path} is no file.", "Move it away, then run this again.")
    if found := damage.log_fault(path):
        return found
    found = damage.examine(path, "integrity_check(1)", JSON).splitlines()[-1]
    if found != "ok":
        return found
    return _AGAIN if known else ""


def _mend_core(path: str, state: str, problem: str) -> Data:
    backup.drop_unfinished(path)
    if problem == _INTERRUPTED:
        return {"kept": damage.finish(path)}
    if problem == _AGAIN:
        return {"kept": damage.retire(path)}
    damage.keep_aside(path)
    found = salvage(path, project_roots(state))
    try:
        kept = damage.place(path, _written(found, path))
    finally:
        found.db.close()
    # The copy is made anew only if the one that we took from can be kept, too.
    with contextlib.suppress(OSError), contextlib.closing(CoreStore(path)) as core:
        os.link(path + backup.SUFFIX, kept + backup.SUFFIX)
        core.renew_copy()
    return {"kept": kept, **_described(found)}


def _written(found: Salvaged, path: str) -> str:
    """Write what was saved to a new file, whole and on disk; returns where."""
    new = new_name(path)
    write(found, new)
    wrong = damage.examine(new, "integrity_check")
    if wrong != "ok":
        os.unlink(new)
        text = f"What was made of core.db is not whole ({wrong}); nothing was changed."
        raise StoreError(text, "Please report it.")
    return new


def _described(found: Salvaged) -> Data:
    copy_at = clock.iso(found.copy_at) if found.copy_at else None
    tables = {name: asdict(kept) for name, kept in found.tables.items() if name != "birth"}
    return {
        "tables": tables, "copy_at": copy_at, "all_paused": found.blind, "log": _log(found.log)
    }  # fmt: skip


def _log(found: Patched | None) -> Data | None:
    if found is None:
        return None
    return {
        "taken": found.taken,
        "damaged": found.damaged,
        "older_pages": sorted(page for page in found.stale if page),
        "unknown_page": None in found.stale,
    }
