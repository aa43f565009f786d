"""The interface of an issue tracker; links/trackers.py chooses the one of a project."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from handoffd.links.issue_tree import IssueTree


class Issue(NamedTuple):
    """One issue, with the fields that a handoff needs."""

    id: str
    title: str = ""
    status: str = ""
    type: str = ""
    parent: str = ""
    notes: str = ""
    priority: int = 2
    started_at: str = ""
    closed_at: str = ""
    updated_at: str = ""


class TrackerError(Exception):
    """The reason why there is no answer.

    `missing`: there is no program or no database. `final`: asking again does not help.
    """

    def __init__(self, message: str, *, missing: bool = False, final: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.final = final


class Tracker(Protocol):
    """The issues of one project. Every call is bounded in time, and raises only a TrackerError."""

    def exists(self) -> bool:
        """Return True if the project has such issues."""

    def stamp(self) -> str:
        """Return a text that changes whenever an issue may have changed; costs a few stats."""

    def program(self) -> str:
        """Return the path of the tracker's program."""

    def home(self) -> str:
        """Return the directory whose issues these are; several work trees may share it."""

    def read_issues(self) -> "tuple[IssueTree, str]":
        """Return all issues, and the reason why an existing program did not answer, or nothing."""

    def issues(self) -> "IssueTree":
        """Return all issues, including closed ones."""

    def show(self, issue_id: str) -> Issue:
        """Return one issue."""

    def ready(self, epic_id: str) -> list[Issue]:
        """Return the tasks of an epic that can be started now."""

    def notes(self, issue_id: str) -> str:
        """Return the current notes of an issue, never an older copy."""

    def append_notes(self, issue_id: str, text: str) -> None:
        """Append a text to the notes of an issue; the existing notes stay."""
