"""The handoffs of a project on disk: list and read them, and the one way to write one.

Nothing but handoffs is ever visible in a handoff directory: locks and unfinished files are
dotfiles, and all other data stays in our state directory. Reading changes nothing.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoff.common.remedies import remedy
from handoffd.contract.contract_format import Contract, parse, written_path
from handoffd.contract.path_encoding import encode, encode_v1
from handoffd.fs import files

LOCK_NAME = ".handoffd.lock"
WAIT_SECONDS = 2.0
NAME_CHARACTERS = 8
# Files that other programs keep beside handoffs.
NOT_HANDOFFS = frozenset({"index.md", "readme.md", "ledger.md"})
# A person's handoff may be long; a session that starts does not need the rest.
READ_MAX_BYTES = 2 << 20
_TRIES = 20


@dataclass(frozen=True, slots=True)
class HandoffScope:
    """The directories of a project: the caller's real one, the root, those of other sessions."""

    cwd: str
    root: str
    others: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        return self.cwd, self.root, *self.others


@dataclass(frozen=True, slots=True)
class Handoff:
    """A handoff on disk."""

    path: str
    mtime_ns: int
    text: str
    contract: Contract

    @property
    def seconds(self) -> float:
        return self.mtime_ns / 1e9

    @property
    def stamp(self) -> str:
        """A text that differs between two versions of the file."""
        return f"{len(self.text)}.{self.mtime_ns}"


def handoffs_base(configured: str) -> str:
    """Return the real path of the directory of all handoffs: it may be a person's symlink."""
    return os.path.realpath(os.path.expanduser(configured))


def directory_of(base: str, cwd: str) -> str:
    """Return the handoff directory of a working directory."""
    return f"{base}/{encode(cwd)}"


# Reading


def newest(base: str, scope: HandoffScope) -> Handoff | None:
    return next(handoffs(base, scope), None)


def handoffs(base: str, scope: HandoffScope) -> Iterator[Handoff]:
    """Yield the handoffs of a project, the newest first by modification time.

    If two have the same time, the later date in the header comes first, then the later name.
    """
    entries = [
        entry for directory in _directories(base, scope) for entry in times_and_paths(directory)
    ]
    entries.sort(key=lambda entry: entry[0], reverse=True)
    for _, tied in groupby(entries, key=lambda entry: entry[0]):
        found = [handoff for _, path in tied if (handoff := read(path))]
        found.sort(key=lambda handoff: (handoff.contract.date, handoff.path), reverse=True)
        yield from (handoff for handoff in found if belongs_to(handoff, scope))


def _directories(base: str, scope: HandoffScope) -> list[str]:
    """Return the directories with a project's handoffs; a v1 directory counts until migrated."""
    named = [path for cwd in scope.known for path in directories_of(base, cwd)]
    found = dict.fromkeys([*named, *directories_below(base, scope.root)])
    return [path for path in found if not os.path.islink(path)]


def directories_of(base: str, cwd: str) -> tuple[str, str]:
    """Return the handoff directory of a working directory, by both versions of its name."""
    return directory_of(base, cwd), f"{base}/{encode_v1(cwd)}"


def directories_below(base: str, root: str) -> list[str]:
    """Return the directories that may belong to paths below a root; a name is no proof."""
    beginnings = (encode(f"{root}/"), encode_v1(f"{root}/"))
    try:
        names = os.listdir(base)
    except OSError:
        return []
    return [f"{base}/{name}" for name in names if name.startswith(beginnings)]


def times_and_paths(directory: str) -> list[tuple[int, str]]:
    """Return the time and the path of every handoff in a directory."""
    try:
        with os.scandir(directory) as entries:
            found = [entry for entry in entries if is_handoff(entry.name)]
    except OSError:
        return []
    times: list[tuple[int, str]] = []
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            times.append((status.st_mtime_ns, entry.path))
    return times


def is_handoff(name: str) -> bool:
    """Return True if a name may be that of a handoff: any visible `.md` file.

    A name that does not fit into one line is excluded.
    """
    visible = name.endswith(".md") and not name.startswith(".") and name.isprintable()
    return visible and name.lower() not in NOT_HANDOFFS


def read(path: str) -> Handoff | None:
    """Read a handoff. Return None if it is gone or cannot be read."""
    directory, name = os.path.split(path)
    try:
        with files.directory(directory) as handle:
            found = files.read(handle, name, READ_MAX_BYTES, cut=True)
    except (OSError, HandoffError):
        return None
    return _handoff(path, *found) if found else None


