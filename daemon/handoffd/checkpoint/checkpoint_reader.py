"""Reads handoff.yaml after another program has written it, and takes over a person's edits."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from handoff.common import paths as client_paths
from handoff.common.errors import HandoffError
from handoffd.checkpoint import checkpoint_file
from handoffd.checkpoint.edits import added_files, deleted_lines, edited_values
from handoffd.projects.project_state import ActiveProject, ProjectStates
from handoffd.projects.registry import Project
from handoffd.runtime import clock, log
from handoffd.session.fields import LISTS, SETTABLE
from handoffd.session.text import redact_values
from handoffd.store.core import CoreStore

ABSENT_SECONDS = 2.0


@dataclass(slots=True)
class CheckpointReader:
    """Learns which values of each active project's handoff.yaml a person set."""

    core: CoreStore
    project_states: ProjectStates

    def look(self, active: ActiveProject) -> None:
        """Read the file if it has changed. A failure becomes the project's problem; try again."""
        try:
            self._look(active)
        except Exception as problem:  # noqa: BLE001  one project must not stop the others
            active.file.stamp = ""  # read the file again at the next look
            why = f"its handoff.yaml could not be looked at: {log.why(problem)}"
            remedy = getattr(problem, "hint", "") or "Find out more with: handoff doctor"
            if why != active.problem:
                root = active.project.root.path
                log.get().error("project_failed", project=root, why=why, remedy=remedy)
            active.problem = why

    def _look(self, active: ActiveProject) -> None:
        # We are writing the file: our own values would be taken for a person's.
        if active.file.lock.locked():
            return
        stamp = client_paths.checkpoint_stamp(active.project.root.path)
        if active.file.baseline is None or stamp != active.file.stamp:
            self._read(active)

    def _read(self, active: ActiveProject) -> None:
        root = active.project.root.path
        active.file.stamp = client_paths.checkpoint_stamp(root)
        try:
            stored = checkpoint_file.load(root)
        except HandoffError as problem:
            active.problem = problem.title
            return
        active.file.unreadable = stored.problem
        if stored.status is None and not stored.problem:
            self._note_absence(active)
            return
        active.file.absent_since = 0.0
        if stored.data is not None and stored.status is not None:
            ours = self.core.checkpoint(active.project.id)
            self._learn_edits(active.project, stored.data, ours, stored.status.st_mtime)
            self.remember(active.project, stored.data, stored.data)
        active.file.baseline = stored.data or {}
        self.project_states.touch(active.project.id, git_too=False)

    def _note_absence(self, active: ActiveProject) -> None:
        """Drop a person's values only if the file is gone for good, not while it is replaced.

        An editor may rename the file away before it writes, and a whole disk may be absent for a
        while.
        """
        now, file = clock.monotonic(), active.file
        file.absent_since = file.absent_since or now
        if file.baseline and now - file.absent_since < ABSENT_SECONDS:
            file.stamp = ""  # read the file again at the next look
            return
        directory = f"{active.project.root.path}/{checkpoint_file.DIRECTORY}"
        if file.baseline and os.path.isdir(directory):
            self.core.drop_values(active.project.id, [*SETTABLE, *LISTS, "files"])
        if active.project.root.exists:
            file.baseline = {}
            self.project_states.touch(active.project.id, git_too=False)

    def _learn_edits(
        self,
        project: Project,
        found: dict[str, Any],
        ours: Sequence[dict[str, Any]],
        edited_at: float,
    ) -> None:
        """Store the values that differ from all of ours: a person set them."""
        if deleted := deleted_lines(found, ours):
            self.project_states.drop_lines(project, deleted, clock.iso_milliseconds(edited_at))
        edited: dict[str, Any] = edited_values(found, ours)
        if added := added_files(found, ours):
            edited["files"] = added
        if edited:
            self.project_states.set_values(project, edited, clock.iso_milliseconds(edited_at))

    def remember(self, project: Project, written: dict[str, Any], intended: dict[str, Any]) -> None:
        """Store the written and the intended values: a value that is neither is a person's."""
        self.core.set_checkpoint(project.id, redact_values(written), redact_values(intended))
