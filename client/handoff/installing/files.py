"""Files of other programs: looked at first, and replaced whole or not at all."""

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from handoff.errors import HandoffError

NEW_MODE = 0o600
# proper-lockfile, which Claude Code locks its file with: a lock this old was left by a crash.
LOCK_STALE_SECONDS = 10.0
LOCK_PATIENCE_SECONDS = 15.0
# Claude Code's own memory: it rewrites it all the time, and prompts, paths and keys are in it.
MEMORY_NAMES = (".claude.json", ".config.json")


@dataclass
class Draft:
    """A file as it is, and as it shall be; None: there is none."""

    path: str
    part: str
    before: bytes | None
    after: bytes | None
    mode: int = NEW_MODE
    problem: HandoffError | None = None
    # It is to be kept as it was, though somebody else will change it.
    kept: bool = False
    # Nothing can be put into what is there: the text is what is to be put in by hand.
    by_hand: bool = False
    missing_directories: list[str] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        return self.before != self.after

    @property
    def text(self) -> str:
        return (self.after or b"").decode()

    @text.setter
    def text(self, new: str) -> None:
        # A text that nobody touched must not make a file of a missing one.
        if new or self.after is not None:
            self.after = new.encode()


def is_memory(path: str) -> bool:
    return os.path.basename(path) in MEMORY_NAMES


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def look(path: str, part: str) -> Draft:
    """Read a file and find out what would keep us from replacing it."""
    draft = Draft(path, part, None, None)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        draft.missing_directories = _missing_directories(path)
        draft.problem = _directory_problem(path)
        return draft
    except OSError as problem:
        draft.problem = _problem(f"{path} cannot be read: {problem.strerror}.")
        return draft
    draft.mode = stat.S_IMODE(status.st_mode)
    draft.problem = _file_problem(path, status) or _directory_problem(path)
    _read(draft)
    return draft


def _read(draft: Draft) -> None:
    # What cannot be replaced may still be read, to show what is to be added by hand.
    try:
        draft.before = draft.after = read(draft.path)
        draft.text  # noqa: B018  looks whether it is text
    except OSError as problem:
        draft.problem = draft.problem or _problem(
            f"{draft.path} cannot be read: {problem.strerror}."
        )
    except UnicodeDecodeError as problem:
        draft.after, draft.by_hand = None, True
        draft.problem = _problem(f"{draft.path} is no UTF-8 text (byte {problem.start}).")


def read(path: str) -> bytes | None:
    """Return what is in a file; a FIFO in its place does not hold us."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is no file")
        return stream.read()


def _problem(title: str, remedy: str = "") -> HandoffError:
    return HandoffError(title, remedy)


def _file_problem(path: str, status: os.stat_result) -> HandoffError | None:
    if stat.S_ISLNK(status.st_mode):
        return _problem(
            f"{path} is a link to {os.path.realpath(path)}, and replacing it would break that.",
            "Put the file itself there.",
        )
    if not stat.S_ISREG(status.st_mode):
        return _problem(f"{path} is no file.", "Move it away.")
    if status.st_uid != os.geteuid():
        return _problem(f"{path} belongs to another user (id {status.st_uid}).")
    # root may write it all the same; who took all write bits away meant everybody.
    if not status.st_mode & 0o222 or not os.access(path, os.W_OK):
        return _problem(f"{path} is read-only.", f"Make it writable: chmod u+w {path}")
    return None


def _directory_problem(path: str) -> HandoffError | None:
    """Say why nothing can be made where a file is, or where its first directory would be."""
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
    """Return the directories that must be made first, the outermost first."""
    found: list[str] = []
    directory = os.path.dirname(path)
    while not os.path.lexists(directory):
        found.insert(0, directory)
        directory = os.path.dirname(directory)
    return found


def make_directories(path: str) -> None:
    """Make the directories above a path; all that we make are for the user alone."""
    for directory in _missing_directories(path):
        os.mkdir(directory, 0o700)


def replace(path: str, before: bytes | None, after: bytes | None, mode: int = NEW_MODE) -> None:
    """Give a file another content, or none, unless it is no longer what it was."""
    if after is not None:
        make_directories(path)
    with _lock(path):
        if after is None:
            _check_unchanged(path, before)
            os.unlink(path)
        else:
            _rename_into_place(path, before, after, mode)
    _sync_directory(os.path.dirname(path))


def unfinished(path: str) -> str:
    """Return where a file is written before it takes its place; a kill may leave it there."""
    return f"{path}.handoff-new"


def _rename_into_place(path: str, before: bytes | None, after: bytes, mode: int) -> None:
    temporary = unfinished(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # of one that was killed; it may have another name, too
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
        _check_unchanged(path, before)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _check_unchanged(path: str, before: bytes | None) -> None:
    if os.path.islink(path) or read(path) != before:
        raise HandoffError(f"{path} has changed meanwhile.", "Run it again.")


def _sync_directory(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _lock(path: str) -> Iterator[None]:
    """Hold the lock that Claude Code holds while it reads and rewrites its file: a directory."""
    if not is_memory(path):
        yield
        return
    lock = f"{path}.lock"
    deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
    while not _made(lock):
        if time.monotonic() > deadline:
            raise HandoffError(f"{path} is locked by another program.", f"It holds {lock}")
        time.sleep(0.05)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(lock)


def _made(lock: str) -> bool:
    try:
        os.mkdir(lock)
    except FileExistsError:
        with contextlib.suppress(OSError):
            if time.time() - os.stat(lock).st_mtime > LOCK_STALE_SECONDS:
                os.rmdir(lock)
        return False
    return True