def belongs_to(handoff: Handoff, scope: HandoffScope) -> bool:
    """Return True if a handoff is this project's, not another's with the same directory name."""
    if handoff.contract.cwd:
        return is_within(handoff.contract.cwd, scope)
    # Without a `cwd:` line it belongs to every project with exactly this directory name.
    name = os.path.basename(os.path.dirname(handoff.path))
    return any(name in (encode(path), encode_v1(path)) for path in scope.known)


def is_within(cwd: str, scope: HandoffScope) -> bool:
    """Return True if a `cwd:` line names a directory of the project."""
    if cwd in map(written_path, scope.known):
        return True
    if not cwd.startswith(f"{written_path(scope.root)}/"):
        return False
    # A directory below the root may belong to a project of its own.
    return not os.path.isdir(cwd) or paths.project_root(cwd) == scope.root


# Writing


def file_name(session_id: str, taken: Iterable[str], fallback: str) -> str:
    """Return the name of a session's handoff: 8 characters of its id, or more if that is taken."""
    known = frozenset(taken)
    stem = session_id if all(c.isascii() and (c.isalnum() or c in "-_") for c in session_id) else ""
    for length in range(NAME_CHARACTERS, max(len(stem), NAME_CHARACTERS) + 1, 4):
        name = f"{(stem or fallback)[:length] if stem else fallback}.md"
        if name not in known and is_handoff(name):
            return name
    number = next(n for n in range(2, len(known) + 3) if f"{stem or fallback}-{n}.md" not in known)
    return f"{stem or fallback}-{number}.md"


Compute = Callable[[Handoff | None], str | None]


def change(
    directory: str, name: str, compute: Compute, *, mtime_seconds: float | None = None
) -> Handoff | None:
    """Replace a handoff by the result of `compute`; None leaves everything unchanged.

    `mtime_seconds` makes the file as old as the work it describes, so that the newest work wins.
    """
    base, encoded = os.path.split(directory)
    try:
        os.makedirs(base, mode=0o700, exist_ok=True)
        with (
            files.directory(base, encoded, create=True) as handle,
            files.locked(handle, LOCK_NAME, WAIT_SECONDS),
        ):
            for _ in range(_TRIES):
                found = files.read(handle, name, READ_MAX_BYTES)
                before = _handoff(f"{directory}/{name}", *found) if found else None
                text = compute(before)
                if text is None or (before and before.text == text):
                    return before
                status = files.write(
                    handle,
                    name,
                    text.encode("utf-8", "surrogateescape"),
                    expected=found[1] if found else None,
                    mtime_seconds=mtime_seconds,
                )
                if status is not None:
                    return Handoff(f"{directory}/{name}", status.st_mtime_ns, text, parse(text))
    except OSError as problem:
        raise HandoffError(
            f"Cannot write {directory}/{name}: {problem.strerror}.",
            f"{remedy(problem)} Or choose another place: [contract] directory.".lstrip(),
        ) from None
    raise HandoffError(f"{directory}/{name} keeps changing under us.", "Try again.")


def _handoff(path: str, data: bytes, status: os.stat_result) -> Handoff:
    # Bytes that are not UTF-8 are written back unchanged.
    text = data.decode("utf-8", "surrogateescape")
    return Handoff(path, status.st_mtime_ns, text, parse(text))


def link_from(root: str, place: str, handoff: Handoff) -> bool:
    """Link a handoff from a directory of its project, for readers that look there first.

    A project without that directory gets none, and a file of somebody else's stays. The link has
    the time of the handoff, since `ls -t` looks at the link. Return True if it leads there.
    """
    directory, name = os.path.split(handoff.path)
    try:
        with files.directory(root, place) as handle:
            _remove_dangling(handle, os.path.dirname(directory))
            made = files.link_once(handle, name, handoff.path)
            if not made and os.readlink(name, dir_fd=handle) != handoff.path:
                return False
            times = (handoff.mtime_ns, handoff.mtime_ns)
            os.utime(name, ns=times, dir_fd=handle, follow_symlinks=False)
    except (OSError, HandoffError):
        return False
    return True


def _remove_dangling(handle: int, base: str) -> None:
    """Remove the links to handoffs that are gone."""
    for name in os.listdir(handle):
        try:
            target = os.readlink(name, dir_fd=handle)
        except OSError:
            continue
        if target.startswith(f"{base}/") and not os.path.lexists(target):
            files.remove(handle, name)


def link_v1(base: str, cwd: str) -> bool:
    """Link the name by the first encoding to the directory, for readers that still use it.

    Return True if the link was made.
    """
    old, new = encode_v1(cwd), encode(cwd)
    if old == new:
        return False
    try:
        with files.directory(base) as handle:
            return files.link_once(handle, old, new)
    except OSError:
        return False
