"""The only writer of files: atomic, durable, never through a symlink below the trusted root.

Every step is relative to an open directory, so that no directory can be swapped in between.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from handoff.common.errors import HandoffError, UnsafePathError
from handoffd.fs.atomic_replace import (
    ASIDE_SUFFIX,
    finish_replacement,
    rename,
    replace_if_unchanged,
    same_file,
    status_of,
)

TEMPORARY_SUFFIX = ".handoffd-tmp"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Errors of link(2) without hard links: exFAT, some network disks, a file of another user.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_CHUNK_BYTES = 1 << 16
_PRIVATE_DIRECTORY = 0o700
_PRIVATE = 0o600
# Errors of flock(2) for a directory on a network disk, which locks only files open for writing.
_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


@contextmanager
def directory(
    root: str, relative: str = "", *, create: bool = False, mode: int = 0o700
) -> Iterator[int]:
    """Open a directory below a root, component by component, and yield its descriptor.

    The root itself is trusted and must exist, so that a deleted project is not created again.
    Created directories get `mode`, regardless of the umask.
    """
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in filter(None, relative.split("/")):
            below = _open_component(handle, part, f"{root}/{relative}", mode if create else None)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _open_component(parent: int, name: str, shown: str, mode: int | None) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if mode is None:
            raise
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):
            raise UnsafePathError(
                f"{shown}: {name} is a symlink or no directory; nothing was written.",
                f"Replace {name} by a real directory.",
            ) from None
        raise
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        # Another writer created it first.
        return _open_component(parent, name, shown, None)
    os.fsync(parent)
    handle = _open_component(parent, name, shown, None)
    if mode != _PRIVATE_DIRECTORY:
        os.fchmod(handle, mode)
    return handle


class BusyError(HandoffError):
    """Another writer held the lock for longer than we may wait."""


@contextmanager
def locked(directory_handle: int, name: str, wait_seconds: float) -> Iterator[None]:
    """Hold the lock that all our writers take; the kernel releases it when the process ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(name, flags, 0o600, dir_fd=directory_handle)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _unsafe(name) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _unsafe(name)
        _acquire(handle, name, wait_seconds)
        yield
    finally:
        os.close(handle)


def lock_directory(
    directory_handle: int, name: str, wait_seconds: float, *, shared: bool = False
) -> None:
    """Lock an open directory itself until its descriptor is closed; no lock file is created.

    Some file systems cannot lock directories. Then there is no lock, so writers must also compare
    the file (`expected`).
    """
    try:
        _acquire(directory_handle, name, wait_seconds, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            raise


def _acquire(handle: int, name: str, wait_seconds: float, kind: int = fcntl.LOCK_EX) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"Another program holds {name}.", "Try again when it has finished."
                ) from None
            time.sleep(0.002)
        else:
            return


def read(
    directory_handle: int, name: str, limit: int, *, cut: bool = False
) -> tuple[bytes, os.stat_result] | None:
    """Return the content and status of a small regular file, or None if it does not exist.

    Reading never blocks on a FIFO or a device. A file longer than `limit` is refused or, with
    `cut`, read up to the limit.
    """
    try:
        handle = os.open(name, _FILE, dir_fd=directory_handle)
    except FileNotFoundError:
        return None
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO):
            raise _unsafe(name) from None
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _unsafe(name)
        if status.st_size > limit and not cut:
            raise HandoffError(
                f"{name} has {status.st_size} bytes; the limit is {limit}.",
                "Shorten it, or move it aside.",
            )
        return os.read(handle, limit if cut else limit + 1), status
    finally:
        os.close(handle)


def _unsafe(name: str) -> UnsafePathError:
    return UnsafePathError(
        f"{name} is a symlink or no regular file; it is left alone.",
        f"Replace {name} by a regular file, or remove it.",
    )


def write(  # noqa: PLR0913  the properties of one file
    directory_handle: int,
    name: str,
    data: bytes,
    *,
    expected: os.stat_result | Literal["anything"] | None = "anything",
    mtime_seconds: float | None = None,
    mode: int = _PRIVATE,
) -> os.stat_result | None:
    """Replace a file atomically and durably; it gets `mode`, regardless of the umask.

    If the file on disk is no longer the one that was read (`expected`; None: no file existed),
    nothing is written and None is returned.
    """
    temporary = f".{name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        written = _write_temporary(directory_handle, temporary, data, mtime_seconds, mode)
        current = _regular(directory_handle, name)
        if expected == "anything":
            rename(directory_handle, temporary, name)
        elif not same_file(current, expected) or not replace_if_unchanged(
            directory_handle, temporary, name, expected
        ):
            _unlink_quietly(directory_handle, temporary)
            return None
    except BaseException:
        _unlink_quietly(directory_handle, temporary)
        raise
    os.fsync(directory_handle)
    return written


def _write_temporary(
    directory_handle: int, name: str, data: bytes, mtime_seconds: float | None, mode: int
) -> os.stat_result:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags, _PRIVATE, dir_fd=directory_handle)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        if mtime_seconds is not None:
            os.utime(handle, (mtime_seconds, mtime_seconds))
        if mode != _PRIVATE:
            os.fchmod(handle, mode)
        os.fsync(handle)
        return os.fstat(handle)
    finally:
        os.close(handle)


