"""Decide which records may be read: by globs, by a project's own switch, and by pauses.

During a pause nothing is folded, stored, logged or answered. Records that were written during a
pause are never read afterwards: they are known by their place (byte ranges of each transcript)
and by their time (for copies of them in other files).
"""

import fnmatch
import os

import yaml

from handoffd.config import Config, LiveConfig
from handoffd.fs import files, mounts
from handoffd.runtime import clock
from handoffd.runtime.safe_yaml import refuse_bombs
from handoffd.store.core import EVERYTHING, CoreStore, Pause, Skip
from handoffd.store.erasure import Forgotten

_PROJECT_CONFIG = ".flow-guardian/config.yaml"
_PROJECT_CONFIG_MAX_BYTES = 64 << 10


class LearningPolicy:
    """Decides on projects, transcripts and single records."""

    def __init__(self, core: CoreStore, config: LiveConfig) -> None:
        self._core = core
        self.config = config
        self.reload()
        self._switches: dict[str, tuple[float, bool]] = {}

    def refusal(self, project_id: str | None, root: str | None) -> str:
        """Return the reason why a project must not be read or written, or an empty text."""
        if self.is_paused(project_id):
            return "paused"
        if root is None:
            return ""
        if is_excluded(root, self.config.current):
            return "excluded"
        if not mounts.answers(root):
            return mounts.SILENT
        return "" if self._is_enabled(root) else "disabled"

    def is_paused(self, project_id: str | None) -> bool:
        scopes = {pause.scope for pause in self._pauses if pause.ended_at is None}
        return EVERYTHING in scopes or project_id in scopes

    def paused_scopes(self) -> list[str]:
        return [pause.scope for pause in self._pauses if pause.ended_at is None]

    @property
    def has_pauses(self) -> bool:
        return bool(self._pauses or self._rewritten)

    def is_silent(self, project_id: str | None, transcript: str, time: str, after: str) -> bool:
        """Return True if a record may be, or may copy, one of a pause or a forgotten one.

        A record without a time of its own counts at the time of the record before it.
        """
        return self.was_paused_at(project_id, time or after) or self.is_too_old(transcript, time)

    def was_paused_at(self, project_id: str | None, time: str) -> bool:
        """Return True if a record's own time lies in a pause: such a record may be a copy."""
        relevant = [p for scope in (EVERYTHING, project_id) for p in self._by_scope.get(scope, ())]
        if not relevant:
            return False
        at = clock.parse(time)
        return any(p.started_at <= at and (p.ended_at is None or at < p.ended_at) for p in relevant)

    def pause(self, scope: str, sizes: dict[str, int]) -> None:
        """Begin a pause; `sizes` are the present sizes of the transcripts concerned."""
        starts = {name: size for name, size in sizes.items() if not self._open_skip(name)}
        self._core.start_pause(scope, clock.wall(), starts)
        self.reload()

    def forget(self, forgotten: Forgotten) -> dict[str, int]:
        """Mark sessions as forgotten, erase their stored rows, and return the number per table.

        Their bytes are never read again, and copies of their records are known by their time.
        """
        erased = self._core.forget(forgotten, clock.iso_milliseconds())
        self.reload()
        return erased

    def silent_transcripts(self, scopes: list[str]) -> list[str]:
        """Return the transcripts that are silent because of these pauses."""
        return [
            name
            for name in self._skips
            if (skip := self._open_skip(name)) is not None and skip.scope in scopes
        ]

    def unpause(self, scopes: list[str], ends: dict[str, int]) -> None:
        """End pauses; the given transcripts may be read again from their present end on."""
        self._core.end_pauses(scopes, clock.wall(), ends)
        self.reload()

    def silence(self, transcript: str, start: int, project_id: str | None) -> None:
        """Begin the silent range of a transcript that was found during a pause."""
        if self._open_skip(transcript) is None:
            scope = project_id if project_id in self.paused_scopes() else EVERYTHING
            self._core.begin_skip(transcript, start, scope or EVERYTHING)
            self._skips.setdefault(transcript, []).append(Skip(start, None, scope or EVERYTHING))

    def mark_rewritten(self, transcript: str) -> bool:
        """Allow only records newer than now of a rewritten transcript that has silent bytes.

        The byte ranges mean nothing any more, and the file may still be in the middle of being
        written. Return False if the transcript has no silent bytes.
        """
        if transcript not in self._skips and transcript not in self._rewritten:
            return False
        now, running = clock.iso_milliseconds(), self._open_skip(transcript)
        self._core.set_rewritten(transcript, now, running)
        self.reload()
        return True

    def is_too_old(self, transcript: str, time: str) -> bool:
        """Return True if a record of a rewritten transcript may be one that was silent."""
        since = self._rewritten.get(transcript)
        return since is not None and time <= since

    def next_skip(self, transcript: str, offset: int) -> Skip | None:
        """Return the first silent range that ends after an offset."""
        for skip in self._skips.get(transcript, ()):
            if skip.end is None or skip.end > offset:
                return skip
        return None

    def _open_skip(self, transcript: str) -> Skip | None:
        return next((s for s in self._skips.get(transcript, ()) if s.end is None), None)

    def reload(self) -> None:
        """Read the pauses, and the bytes that may not be learned, from core.db."""
        self._pauses = self._core.pauses()
        self._by_scope: dict[str | None, list[Pause]] = {}
        for pause in self._pauses:
            self._by_scope.setdefault(pause.scope, []).append(pause)
        self._skips = self._core.skips()
        self._rewritten = self._core.rewritten()

    def _is_enabled(self, root: str) -> bool:
        """Return `enabled:` of `.flow-guardian/config.yaml`; read again if the file has changed."""
        path = f"{root}/{_PROJECT_CONFIG}"
        try:
            stamp = os.lstat(path).st_mtime
        except OSError:
            return True
        known = self._switches.get(root)
        if known is None or known[0] != stamp:
            known = self._switches[root] = (stamp, _read_switch(root))
        return known[1]


def is_excluded(root: str, config: Config) -> bool:
    projects = config.projects
    return not _matches(root, projects.include) or _matches(root, projects.exclude)


def is_left_alone(root: str, config: Config) -> bool:
    """Return True if a project is excluded or switched off; pauses are not considered."""
    if is_excluded(root, config):
        return True
    return os.path.lexists(f"{root}/{_PROJECT_CONFIG}") and not _read_switch(root)


def _read_switch(root: str) -> bool:
    try:
        with files.directory(root, ".flow-guardian") as handle:
            found = files.read(handle, "config.yaml", _PROJECT_CONFIG_MAX_BYTES)
        refuse_bombs(found[0] if found else b"")
        data = yaml.load(found[0], Loader=yaml.CBaseLoader) if found else None  # noqa: S506  it makes only strings
    except Exception:  # noqa: BLE001  the author may have meant "off"
        return False
    value = data.get("enabled", "true") if isinstance(data, dict) else "true"
    return str(value).lower() not in ("false", "no", "off", "0")


def _matches(root: str, patterns: list[str]) -> bool:
    """Match a root, or any directory above it, so that a glob covers everything below."""
    parts = root.split("/")
    candidates = ["/".join(parts[:count]) or "/" for count in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatchcase(candidate, os.path.expanduser(pattern).rstrip("/") or "/")
        for pattern in patterns
        for candidate in candidates
    )
