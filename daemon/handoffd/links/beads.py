"""Issues in Beads, from its program or else from issues.jsonl; notes only through the program.

No code here writes below .beads. A call succeeded if its answer can be parsed. The exit code does
not count, since the classic line (bd before 0.50, and br) exits with 0 even if it found nothing.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from handoffd.links import beads_directory, beads_issues, beads_program
from handoffd.links.beads_directory import BeadsDirectory
from handoffd.links.beads_issues import IssueLine
from handoffd.links.beads_program import BeadsError, BeadsProgram
from handoffd.links.issue_tree import IssueTree
from handoffd.links.tracker import Issue

__all__ = ["Beads", "BeadsError", "BeadsProgram"]

ID_MAX_CHARACTERS = 200
NOTE_MAX_BYTES = 32 << 10
# On Linux one argument of a command line has at most 128 KiB.
NOTES_MAX_BYTES = 120 << 10
READY_MAX = 1000
_LIST = ["list", "--all", "--limit", "0"]
T = TypeVar("T")
# Per .beads: the stamp of the database after our last read, and the one shown before: see stamp().
_own_stamps: dict[str, tuple[str, str]] = {}
# After a call that hung, no other call is made for this long: each would take the time limit.
LATE_SECONDS = 15.0
_late_until: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Beads:
    """The issues of one project."""

    root: str
    wanted: BeadsProgram = field(default_factory=BeadsProgram)

    def exists(self) -> bool:
        return beads_directory.find(self.root) is not None

    def stamp(self) -> str:
        """Return a text that changes whenever an issue may have changed; costs a few stats.

        Take the stamp before reading: a change during the reading then shows in the next stamp. In
        the classic line even `bd list` changes the files of the database. So their state after a
        call of ours is stored, and does not count as a change. A change by another program can
        fall into the tenth of a second of such a call. If it touches only these files
        (`no-auto-flush` leaves issues.jsonl alone), it is noticed with the next change.
        """
        directory = beads_directory.find(self.root)
        if directory is None:
            return ""
        sure, unsure = beads_directory.stamp(directory)
        return f"{directory.path}|{sure}|{_visible_stamp(directory, unsure)}"

    def program(self) -> str:
        """Return the path of the program; raise a BeadsError if it is missing or cannot be run."""
        path = beads_program.find(self.wanted, self.root)
        beads_program.features(path, confine=self.wanted.confine)
        return path

    def home(self) -> str:
        """Return the directory that holds .beads; for a work tree it may be the main one."""
        return os.path.dirname(self._directory().path)

    def issues(self) -> IssueTree:
        """Return all issues, including closed ones."""
        return self.read_issues()[0]

    def read_issues(self) -> tuple[IssueTree, str]:
        """Return all issues, and the reason why an existing program did not answer, or nothing."""
        reason = ""

        def ask() -> dict[str, IssueLine]:
            nonlocal reason
            try:
                return self._with_edges(beads_issues.lines_from(_each(self._ask(_LIST))))
            except BeadsError as problem:
                # If the file is ahead of the database, the file is the right source.
                reason = "" if problem.missing or problem.behind else str(problem)
                raise

        return IssueTree(self._read(ask, lambda lines: lines)), reason

    def _with_edges(self, lines: dict[str, IssueLine]) -> dict[str, IssueLine]:
        """Add the edges of issues.jsonl: the classic line lists issues without them."""
        if not lines or any(line.issue.parent or line.blockers for line in lines.values()):
            return lines
        with suppress(OSError):
            return beads_issues.with_edges(lines, beads_issues.read_lines(self._directory().lines))
        return lines

    def show(self, issue_id: str) -> Issue:
        check_id(issue_id)
        found = self._read(
            lambda: _issues(self._ask(["show", issue_id])),
            lambda lines: [lines[issue_id].issue] if issue_id in lines else [],
        )
        return _issue_with_id(issue_id, found)

    def ready(self, epic_id: str) -> list[Issue]:
        """Return the tasks of an epic that can be started now.

        Beads also calls a phase ready whose tasks are all closed, and none of the next phase as
        long as that one is open. If no task is among its answers, the tree decides.
        """
        check_id(epic_id)
        tree = self.issues()
        words = ["ready", "--parent", epic_id, "--limit", str(READY_MAX)]
        found = self._read(lambda: _issues(self._ask(words)), lambda _lines: list[Issue]())
        tasks = {task.id for task in tree.tasks([epic_id])}
        return [issue for issue in found if issue.id in tasks] or tree.ready(epic_id)

    def notes(self, issue_id: str) -> str:
        """Return the current notes of an issue, never an older copy.

        git may bring an issues.jsonl that is ahead of the database. Then the classic line refuses
        to show the issue, and imports the file with its next write, so the file counts. A note
        that is written without it could overwrite a colleague's note.
        """
        check_id(issue_id)
        # The daemon of Beads makes the file newer, too. Then there is nothing to import, and the
        # second call, which may write, shows the issue.
        for writing in (False, True):
            try:
                found = _issues(self._ask(["show", issue_id], writing=writing))
            except BeadsError as problem:
                if not problem.behind:
                    raise
            else:
                return _issue_with_id(issue_id, found).notes
        lines = beads_issues.read_lines(self._directory().lines)
        return _issue_with_id(issue_id, [lines[issue_id].issue] if issue_id in lines else []).notes

    def append_notes(self, issue_id: str, text: str) -> None:
        """Append a text to the notes of an issue; the existing notes stay.

        The issue is looked up first, since Beads also accepts a part of an id, of another issue.
        """
        check_id(issue_id)
        text = text.replace("\0", "").strip("\n")
        if not text or len(text.encode()) > NOTE_MAX_BYTES:
            raise BeadsError("a note has 1 to 32768 bytes", final=True)
        supported = beads_program.features(self.program(), confine=self.wanted.confine)
        old = self.notes(issue_id)
        words = f"--append-notes={text}" if supported.appends else f"--notes={_joined(old, text)}"
        _issue_with_id(issue_id, _issues(self._ask(["update", issue_id, words], writing=True)))

    def _read(self, ask: Callable[[], T], read: Callable[[dict[str, IssueLine]], T]) -> T:
        """Ask the program; if it does not answer, read the file that it may have written."""
        try:
            self._require_responsive()
            return ask()
        except BeadsError as problem:
            directory = beads_directory.find(self.root)
            if problem.final or directory is None:
                raise
            try:
                lines = beads_issues.read_lines(directory.lines)
            except OSError:
                raise problem from None
            return read(lines)

    def _require_responsive(self) -> None:
        if time.monotonic() < _late_until.get(self.root, 0.0):
            raise BeadsError("Beads did not answer in time just now")

    def _directory(self) -> BeadsDirectory:
        directory = beads_directory.find(self.root)
        if directory is None:
            raise BeadsError(f"there is no .beads in {self.root}", final=True)
        return directory

    def _ask(self, arguments: list[str], *, writing: bool = False) -> Any:
        directory = self._directory()
        path = self.program()
        # Without a database of its own format the program would create one.
        classic = beads_program.features(path, confine=self.wanted.confine).is_classic
        if not (directory.sqlite if classic else directory.dolt):
            name = os.path.basename(path)
            raise BeadsError(f"{directory.path} has no database for {name}", missing=True)
        with beads_program.one_at_a_time:
            shown = _visible_stamp(directory, beads_directory.stamp(directory)[1])
            try:
                return beads_program.ask(
                    path, directory, arguments, writing=writing, confine=self.wanted.confine
                )
            except BeadsError as problem:
                if problem.late:
                    _late_until[self.root] = time.monotonic() + LATE_SECONDS
                raise
            finally:
                if not writing:
                    _own_stamps[directory.path] = (beads_directory.stamp(directory)[1], shown)


def check_id(issue_id: str) -> None:
    """Refuse an invalid id: without an id `bd update` takes the issue that was touched last."""
    bad = not issue_id or issue_id == "null" or issue_id.startswith("-")
    if bad or len(issue_id) > ID_MAX_CHARACTERS or not issue_id.isprintable() or " " in issue_id:
        raise BeadsError(f"{issue_id[:40]!r} is no id of an issue", final=True)


def _visible_stamp(directory: BeadsDirectory, unsure: str) -> str:
    after_call, shown = _own_stamps.get(directory.path, ("", ""))
    return shown if unsure == after_call else unsure


def _issues(found: Any) -> list[Issue]:
    """Return the issues of an answer, which is an array or a single issue."""
    return [issue for issue in map(beads_issues.from_object, _each(found)) if issue is not None]


def _each(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _issue_with_id(issue_id: str, found: list[Issue]) -> Issue:
    for issue in found:
        if issue.id == issue_id:
            return issue
    raise BeadsError(f"there is no issue {issue_id}", final=True)


def _joined(old: str, text: str) -> str:
    joined = f"{old}\n{text}" if old else text
    if len(joined.encode()) > NOTES_MAX_BYTES:
        raise BeadsError("the issue's notes are too long for a program's command line", final=True)
    return joined
