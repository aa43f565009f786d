"""Finds the handoffs of a session or a project, and erases them without a trace."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from handoff.common.errors import HandoffError
from handoffd.contract import handoff_directory
from handoffd.contract.handoff_directory import Handoff, HandoffScope
from handoffd.fs import files


@dataclass(frozen=True, slots=True)
class RemovalRequest:
    """Selects the handoffs of some sessions, or those of a whole project (`scope`)."""

    sessions: frozenset[str]
    # The working directories of the sessions, and the directories known to hold their handoffs.
    cwds: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()
    scope: HandoffScope | None = None


@dataclass(slots=True)
class RemovalPaths:
    """The paths of the selected handoffs, and of those that do not name their project."""

    meant: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def find(base: str, wanted: RemovalRequest) -> RemovalPaths:
    """Return the selected handoffs, from every directory that may hold some."""
    found = RemovalPaths()
    own = {
        path for cwd in wanted.cwds for path in handoff_directory.directories_of(base, cwd)
    } | wanted.directories
    below = handoff_directory.directories_below(base, wanted.scope.root) if wanted.scope else ()
    for directory in sorted(own.union(below)):
        for path in sorted(path for _, path in handoff_directory.times_and_paths(directory)):
            handoff = None if os.path.islink(directory) else handoff_directory.read(path)
            if handoff is None:
                continue
            if _is_meant(handoff, wanted):
                found.meant.append(path)
            elif wanted.scope and not handoff.contract.cwd and directory in own:
                found.unclear.append(path)
    return found


def _is_meant(handoff: Handoff, wanted: RemovalRequest) -> bool:
    contract = handoff.contract
    if contract.session_id in wanted.sessions:
        return True
    scope = wanted.scope
    return (
        scope is not None
        and bool(contract.cwd)
        and handoff_directory.is_within(contract.cwd, scope)
    )


def erase(paths: Iterable[str]) -> dict[str, str]:
    """Remove handoffs and directories left empty. Return the paths that remain, with reasons."""
    problems: dict[str, str] = {}
    for directory, group in groupby(sorted(paths), key=os.path.dirname):
        gone = list(group)
        try:
            _erase_in(directory, [os.path.basename(path) for path in gone])
        except FileNotFoundError:
            continue
        except (OSError, HandoffError) as problem:
            why = str(problem).splitlines()[0]
            problems |= {path: why for path in gone if os.path.lexists(path)}
    return problems


def _erase_in(directory: str, names: list[str]) -> None:
    base, encoded = os.path.split(directory)
    with (
        files.directory(base, encoded) as handle,
        files.locked(handle, handoff_directory.LOCK_NAME, handoff_directory.WAIT_SECONDS),
    ):
        files.sweep(handle)
        for name in names:
            files.remove(handle, name)
        if os.listdir(handle) != [handoff_directory.LOCK_NAME]:
            return
        files.remove(handle, handoff_directory.LOCK_NAME)
    with files.directory(base) as handle:
        if files.remove_directory(handle, encoded):
            for link in _links_to(base, encoded):
                files.remove(handle, link)


def _links_to(base: str, encoded: str) -> list[str]:
    """Return the links to a directory that were made for readers of the first encoding."""
    with os.scandir(base) as entries:
        links = [entry.name for entry in entries if entry.is_symlink()]
    return [name for name in links if os.readlink(f"{base}/{name}").rstrip("/") == encoded]
