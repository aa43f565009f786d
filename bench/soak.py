"""A day of work in 200 projects, replayed at 100 times its pace: losses and growth.

bench/soak.py [--minutes N] [--seed N] [--record]: it runs the handoffd of the interpreter that runs
it, in a temporary HOME that goes with it, also after Ctrl-C.
"""

import argparse
import collections
import contextlib
import json
import os
import sqlite3
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import promises
import work
from day import FACTOR, IDLE_SECONDS, PROJECTS, TRACK, Day
from measure import Row, Table, quantile, seconds, slope
from world import World

from proc import children, cpu_seconds, descriptors, memory_bytes, switches, threads

# A look every five seconds, a record every ten; a machine may be busy.
KNOWN_SECONDS = IDLE_SECONDS + 90.0
REST_SECONDS = 10.0
# Longer than the interval of five seconds between two looks, and than their effects.
QUIET_SECONDS = 8.0
WARM_SHARE = 0.25
# Of a session or a project of the last day some kilobytes are kept, and no day is over here.
GROWTH_MOST_MB = 10.0
THREADS_MOST = 8
# SQLite keeps one that it may not close while another connection has locks, and uses it again.
DESCRIPTORS_MOST = 2
WAKE_UPS_MOST, CPU_MOST = 1.0, 0.005
# A silence that is so much longer than the limit is idle for certain, however late a look comes.
IDLE_SLACK_SECONDS = 60.0


@dataclass
class Sample:
    at: float
    resident: int
    proportional: int
    descriptors: int
    threads: int
    children: frozenset[int]
    records: int
    answered_seconds: float


@dataclass
class Watch:
    """Looks at a daemon every second, in a thread."""

    world: World
    samples: list[Sample] = field(default_factory=list)
    # Those of the time in which somebody worked.
    played: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self.descriptors_before = descriptors(self.world.pid)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            try:
                self.samples.append(self._look())
            except (OSError, RuntimeError, ValueError) as problem:
                self.failures.append(f"status: {problem!r}")

    def _look(self) -> Sample:
        pid = self.world.pid
        asked = time.perf_counter()
        with contextlib.closing(self.world.connect()) as connection:
            records = connection.call("status")["records"]
        took = time.perf_counter() - asked
        return Sample(
            time.monotonic(), *memory_bytes(pid), descriptors(pid), threads(pid),
            frozenset(children(pid)), records, took,
        )  # fmt: skip


@dataclass
class Rest:
    """The activity and the resources of a daemon that has nothing to do."""

    wake_ups: float
    cpu: float
    writes: int
    children: int
    descriptors: int
    resident: int


def rest(world: World) -> Rest:
    pid = world.pid
    before = _come_to_rest(world)
    woken, busy = switches(pid), cpu_seconds(pid)
    time.sleep(REST_SECONDS)
    after, busy = switches(pid), cpu_seconds(pid) - busy
    wake_ups = sum(count - woken.get(task, 0) for task, count in after.items())
    held = len(children(pid)), descriptors(pid), memory_bytes(pid)[0]
    written = _written(world) - before
    return Rest(wake_ups / REST_SECONDS, busy / REST_SECONDS, written, *held)