def _regular(directory_handle: int, name: str) -> os.stat_result | None:
    """Return the status of a file or None; refuse anything but a regular file."""
    current = status_of(directory_handle, name)
    if current is not None and not stat.S_ISREG(current.st_mode):
        raise _unsafe(name)
    return current


def _unlink_quietly(directory_handle: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory_handle)
    except OSError:
        return


def create_once(directory_handle: int, name: str, data: bytes) -> None:
    """Write a file unless its name is taken."""
    if status_of(directory_handle, name) is None:
        write(directory_handle, name, data)


def touch(directory_handle: int, name: str, mode: int = _PRIVATE) -> None:
    """Set the time of a file to now; create an empty file if it does not exist."""
    try:
        with _opened(directory_handle, name) as handle:
            os.utime(handle)
    except FileNotFoundError:
        write(directory_handle, name, b"", expected=None, mode=mode)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO):
            raise _unsafe(name) from None
        raise


def link_once(directory_handle: int, name: str, target: str) -> bool:
    """Create a symlink unless its name is taken; return True if it was created."""
    try:
        os.symlink(target, name, dir_fd=directory_handle)
    except FileExistsError:
        return False
    return True


def remove(directory_handle: int, name: str) -> bool:
    """Remove a file of any kind; return True if it existed."""
    try:
        os.unlink(name, dir_fd=directory_handle)
    except FileNotFoundError:
        return False
    os.fsync(directory_handle)
    return True


def remove_directory(directory_handle: int, name: str) -> bool:
    """Remove an empty directory; return False if it is not empty or not a directory."""
    try:
        os.rmdir(name, dir_fd=directory_handle)
    except FileNotFoundError:
        return True
    except OSError as problem:
        if problem.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    os.fsync(directory_handle)
    return True


def move(source_handle: int, name: str, target_handle: int, new: str) -> bool:
    """Move a file and keep its time; return False if the new name is taken.

    The file gets a second link before the first one is removed, since a rename would replace an
    existing file. A kill between the two steps leaves both names. Where links cannot be made, the
    file is renamed, and the lock of the caller has to prevent the race.
    """
    try:
        os.link(
            name, new, src_dir_fd=source_handle, dst_dir_fd=target_handle, follow_symlinks=False
        )
    except FileExistsError:
        return False
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise
        if status_of(target_handle, new) is not None:
            return False
        os.rename(name, new, src_dir_fd=source_handle, dst_dir_fd=target_handle)
    os.fsync(target_handle)
    remove(source_handle, name)
    return True


def move_directory(directory_handle: int, name: str, new: str) -> bool:
    """Rename a directory; return False if the new name is taken."""
    if status_of(directory_handle, new) is not None:
        return False
    try:
        # A directory that appears in between is safe: rename(2) replaces only an empty one.
        os.rename(name, new, src_dir_fd=directory_handle, dst_dir_fd=directory_handle)
    except OSError as problem:
        if problem.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    os.fsync(directory_handle)
    return True


def is_copy(source_handle: int, name: str, target_handle: int, other: str) -> bool:
    """Return True if two regular files are the same, byte for byte."""
    with _opened(source_handle, name) as one, _opened(target_handle, other) as two:
        return _equal(one, two)


def drop_copy(source_handle: int, name: str, target_handle: int, other: str) -> bool:
    """Remove a file that is a copy of another; return False if they differ.

    The other file gets the later one of the two times.
    """
    with _opened(source_handle, name) as one, _opened(target_handle, other) as two:
        before, kept = os.fstat(one), os.fstat(two)
        if not _equal(one, two) or not same_file(status_of(source_handle, name), before):
            return False
        if kept.st_mtime_ns < before.st_mtime_ns:
            os.utime(two, ns=(kept.st_atime_ns, before.st_mtime_ns))
            os.fsync(two)
    return remove(source_handle, name)


@contextmanager
def _opened(directory_handle: int, name: str) -> Iterator[int]:
    handle = os.open(name, _FILE, dir_fd=directory_handle)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _unsafe(name)
        yield handle
    finally:
        os.close(handle)


def _equal(one: int, two: int) -> bool:
    first, second = os.fstat(one), os.fstat(two)
    if os.path.samestat(first, second):
        return True
    if first.st_size != second.st_size:
        return False
    while data := os.read(one, _CHUNK_BYTES):
        if data != os.read(two, _CHUNK_BYTES):
            return False
    return not os.read(two, 1)


def sweep(directory_handle: int) -> int:
    """Remove the files that killed writers left; the caller holds the lock."""
    names = os.listdir(directory_handle)
    leftovers = [name for name in names if name.endswith(TEMPORARY_SUFFIX)]
    for name in leftovers:
        _unlink_quietly(directory_handle, name)
    for name in names:
        if name.endswith(ASIDE_SUFFIX):
            # Another program may have used such a name; that is no reason to stop.
            with suppress(OSError, ValueError):
                finish_replacement(directory_handle, name)
    return len(leftovers)
