"""Issues in Beads: asked by its program, else read from issues.jsonl; notes only by the program.

Nothing here writes below .beads. Success is a parsed answer, not an exit code: the classic line
ends with 0 where it has found nothing.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handoffd.links import beads_directory, beads_issues, beads_program
from handoffd.links.beads_directory import BeadsDirectory
from handoffd.links.beads_issues import Issue, IssueLine
from handoffd.links.beads_program import BeadsError, BeadsProgram

__all__ = ["Beads", "BeadsError", "BeadsProgram", "Issue"]

ID_MAX_CHARACTERS = 200
NOTE_MAX_BYTES = 32 << 10
# One word of a command line has 128 KiB on Linux.
NOTES_MAX_BYTES = 120 << 10
READY_MAX = 1000
_ALL = ["--all", "--limit", "0"]
# What a call of ours left a database at, and what its stamp was before: see stamp().
_ours: dict[str, tuple[str, str]] = {}
# One that hung is not asked the next question of the same moment: each would take the limit.
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

        Take it first and read then: what changes meanwhile shows in the next one. On the
        classic line a mere `bd list` changes the database's files. What they look like after a
        call of ours is therefore remembered and counts as no change. So of a change that
        touches nothing but these files (no issues.jsonl, by `no-auto-flush`) and falls into
        the tenth of a second of such a call we learn with the change after it.
        """
        directory = beads_directory.find(self.root)
        if directory is None:
            return ""
        sure, unsure = beads_directory.stamp(directory)
        return f"{directory.path}|{sure}|{_shown(directory, unsure)}"

    def program(self) -> str:
        """Return the program that is asked, if it is there and can be run."""
        path = beads_program.find(self.wanted, self.root)
        beads_program.features(path, confine=self.wanted.confine)
        return path

    def home(self) -> str:
        """Return the directory in which .beads is: of a work tree, that of the main one."""
        return os.path.dirname(self._directory().path)

    def epics(self) -> list[Issue]:
        """Return all epics, also the closed ones."""
        return self.read_epics()[0]

    def read_epics(self) -> tuple[list[Issue], str]:
        """Return all epics, and why the program did not tell them, where one is there."""
        told = ""

        def ask() -> list[Issue]:
            nonlocal told
            try:
                return _issues(self._ask(["list", "--type", "epic", *_ALL]))
            except BeadsError as problem:
                # Where the file has more than the database, it is what counts.
                told = "" if problem.missing or problem.behind else str(problem)
                raise

        found = self._read(
            ask,
            lambda lines: [line.issue for line in lines.values() if line.issue.type == "epic"],
        )
        return found, told

    def show(self, issue_id: str) -> Issue:
        check_id(issue_id)
        found = self._read(
            lambda: _issues(self._ask(["show", issue_id])),
            lambda lines: [lines[issue_id].issue] if issue_id in lines else [],
        )
        return _exactly(issue_id, found)

    def children(self, epic_id: str) -> list[Issue]:
        """Return all direct children, also the closed ones."""
        check_id(epic_id)
        found = self._read(
            lambda: _issues(self._ask(["list", "--parent", epic_id, *_ALL])),
            lambda lines: beads_issues.children(lines, epic_id),
        )
        return [issue._replace(parent=epic_id) for issue in found]  # the classic line leaves it out

    def ready(self, epic_id: str) -> list[Issue]:
        """Return what of an epic can be begun now."""
        check_id(epic_id)
        words = ["ready", "--parent", epic_id, "--limit", str(READY_MAX)]
        return self._read(
            lambda: _issues(self._ask(words)), lambda lines: beads_issues.ready(lines, epic_id)
        )

    def notes(self, issue_id: str) -> str:
        """Return the notes of an issue as the program itself has them, never an older copy.

        Where issues.jsonl has more than the database, by git, the classic line refuses to show
        it and imports it with the next writing: then the file counts. A note that is written
        without it could bury a colleague's.
        """
        check_id(issue_id)
        # Its own daemon makes the file newer, too; then there is nothing to import, and it shows.
        for writing in (False, True):
            try:
                found = _issues(self._ask(["show", issue_id], writing=writing))
            except BeadsError as problem:
                if not problem.behind:
                    raise
            else:
                return _exactly(issue_id, found).notes
        lines = beads_issues.read_lines(self._directory().lines)
        return _exactly(issue_id, [lines[issue_id].issue] if issue_id in lines else []).notes

    def append_notes(self, issue_id: str, text: str) -> None:
        """Add to the notes of an issue; what a person wrote there stays.

        The issue is looked up first: Beads would also take a part of an id, for another issue.
        """
        check_id(issue_id)
        text = text.replace("\0", "").strip("\n")
        if not text or len(text.encode()) > NOTE_MAX_BYTES:
            raise BeadsError("a note has 1 to 32768 bytes", final=True)
        able = beads_program.features(self.program(), confine=self.wanted.confine)
        old = self.notes(issue_id)
        words = f"--append-notes={text}" if able.appends else f"--notes={_joined(old, text)}"
        _exactly(issue_id, _issues(self._ask(["update", issue_id, words], writing=True)))

    def _read(
        self, ask: Callable[[], list[Issue]], read: Callable[[dict[str, IssueLine]], list[Issue]]
    ) -> list[Issue]:
        """Ask the program; where it does not answer, read the file it may have left."""
        try:
            self._require_prompt()
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

    def _require_prompt(self) -> None:
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
        # Asked without a database of its own it would make one.
        classic = beads_program.features(path, confine=self.wanted.confine).is_classic
        if not (directory.sqlite if classic else directory.dolt):
            name = os.path.basename(path)
            raise BeadsError(f"{directory.path} has no database for {name}", missing=True)
        with beads_program.one_at_a_time:
            shown = _shown(directory, beads_directory.stamp(directory)[1])
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
                    _ours[directory.path] = (beads_directory.stamp(directory)[1], shown)


def check_id(issue_id: str) -> None:
    """Refuse what is no id: without one `bd update` takes the issue that was touched last."""
    bad = not issue_id or issue_id == "null" or issue_id.startswith("-")
    if bad or len(issue_id) > ID_MAX_CHARACTERS or not issue_id.isprintable() or " " in issue_id:
        raise BeadsError(f"{issue_id[:40]!r} is no id of an issue", final=True)


def _shown(directory: BeadsDirectory, unsure: str) -> str:
    left, shown = _ours.get(directory.path, ("", ""))
    return shown if unsure == left else unsure


def _issues(found: Any) -> list[Issue]:
    """Return the issues of an answer: an array, or one of them alone."""
    each = found if isinstance(found, list) else [found]
    return [issue for issue in map(beads_issues.from_object, each) if issue is not None]


def _exactly(issue_id: str, found: list[Issue]) -> Issue:
    for issue in found:
        if issue.id == issue_id:
            return issue
    raise BeadsError(f"there is no issue {issue_id}", final=True)


def _joined(old: str, text: str) -> str:
    joined = f"{old}\n{text}" if old else text
    if len(joined.encode()) > NOTES_MAX_BYTES:
        raise BeadsError("the issue's notes are too long for a program's command line", final=True)
    return joined
