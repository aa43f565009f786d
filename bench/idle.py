"""What a daemon costs that has read everything and waits."""

import contextlib
import time

from measure import Row, Table
from servers import Ours
from world import PYTHON, World, resting_memory

from proc import cpu_seconds, memory_bytes, switches, threads

PROJECTS, SESSIONS_EACH, RECENT = 200, 5, 10
RELAYS = 10
RESIDENT_MOST_MB = 45.0
WAKE_UPS_MOST = 1.0
WINDOW_SECONDS = 20.0
# Time enough to write the recent checkpoints, to ask git and to choose what to watch.
SETTLE_SECONDS = 15.0
_HOUR = 3600.0
_IMPORTS = "import handoffd.app, sys; print('ready', flush=True); sys.stdin.read()"


def measure(table: Table) -> None:
    # In memory: a wait for the disk would be counted as a wake-up.
    with World(in_memory=True) as world:
        for number in range(PROJECTS):
            recent = number < RECENT
            project = world.project(f"project{number}", git=recent)
            for index in range(SESSIONS_EACH):
                ago = (1 + index) * _HOUR if recent else (30 + number + index) * 24 * _HOUR / 8
                seed = number * SESSIONS_EACH + index
                world.session(project, 12_000, seed=seed, ago_seconds=ago)
        imports = [PYTHON, "-P", "-c", _IMPORTS]
        floor_mb = resting_memory(imports, world.environment)[0] / 1e6
        world.start().settle(0.5)
        time.sleep(SETTLE_SECONDS)
        _report(table, world.pid, floor_mb)
        _report_relays(table, world)


def _report(table: Table, pid: int, floor_mb: float) -> None:
    before, busy = switches(pid), cpu_seconds(pid)
    time.sleep(WINDOW_SECONDS)
    after, busy = switches(pid), cpu_seconds(pid) - busy
    woken = sum(count - before.get(task, 0) for task, count in after.items())
    resident, proportional = memory_bytes(pid)
    table.add(
        Row(
            f"idle after {PROJECTS * SESSIONS_EACH} sessions: RSS",
            f"{resident / 1e6:.1f} MB",
            f"{floor_mb:.1f} MB (imports alone)",
            resident / 1e6 / floor_mb,
            f"<= {RESIDENT_MOST_MB:g} MB",
            resident / 1e6 <= RESIDENT_MOST_MB,
        )
    )
    table.add(Row("idle: PSS", f"{proportional / 1e6:.1f} MB"))
    table.add(Row("idle: threads", str(threads(pid))))
    table.at_most("idle: wake-ups", woken / WINDOW_SECONDS, WAKE_UPS_MOST, "/s")
    table.add(Row("idle: processor", f"{busy / WINDOW_SECONDS:.3%}"))


def _report_relays(table: Table, world: World) -> None:
    """Add what the daemon weighs behind relays that have all been used."""
    ours = Ours(world)
    with contextlib.ExitStack() as stack:
        for number in range(RELAYS):
            session = stack.enter_context(ours.open())
            session.initialize()
            session.ask("tools/list")
            ours.converse(session, 2 * number)
        resident, _ = memory_bytes(world.pid)
    what = f"{RELAYS} relays open: RSS of the daemon"
    table.at_most(what, resident / 1e6, RESIDENT_MOST_MB, "MB")
