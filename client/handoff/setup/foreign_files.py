"""Files of other programs: each is examined first, and replaced as a whole or not at all."""

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from handoff.common.errors import HandoffError
from handoff.common.safe_parsing import load_json

NEW_MODE = 0o600
# Claude Code locks its file by proper-lockfile: a lock this old was left by a crash.
LOCK_STALE_SECONDS = 10.0
LOCK_PATIENCE_SECONDS = 15.0
LINKS_MAX = 40
# Claude Code's own memory. It rewrites this file all the time, and keeps prompts, paths and keys
# in it.
MEMORY_NAMES = (".claude.json", ".config.json")


@dataclass
class Draft:
    """The content of a file now, and the planned one; None means that there is no file."""

    path: str
    part: str
    before: bytes | None
    after: bytes | None
    mode: int = NEW_MODE
    problem: HandoffError | None = None
    # The old content is kept, since another program will change the file.
    kept: bool = False
    # Nothing can be put into the existing file: the text is to be put in by hand.
    by_hand: bool = False
    missing_directories: list[str] = field(default_factory=list)
    # The file that a link leads to, else the path itself.
    target: str = ""

    def __post_init__(self) -> None:
        self.target = self.target or self.path

    @property
    def is_link(self) -> bool:
        return self.target != self.path

    @property
    def is_changed(self) -> bool:
        return self.before != self.after

    @property
    def text(self) -> str:
        return (self.after or b"").decode()

    @text.setter
    def text(self, new: str) -> None:
        # An empty text must not create a missing file.
        if new or self.after is not None:
            self.after = new.encode()


def is_memory(path: str) -> bool:
    return os.path.basename(path) in MEMORY_NAMES


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_draft(path: str, part: str) -> Draft:
    """Read a file, also by a link to it, and note the problem that prevents its replacement."""
    draft = Draft(path, part, None, None, target=link_target(path))
    try:
        status = os.lstat(draft.target)
    except FileNotFoundError:
        if draft.is_link:
            text = f"{path} is a link to {draft.target}, which is not there."
            draft.problem = _problem(text, "Make that file, or remove the link.")
            return draft
        draft.missing_directories = _missing_directories(path)
        draft.problem = _directory_problem(path) or _link_problem(path)
        return draft
    except OSError as problem:
        draft.problem = _problem(f"{path} cannot be read: {problem.strerror}.")
        return draft
    draft.mode = stat.S_IMODE(status.st_mode)
    draft.problem = (
        _file_problem(draft.target, status)
        or _directory_problem(draft.target)
        or _link_problem(path)
    )
    _read(draft)
    return draft


def link_target(path: str) -> str:
    """Return the final target of a link, or the path itself if it is no link."""
    return os.path.realpath(path) if os.path.islink(path) else path


def _read(draft: Draft) -> None:
    # A file that cannot be replaced may still be read, to show the text to be added by hand.
    try:
        draft.before = draft.after = read(draft.target)
        draft.text  # noqa: B018  checks that it is text
    except OSError as problem:
        draft.problem = draft.problem or _problem(
            f"{draft.path} cannot be read: {problem.strerror}."
        )
    except UnicodeDecodeError as problem:
        draft.after, draft.by_hand = None, True
        draft.problem = _problem(f"{draft.path} is no UTF-8 text (byte {problem.start}).")


