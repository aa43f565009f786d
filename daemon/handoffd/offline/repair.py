"""Repair the stores while no daemon uses them, after a person agreed.

A daemon does the same at its start.
"""

import os
from typing import Any

from handoffd.runtime import clock
from handoffd.runtime.directories import make_state_dir
from handoffd.runtime.lock import lock_instance
from handoffd.store import backup, damage, recovery
from handoffd.store.state import find_damage, move_aside

Data = dict[str, Any]


def look() -> Data:
    """Return the damage of the stores; change nothing."""
    core, state = _stores()
    data: Data = {"core": None, "state": None, "done": False}
    if problem := recovery.find_problem(core, "integrity_check(1)"):
        age = backup.age_seconds(core)
        copy_at = clock.iso(clock.wall() - age) if backup.exists(core) else None
        data["core"] = {"problem": problem, "copy_at": copy_at, "kept": None}
    if problem := find_damage(state):
        data["state"] = {"problem": problem, "moved_to": None}
    return data


def mend() -> Data:
    """Recover a damaged core.db, and move a damaged state.db aside."""
    core, state = _stores()
    lock = lock_instance(f"{os.path.dirname(core)}/handoffd.lock")
    try:
        data: Data = {"core": None, "state": None, "done": True}
        recovery.finish(core)
        if problem := recovery.find_problem(core, "integrity_check(1)"):
            found = recovery.recover(core, problem)
            data["core"] = {**found.as_data(), "note": found.describe()}
        if problem := find_damage(state):
            aside = damage.name_aside(state)
            move_aside(state, aside)
            data["state"] = {"problem": problem, "moved_to": aside}
        return data
    finally:
        os.close(lock)


def _stores() -> tuple[str, str]:
    directory = make_state_dir()
    return f"{directory}/core.db", f"{directory}/state.db"
