"""The issues of a tracker as a tree: the tasks below an epic, and those that are ready. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from handoffd.links.beads_issues import IssueLine
from handoffd.links.tracker import Issue
from handoffd.runtime import clock

_NUMBERS = re.compile(r"\d+")
CLOSED, OPEN = "closed", "open"


class TaskCount(NamedTuple):
    """The tasks of an epic: their number, the closed ones, and the times of the last changes."""

    total: int = 0
    closed: int = 0
    updated_at: float = 0.0
    closed_at: float = 0.0

    @property
    def is_done(self) -> bool:
        return 0 < self.total == self.closed


@dataclass(frozen=True, slots=True)
class IssueTree:
    """All issues of a project. An issue is a child by an edge or, if it has none, by its id."""

    lines: Mapping[str, IssueLine]
    _children: dict[str, list[Issue]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for line in self.lines.values():
            issue = line.issue
            self._children.setdefault(issue.parent or _parent_by_id(issue.id), []).append(issue)

    @property
    def epics(self) -> list[Issue]:
        return [line.issue for line in self.lines.values() if line.issue.type == "epic"]

    def without_texts(self) -> "IssueTree":
        """Return the tree without titles and notes, which are long."""
        return IssueTree(
            {
                key: line._replace(issue=line.issue._replace(title="", notes=""))
                for key, line in self.lines.items()
            }
        )

    def tasks(self, epic_ids: Iterable[str], named: Collection[str] = ()) -> list[Issue]:
        """Return the leaves below the epics, and below other issues that are named as tasks.

        A phase is no task if it has tasks. The tasks of an epic come together, the urgent first.
        """
        found: dict[str, Issue] = {}
        for epic_id in epic_ids:
            leaves = self._leaves(self._children.get(epic_id, ()), {epic_id})
            found |= {issue.id: issue for issue in sorted(leaves, key=_rank)}
        others = [self.lines[each].issue for each in named if each in self.lines]
        # An epic is no task, even without any.
        others = [issue for issue in others if issue.type != "epic" or issue.id in self._children]
        return list((found | {issue.id: issue for issue in self._leaves(others, set())}).values())

    def _leaves(self, issues: Iterable[Issue], seen: set[str]) -> list[Issue]:
        """Return the issues without children at and below some issues; a cycle has an end."""
        found: list[Issue] = []
        level = list(issues)
        while level:
            fresh = {issue.id: issue for issue in level if issue.id not in seen}
            seen |= fresh.keys()
            found += [issue for issue in fresh.values() if issue.id not in self._children]
            level = [child for each in fresh for child in self._children.get(each, ())]
        return found

    def work(self, epic_ids: Iterable[str], named: Collection[str] = ()) -> TaskCount:
        """Return the state of the tasks of some epics."""
        epics = [self.lines[each].issue for each in epic_ids if each in self.lines]
        tasks = self.tasks([epic.id for epic in epics], named)
        return TaskCount(
            len(tasks),
            sum(task.status == CLOSED for task in tasks),
            max((clock.parse(issue.updated_at) for issue in (*epics, *tasks)), default=0.0),
            max((clock.parse(issue.closed_at) for issue in (*epics, *tasks)), default=0.0),
        )

    def ready(self, epic_id: str) -> list[Issue]:
        """Return the open tasks that nothing blocks, neither them nor their phase.

        A phase whose tasks are all closed blocks nothing, although it may stay open for ever.
        """
        tasks = (task for task in self.tasks([epic_id]) if task.status == OPEN)
        return [task for task in tasks if not self._is_blocked(task, epic_id)]

    def _is_blocked(self, task: Issue, epic_id: str) -> bool:
        seen: set[str] = set()
        above = task.id
        while above in self.lines and above != epic_id and above not in seen:
            seen.add(above)
            line = self.lines[above]
            if any(each in self.lines and not self._is_done(each) for each in line.blockers):
                return True
            above = line.issue.parent or _parent_by_id(above)
        return False

    def _is_done(self, issue_id: str) -> bool:
        return self.lines[issue_id].issue.status == CLOSED or self.work([issue_id]).is_done


def _parent_by_id(issue_id: str) -> str:
    head, _, number = issue_id.rpartition(".")
    return head if number.isdigit() else ""


def _rank(issue: Issue) -> tuple[int, Sequence[str], Sequence[int]]:
    """Sort urgent issues first, then by their numbers: `x.1.2` is before `x.1.10`."""
    stem, *numbers = issue.id.split(".")
    return issue.priority, [stem], [int(n) for n in numbers if _NUMBERS.fullmatch(n)]