def read(path: str) -> bytes | None:
    """Return the content of a file, or None without one; a FIFO in its place does not block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is no file")
        return stream.read()


def read_json(path: str) -> tuple[dict[str, Any], str]:
    """Return the object in a file, and a problem with it; an absent file is an empty object."""
    try:
        found = load_json(read(path) or b"{}")
    except OSError as problem:
        return {}, problem.strerror or str(problem)
    except ValueError as problem:
        return {}, str(problem)
    return (found, "") if isinstance(found, dict) else ({}, "it is no object")


def _problem(title: str, remedy: str = "") -> HandoffError:
    return HandoffError(title, remedy)


def _file_problem(path: str, status: os.stat_result) -> HandoffError | None:
    if not stat.S_ISREG(status.st_mode):
        return _problem(f"{path} is no file.", "Move it away.")
    if status.st_uid != os.geteuid():
        return _problem(f"{path} belongs to another user (id {status.st_uid}).")
    # root may write the file all the same. A person who took all write bits away meant root, too.
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
        return _problem(f"{path} is read-only.", f"Make it writable: chmod u+w {path}")
    return None


def _link_problem(path: str) -> HandoffError | None:
    """Return a problem if a path has a link, and another user could lead it elsewhere."""
    real = os.path.realpath(path)
    if real == os.path.normpath(path):
        return None
    try:
        place = next(_changeable_by_others(path), None)
    except OSError as problem:
        return _problem(f"{path} cannot be followed: {problem.strerror}.")
    if place is None:
        return None
    return _problem(
        f"{path} leads by a link to {real}, and others can write to {place}.",
        f"Make it yours alone: chmod go-w {place}",
    )


def _changeable_by_others(path: str) -> Iterator[str]:
    """Yield those directories and links on the way to a file that another user can change."""
    directory, names, links = "/", path.split("/"), 0
    while names:
        if _is_open_to_others(os.stat(directory)):
            yield directory
        name = names.pop(0)
        if name in ("", "."):
            continue
        place = os.path.dirname(directory) if name == ".." else os.path.join(directory, name)
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            return
        if not stat.S_ISLNK(status.st_mode):
            directory = place
            continue
        if status.st_uid not in (0, os.geteuid()):  # possible in a directory such as /tmp
            yield place
        links += 1
        if links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(place)
        directory = "/" if target.startswith("/") else directory
        names[:0] = target.split("/")


def _is_open_to_others(directory: os.stat_result) -> bool:
    is_shared = directory.st_mode & 0o022 and not directory.st_mode & stat.S_ISVTX
    return bool(is_shared) or directory.st_uid not in (0, os.geteuid())


def _directory_problem(path: str) -> HandoffError | None:
    """Return a problem if nothing can be made in a file's nearest existing directory."""
    directory = os.path.dirname(path)
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    try:
        status = os.stat(directory)
    except OSError as problem:
        return _problem(f"{directory} cannot be used: {problem.strerror}.")
    if not stat.S_ISDIR(status.st_mode):
        return _problem(f"{directory} is no directory.", "Move it away.")
    if not status.st_mode & 0o222 or not os.access(directory, os.W_OK | os.X_OK):
        return _problem(f"Nothing can be made in {directory}: it is read-only.")
    return None


def _missing_directories(path: str) -> list[str]:
    """Return the directories that must be made for a file, the outermost first."""
    found: list[str] = []
    directory = os.path.dirname(path)
    while not os.path.lexists(directory):
        found.insert(0, directory)
        directory = os.path.dirname(directory)
    return found


def make_directories(path: str) -> None:
    """Make the missing directories above a path, for the user alone."""
    for directory in _missing_directories(path):
        os.mkdir(directory, 0o700)


def replace(draft: Draft, before: bytes | None, after: bytes | None) -> None:
    """Replace the content of a file, or remove the file if the new content is None.

    A file whose content is no longer `before` raises an error. A link stays a link to the same
    file, and is removed together with the file.
    """
    if after is not None:
        make_directories(draft.target)
    # Claude Code's lock lies beside the path that it knows, which may be a link.
    with _lock(draft.path):
        if after is None:
            _check_unchanged(draft, before)
            os.unlink(draft.target)
            if draft.is_link:
                os.unlink(draft.path)
        else:
            _rename_into_place(draft, before, after)
    _sync_directory(os.path.dirname(draft.target))


def temporary_path(path: str) -> str:
    """Return the path of the temporary file; a kill may leave it behind."""
    return f"{link_target(path)}.handoff-new"


def _rename_into_place(draft: Draft, before: bytes | None, after: bytes) -> None:
    temporary = temporary_path(draft.target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # left by a killed process; the file may have a second name, too
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as stream:
            os.fchmod(stream.fileno(), draft.mode)
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        _check_unchanged(draft, before)
        os.rename(temporary, draft.target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _check_unchanged(draft: Draft, before: bytes | None) -> None:
    if link_target(draft.path) != draft.target or read(draft.target) != before:
        raise HandoffError(f"{draft.path} has changed meanwhile.", "Run it again.")


def _sync_directory(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _lock(path: str) -> Iterator[None]:
    """Hold the lock of Claude Code's own memory, a directory.

    Claude Code holds it while it reads and rewrites the file. Other files have no lock.
    """
    if not is_memory(path):
        yield
        return
    lock = f"{path}.lock"
    deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
    while not _take_lock(lock):
        if time.monotonic() > deadline:
            raise HandoffError(f"{path} is locked by another program.", f"It holds {lock}")
        time.sleep(0.05)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(lock)


def _take_lock(lock: str) -> bool:
    try:
        os.mkdir(lock)
    except FileExistsError:
        with contextlib.suppress(OSError):
            if time.time() - os.stat(lock).st_mtime > LOCK_STALE_SECONDS:
                os.rmdir(lock)
        return False
    return True
