"""Removing handoffs: which of them are meant, and the way to erase them without a trace."""

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
    """Whose handoffs are meant: some sessions', or those of a whole project (`place`)."""

    sessions: frozenset[str]
    # Where the sessions worked, and where their handoffs are known to be.
    cwds: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()
    place: HandoffScope | None = None


@dataclass(slots=True)
class RemovalPaths:
    """The paths of what is meant, and of what does not say whose it is."""

    meant: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def find(base: str, wanted: RemovalRequest) -> RemovalPaths:
    """Look through every directory in which such handoffs may be."""
    found = RemovalPaths()
    own = {
        path for cwd in wanted.cwds for path in handoff_directory.directories_of(base, cwd)
    } | wanted.directories
    below = handoff_directory.below(base, wanted.place.root) if wanted.place else ()
    for directory in sorted(own.union(below)):
        for path in sorted(path for _, path in handoff_directory.in_directory(directory)):
            handoff = None if os.path.islink(directory) else handoff_directory.read(path)
            if handoff is None:
                continue
            if _is_meant(handoff, wanted):
                found.meant.append(path)
            elif wanted.place and not handoff.contract.cwd and directory in own:
                found.unclear.append(path)
    return found


def _is_meant(handoff: Handoff, wanted: RemovalRequest) -> bool:
    contract = handoff.contract
    if contract.session_id in wanted.sessions:
        return True
    place = wanted.place
    return (
        place is not None
        and bool(contract.cwd)
        and handoff_directory.is_within(contract.cwd, place)
    )


def erase(paths: Iterable[str]) -> dict[str, str]:
    """Remove handoffs, and directories that are then empty; returns what could not be, and why."""
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
    """Return the names that led readers of the first encoding to a directory."""
    with os.scandir(base) as entries:
        links = [entry.name for entry in entries if entry.is_symlink()]
    return [name for name in links if os.readlink(f"{base}/{name}").rstrip("/") == encoded]
