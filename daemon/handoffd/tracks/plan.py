"""Computes the progress of a track: one definition for all uses. Pure."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from handoffd.session.text import keep
from handoffd.tracks.markdown import lines_of, marked

TASK_MAX = 200
PHASE_MAX = 120
_TASKS_MAX = 200
_TASK = re.compile(r"\s*(?:[-*+]|\d{1,4}[.)])\s+\[(?P<box>[ xX~!])\](?P<text>(?:\s.*)?)")
_HEADING = re.compile(r"\s{0,3}(?P<level>#{1,6})\s+(?P<title>.*)")
_PHASE = re.compile(r"(?i)\W{0,4}phase\b")
_DONE, _CURRENT, _OPEN, _BLOCKED = "x", "~", " ", "!"


class Progress(NamedTuple):
    """Tasks done and in total. `source` is `beads`, `plan`, or empty if there is neither."""

    done: int = 0
    total: int = 0
    source: str = ""
    # The other source, in words, if it says something else.
    differs: str = ""

    @property
    def percent(self) -> int:
        return self.done * 100 // self.total if self.total else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "percent": self.percent,
            "done": self.done,
            "total": self.total,
            "source": self.source,
        }


class TrackPlan(NamedTuple):
    """The check boxes of a plan.md."""

    progress: Progress
    # The heading above the first task that is not done.
    phase: str
    # `[~]`, then `[ ]` and `[!]`, in order.
    current: Sequence[str]
    open: Sequence[str]
    blocked: Sequence[str]
    # Boxes done and in total by each reading: all, the outer ones, those without inner ones.
    counts: frozenset[tuple[int, int]]


class _Task(NamedTuple):
    box: str
    text: str
    phase: str
    indent: int


class PlannedWork(NamedTuple):
    """The tasks in progress, open and blocked, from the plan or from Beads."""

    current: Sequence[str] = ()
    open: Sequence[str] = ()
    blocked: Sequence[str] = ()

    @classmethod
    def of_plan(cls, plan: TrackPlan | None) -> "PlannedWork":
        return cls(plan.current, plan.open, plan.blocked) if plan else cls()


def read_plan(text: str) -> TrackPlan:
    """Read the check boxes of list items.

    `[x]` and `[X]` (done), `[~]` (begun), `[!]` (blocked) and `[ ]` (open) are tasks. `[-]` was
    dropped and is not a task.
    """
    tasks = _tasks(text)
    done = sum(task.box == _DONE for task in tasks)
    first = next((task for task in tasks if task.box != _DONE), None)
    return TrackPlan(
        Progress(done, len(tasks), "plan") if tasks else Progress(),
        keep(first.phase, PHASE_MAX) if first else "",
        _texts(tasks, _CURRENT),
        _texts(tasks, _OPEN),
        _texts(tasks, _BLOCKED),
        frozenset(map(_count, (tasks, _outer(tasks), _innermost(tasks)))),
    )


def _tasks(text: str) -> list[_Task]:
    tasks: list[_Task] = []
    headings: list[tuple[int, str]] = []
    for line, mark in marked(lines_of(text)):
        if mark:
            continue
        if found := _HEADING.fullmatch(line):
            level = len(found["level"])
            headings = [above for above in headings if above[0] < level]
            headings.append((level, found["title"].rstrip("# ")))
        elif found := _TASK.fullmatch(line):
            indent = len(line) - len(line.lstrip())
            tasks.append(_Task(found["box"].lower(), found["text"], _phase(headings), indent))
    return tasks


def _count(tasks: Sequence[_Task]) -> tuple[int, int]:
    return sum(task.box == _DONE for task in tasks), len(tasks)


def _outer(tasks: Sequence[_Task]) -> list[_Task]:
    least = min((task.indent for task in tasks), default=0)
    return [task for task in tasks if task.indent == least]


def _innermost(tasks: Sequence[_Task]) -> list[_Task]:
    following = [*(task.indent for task in tasks[1:]), 0]
    pairs = zip(tasks, following, strict=False)
    return [task for task, indent in pairs if indent <= task.indent]


def _phase(headings: Sequence[tuple[int, str]]) -> str:
    """Return the heading of a task: the nearest one called a phase, or else the nearest one."""
    titles = [title for _, title in reversed(headings)]
    return next((title for title in titles if _PHASE.match(title)), titles[0] if titles else "")


def _texts(tasks: Sequence[_Task], box: str) -> tuple[str, ...]:
    found = [task.text for task in tasks if task.box == box]
    return tuple(keep(text, TASK_MAX) for text in found[:_TASKS_MAX])


def progress(plan: TrackPlan | None, tasks: Sequence[str] | None) -> Progress:
    """Return the progress by the statuses of the tasks in Beads, or else by the plan.

    The plan may count finer or coarser than Beads; it differs only if no reading of it agrees.
    """
    counted = [status for status in tasks or () if status != "tombstone"]
    planned = plan.progress if plan else Progress()
    if not counted:
        return planned
    done, total = counted.count("closed"), len(counted)
    agrees = plan is None or not planned.total or (done, total) in plan.counts
    differs = "" if agrees else f"the plan says {planned.done}/{planned.total}"
    return Progress(done, total, "beads", differs)