def _come_to_rest(world: World) -> int:
    """Wait until all pending writes are done; return the number of writes."""
    deadline = time.monotonic() + KNOWN_SECONDS
    before, now = -1, _written(world)
    log = world.home / ".local/state/handoffd/core.db-wal"  # emptied within a minute
    while (now != before or log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(QUIET_SECONDS)
        before, now = now, _written(world)
    return now


def _written(world: World) -> int:
    """Return the number of written files and read records."""
    with contextlib.closing(world.connect()) as connection:
        status = connection.call("status")
    time.sleep(0.2)  # to hang up is a wake-up, too
    return sum(status[what] for what in ("writes", "handoffs", "track_records", "records"))


# The knowledge of handoffd, beside the actions


@dataclass
class Known:
    """The content of its stores and files; the differences are counted by their kind."""

    day: Day
    missed: collections.Counter[str] = field(default_factory=collections.Counter)
    examples: list[str] = field(default_factory=list)

    def miss(self, kind: str, what: str, number: int = 1) -> None:
        if number > 0:
            self.missed[kind] += number
            self.examples.append(f"{kind}: {what}")

    def compare(self) -> "Known":
        self.missed.clear()
        self.examples.clear()
        with contextlib.closing(self.day.world.connect()) as connection:
            self._sessions(connection)
            self._documents(connection)
        with contextlib.closing(self._open("core.db")) as core:
            self._triggers(core)
            self._threads(core)
        self._handoffs()
        self._notes()
        return self

    def _open(self, name: str) -> sqlite3.Connection:
        path = self.day.world.home / f".local/state/handoffd/{name}"
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)

    def _sessions(self, connection) -> None:
        """Compare how many records each session has, and its goal."""
        found = {}
        for project in {told.script.cwd for told in self.day.sessions}:
            answer = connection.call("sessions", project=project, limit=1000)
            found |= {item["session_id"]: item for item in answer["sessions"]}
        for told in self.day.sessions:
            item = found.get(told.script.id, collections.defaultdict(int))
            for name in ("records", "agent_records", "prompts", "compactions"):
                number = item[name] - getattr(told, name)
                self.miss("lost", f"{name} of {told.path}", -number)
                self.miss("twice", f"{name} of {told.path}", number)
            if told.goal and item["goal"] != told.goal:
                self.miss("wrong", f"{told.goal!r}, found {item['goal']!r}")

    def _documents(self, connection) -> None:
        """Compare branch and files of each project, as they are told."""
        told = {told.script.id: told for told in self.day.sessions}
        for project in {told.script.cwd for told in self.day.sessions}:
            document = connection.call("show", cwd=project)["document"]
            head = Path(project, ".git/HEAD").read_text().strip()
            if document["branch"] != head.rpartition("/")[2]:
                self.miss("wrong", f"{project}: {document['branch']}, not {head}")
            shown = told.get(str(document.get("session")))
            if shown and shown.edited.removeprefix(f"{project}/") not in document["files"]:
                self.miss("wrong", f"{project}: {shown.edited} is missing")

    def _triggers(self, core: sqlite3.Connection) -> None:
        """Compare the fired triggers with the events: each cause once, each record once."""
        rows = core.execute("SELECT trigger, project_id, session_id, outcome FROM triggers")
        fired: collections.Counter[tuple[str, str]] = collections.Counter()
        files: list[str] = []
        roots = dict(core.execute("SELECT id, root FROM projects").fetchall())
        for trigger, project_id, session_id, outcome in rows:
            whose = session_id if trigger == "idle" else roots[project_id]
            fired[trigger, whose] += 1
            if outcome is None:
                self.miss("not fired", f"{trigger} of {whose} is pending")
            files += [path] if (path := json.loads(outcome or "{}").get("file")) else []
        for told in self.day.sessions:
            gaps = told.silences
            # And it fell silent for good.
            least = 1 + sum(gap > IDLE_SECONDS + IDLE_SLACK_SECONDS for gap in gaps)
            most = 1 + sum(gap > IDLE_SECONDS - 1 for gap in gaps)
            number = fired["idle", told.script.id]
            since = f"{told.ending}, last at {told.heard_at:.3f}, in {Path(told.script.cwd).name}"
            self.miss("not fired", f"idle of {told.script.id} ({since})", least - number)
            self.miss("fired twice", f"idle of {told.script.id}", number - most)
        for project, expected in self.day.epics.items():
            for trigger, number in expected.items():
                more = fired[trigger, str(project)] - number
                self.miss("not fired", f"{trigger} of {project}", -more)
                self.miss("fired twice", f"{trigger} of {project}", more)
        made = (self.day.world.home / "code").glob(f"*/conductor/handoffs/{TRACK}/*.md")
        on_disk = sum(path.name != "index.md" for path in made)
        self.miss("fired twice", "track records on disk", abs(on_disk - len(set(files))))
        self.fired = sum(fired.values())

    def _threads(self, core: sqlite3.Connection) -> None:
        counted = "SELECT handoff_id, COUNT(*) FROM handoff_entries GROUP BY handoff_id"
        found = dict(core.execute(counted).fetchall())
        for key in found.keys() | self.day.threads.keys():
            number = found.get(key, 0) - self.day.threads.get(key, 0)
            self.miss("lost", f"entries of {key}", -number)
            self.miss("twice", f"entries of {key}", number)

    def _handoffs(self) -> None:
        """Check that every session of a person left its one handoff."""
        # A directory's name in the first encoding, where it differs, is a link to the other.
        found = (self.day.world.home / ".claude/handoffs").glob("*/*.md")
        texts = [path.read_text() for path in {path.resolve() for path in found}]
        left = collections.Counter(
            line.removeprefix("session_id: ")
            for text in texts
            for line in text.splitlines()[:6]
            if line.startswith("session_id: ")
        )
        for told in self.day.sessions:
            if not told.headless:
                self.miss("no handoff", str(told.path), 1 - left[told.script.id])
            self.miss("two handoffs", str(told.path), left[told.script.id] - 1)

    def _notes(self) -> None:
        for path, note in self.day.notes:
            if note not in path.read_text():
                self.miss("words lost", f"{note} of {path}")


def know(day: Day) -> Known:
    """Wait until everything is known that should be, or long enough."""
    day.world.settle()
    known = Known(day)
    deadline = time.monotonic() + KNOWN_SECONDS
    time.sleep(IDLE_SECONDS)
    while known.compare().missed and time.monotonic() < deadline:
        time.sleep(2.0)
    return known


# The verdict


