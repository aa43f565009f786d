"""The plan of a change: drafts of files, and actions. It is shown first, then done, or undone."""

import contextlib
import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from handoff.common import json_edit
from handoff.common.errors import HandoffError
from handoff.common.remedies import remedy
from handoff.setup import claude_entries, foreign_files, manifest
from handoff.setup.foreign_files import Draft
from handoff.setup.manifest import Manifest

# The parts whose files are Claude's JSON, in which other programs have entries, too.
SHARED_PARTS = ("hooks", "plugin", "statusline", "mcp", "desktop")


def _nothing() -> None:
    pass


@dataclass
class SetupAction:
    """An action, and its reversal."""

    title: str
    do: Callable[[], None]
    undo: Callable[[], None] = _nothing
    # Writes the action into the notes beforehand.
    note: Callable[[Manifest], None] = lambda _manifest: None
    # The action changes files that we change, too, and has to come first.
    early: bool = False


@dataclass
class SetupPlan:
    noted: Manifest = field(default_factory=manifest.load)
    drafts: dict[str, Draft] = field(default_factory=dict)
    actions: list[SetupAction] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    # The address by which clients on the web come, if one was given.
    public_url: str | None = None
    # The last step of an undo, when the files have their old content again.
    last_undo: Callable[[], None] = _nothing

    def draft(self, path: str, part: str) -> Draft:
        """Return the draft of a file; two parts may share a draft."""
        if path not in self.drafts:
            self.drafts[path] = foreign_files.read_draft(path, part)
        return self.drafts[path]

    def edit(self, draft: Draft, change: Callable[[str], str]) -> None:
        """Change the text of a draft; an error in the text becomes the draft's problem."""
        try:
            if not isinstance(json_edit.load(draft.text), dict):
                raise claude_entries.ShapeError("it is no JSON object")
            draft.text = change(draft.text)
        except ValueError as problem:
            broken = " is broken JSON: " if isinstance(problem, json_edit.BrokenJsonError) else ": "
            title = f"{draft.path}{broken}{problem}."
            draft.problem = draft.problem or HandoffError(title, "Mend it.")
            draft.by_hand, draft.text = True, change("")

    def owns(self, draft: Draft) -> bool:
        """Return True if a file is exactly as we left it."""
        record = self.noted.files.get(draft.path)
        return record is not None and draft.before is not None and record.is_ours(draft.before)

    @property
    def changes(self) -> list[Draft]:
        return [draft for draft in self.drafts.values() if draft.is_changed]

    @property
    def is_empty(self) -> bool:
        return not (self.changes or self.actions)

    def shown(self, *, whole: bool) -> str:
        """Return the changes as text; a file that is all ours takes one line unless `whole`."""
        titles = [f"* {action.title}\n" for action in self.actions if action.title]
        return "".join([*(_draft_text(draft, whole=whole) for draft in self.changes), *titles])

    def report(self, *, whole: bool) -> str:
        """Return the changes as text, with the remarks on them."""
        shown = self.shown(whole=whole)
        links = [
            f"{draft.path} is a link: {draft.target} is changed, and the link stays."
            for draft in self.changes
            if draft.is_link and draft.after is not None and not draft.problem
        ]
        said = "".join(f"Note: {remark}\n" for remark in [*self.remarks, *links])
        return shown + ("\n" if shown and said else "") + said

    def changed_lines(self) -> list[str]:
        """Return the lines to be added and taken out, for the comparison of two plans."""
        lines = self.shown(whole=True).splitlines()
        return [line for line in lines if line.startswith(("+", "-", "*"))]

    def apply(self) -> None:
        """Make the changes; if one fails, undo those that were made."""
        before = manifest.saved()
        undos = [self.last_undo]
        try:
            self._note()
            for draft in self._touched():
                undos.append(_undo_of(draft))
                if draft.is_changed:
                    foreign_files.replace(draft, draft.before, draft.after)
            for action in self.actions:
                undos.append(action.undo)
                action.do()
        except BaseException as problem:
            unresolved = _undo(undos)
            if not unresolved:
                self.noted.restore(before)
            if isinstance(problem, HandoffError | OSError):
                raise _failure(problem, unresolved) from None
            raise

    def _touched(self) -> list[Draft]:
        return [draft for draft in self.drafts.values() if draft.is_changed or draft.kept]

    def _note(self) -> None:
        for draft in self._touched():
            self.noted.enter(draft, self.baseline(draft))
        for action in self.actions:
            action.note(self.noted)
        self.noted.save()

    def baseline(self, draft: Draft) -> bytes | None:
        """Return the content that a file would have without us."""
        if draft.before is None or draft.path not in self.noted.files:
            return draft.before
        kept = self.noted.backup_of(draft.path)
        if self.owns(draft):
            return kept
        if draft.part not in SHARED_PARTS:
            return draft.before
        return claude_entries.take_all(draft.before.decode(), (kept or b"").decode()).encode()


def _draft_text(draft: Draft, *, whole: bool) -> str:
    is_new = draft.before is None
    lines = _lines(draft.after)
    if is_new and not whole and draft.part not in SHARED_PARTS:
        return f"* new file: {draft.path} ({len(lines)} lines)\n"
    if draft.after is None and not whole:
        return f"* remove {draft.path}\n"
    old = "/dev/null" if is_new else draft.path
    new = "/dev/null" if draft.after is None else draft.path
    if draft.part in SHARED_PARTS and not is_new and draft.after is not None:
        return "".join([f"--- {old}\n+++ {new}\n", *_entries(draft)])
    diff = difflib.unified_diff(_lines(draft.before), lines, old, new, n=1)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff
    )


def _entries(draft: Draft) -> list[str]:
    """Return the changed entries alone: other programs' keys may stand on the same line."""
    before = b"" if draft.by_hand else draft.before or b""
    return json_edit.differences(before.decode(), draft.text)


def _lines(data: bytes | None) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", (data or b"").decode("utf-8", "replace"))


def _undo_of(draft: Draft) -> Callable[[], None]:
    def undo() -> None:
        now = foreign_files.read(draft.path)
        if now != draft.before and _is_as_left(draft, now):
            foreign_files.replace(draft, now, draft.before)
        for directory in reversed(draft.missing_directories):
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    return undo


def _is_as_left(draft: Draft, now: bytes | None) -> bool:
    """Return True if only we have changed a file, or Claude Code for our plugin."""
    if not draft.kept or now is None:
        return now == draft.after
    try:
        return claude_entries.is_but_for_plugin(now.decode(), draft.text)
    except ValueError:
        return False


def _undo(undos: list[Callable[[], None]]) -> list[str]:
    """Run the undos in reverse order; return the problems of those that failed."""
    problems = []
    for undo in reversed(undos):
        try:
            undo()
        except (HandoffError, OSError) as problem:
            problems.append(str(problem).replace("\n", " "))
    return problems


def _failure(problem: HandoffError | OSError, unresolved: list[str]) -> HandoffError:
    hint = problem.hint if isinstance(problem, HandoffError) else remedy(problem)
    hint = f"{hint}\n" if hint else ""
    title = problem.title if isinstance(problem, HandoffError) else f"{problem}."
    if unresolved:
        return HandoffError(title, f"{hint}What was done could not all be undone: {unresolved[0]}")
    return HandoffError(title, f"{hint}What was done before that was undone; nothing has changed.")