def report(table: Table, day: Day, watch: Watch, known: Known, after: Rest) -> None:
    written = sum(told.records + told.agent_records for told in day.sessions)
    happened = ", ".join(f"{number} {what}" for what, number in sorted(day.done.items()))
    size = sum(path.stat().st_size for path in day.world.transcripts.rglob("*.jsonl")) / 1e6
    what = f"{day.minutes:g} min: {len(day.sessions)} sessions in {PROJECTS} projects"
    table.add(Row("what happened", f"{what}, {written} records, {size:.0f} MB"))
    table.add(Row("and", happened))
    sessions = f"of {written} records, {sum(day.threads.values())} entries"
    table.none("lost", known.missed["lost"], sessions)
    table.none("counted twice", known.missed["twice"])
    table.none("goal, branch or file wrong", known.missed["wrong"])
    table.none("sessions without a handoff", known.missed["no handoff"])
    table.none("sessions with two handoffs", known.missed["two handoffs"])
    table.none("triggers missing", known.missed["not fired"], f"of {known.fired}")
    table.none("triggers or records twice", known.missed["fired twice"])
    table.none("a person's words lost", known.missed["words lost"], f"of {len(day.notes)}")
    table.none("programs that failed", len(day.failures) + len(watch.failures))
    _report_memory(table, day, watch, after)
    answered = [sample.answered_seconds for sample in watch.samples]
    p50, p99 = (seconds(quantile(answered, share)) for share in (0.5, 0.99))
    table.add(Row("`status` meanwhile", f"p50 {p50}, p99 {p99}"))
    busy = f"{max(len(sample.children) for sample in watch.samples)} at most"
    stayed = watch.samples[-1].children
    for sample in watch.samples[-5:]:
        stayed &= sample.children
    table.none("children at rest", after.children + len(stayed), busy)
    if is_long(day):
        table.at_most("wake-ups at rest", after.wake_ups, WAKE_UPS_MOST, "/s")
        table.at_most("processor at rest", after.cpu * 100, CPU_MOST * 100, "%")
        table.none("writes at rest", after.writes)
    else:  # on a busy machine the last work is just being done
        told = f"{after.wake_ups:.1f} wake-ups/s, {after.cpu:.2%} of a core, {after.writes} writes"
        table.add(Row("at rest", told))


def _report_memory(table: Table, day: Day, watch: Watch, after: Rest) -> None:
    warm = watch.played[int(len(watch.played) * WARM_SHARE) :]
    began = warm[0].at
    hourly = slope([((s.at - began) / 3600, s.resident / 1024) for s in warm])
    growth = (after.resident - warm[0].resident) / 1e6
    records = warm[-1].records - warm[0].records
    span = f"{warm[0].resident / 1e6:.1f} to {after.resident / 1e6:.1f} MB"
    table.at_most("RSS after warm-up", growth, GROWTH_MOST_MB, "MB", f"{span}, {records} records")
    if is_long(day):
        each = slope([(s.records / 1e3, s.resident / 1024) for s in warm])
        figure = f"{hourly:+.0f} KB an hour, {each:+.0f} KB per 1,000 records"
        table.add(Row("RSS, by least squares", figure))
    highest = max(sample.descriptors for sample in watch.samples)
    same = f"{watch.descriptors_before} before, {highest} at most"
    stay = after.descriptors - watch.descriptors_before
    table.at_most("descriptors that stay", stay, DESCRIPTORS_MOST, "", same)
    most = max(sample.threads for sample in watch.samples)
    table.at_most("threads", most, THREADS_MOST, "")


def is_long(day: Day) -> bool:
    """Return True if a run is long enough for a slope."""
    return day.minutes >= 5


def figures(table: Table) -> dict[str, str]:
    """Return the figures for bench/promises.md, by the row's command."""
    rows = {row.what: row for row in table.rows}

    def said(*names: str) -> str:
        found = [row for name in names if (row := rows.get(name))]
        missed = {True: "", None: "", False: " (**missed**)"}
        return "; ".join(f"{row.what}: {row.figure.strip()}{missed[row.passed]}" for row in found)

    return {
        "make soak": rows["what happened"].figure + "; " + said("lost", "counted twice"),
        "make soak # truth": said(
            "goal, branch or file wrong", "sessions without a handoff", "a person's words lost"
        ),
        "make soak # triggers": f"{rows['triggers missing'].floor}: "
        + said("triggers missing", "triggers or records twice"),
        "make soak # memory": said(
            "RSS after warm-up", "RSS, by least squares", "descriptors that stay", "threads",
        ),
        "make soak # answers": said("`status` meanwhile").replace("`", ""),
        "make soak # rest": said(
            "children at rest", "wake-ups at rest", "processor at rest", "writes at rest"
        ),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--minutes", type=float, default=work.DAY_MINUTES, help="%(default)s: a day"
    )
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--record", action="store_true", help="enter them in bench/promises.md")
    options = parser.parse_args()
    table = Table()
    with World() as world, contextlib.ExitStack() as stack:
        day = Day(world, options.minutes, options.seed)
        stack.callback(day.close)
        day.prepare()
        world.start().settle()
        print(
            f"{options.minutes:g} minutes at {FACTOR} times the pace", file=sys.stderr, flush=True
        )
        with Watch(world) as watch:
            day.play(work.workers(day))
            watch.played = list(watch.samples)
            day.reap()
            known = know(day)
        after = rest(world)
        report(table, day, watch, known, after)
        for line in (*known.examples[:20], *day.failures[:5], *watch.failures[:5]):
            print(line.replace(os.fspath(world.base), ""), file=sys.stderr)
    table.print()
    if options.record:
        promises.enter(figures(table))
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
