"""The only writer of files: atomic, durable, never through a symlink below the trusted root.

Every step is relative to an open directory, so that nothing can be swapped under us.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from handoff.errors import HandoffError, UnsafePathError

TEMPORARY_SUFFIX = ".handoffd-tmp"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def directory(root: str, relative: str = "", *, create: bool = False) -> Iterator[int]:
    """Open a directory below a root, component by component; yields its descriptor.

    The root itself is trusted and must exist: a project that was deleted is not made again.
    """
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in filter(None, relative.split("/")):
            below = _open_component(handle, part, f"{root}/{relative}", create=create)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _open_component(parent: int, name: str, shown: str, *, create: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not create:
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
        os.fsync(parent)
    except FileExistsError:
        pass  # another writer was quicker
    return _open_component(parent, name, shown, create=False)


class BusyError(HandoffError):
    """Another writer holds the lock for longer than we may wait."""


@contextmanager
def locked(directory_handle: int, name: str, wait_seconds: float) -> Iterator[None]:
    """Hold the lock that every writer of ours takes; the kernel drops it with the process."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(name, flags, 0o600, dir_fd=directory_handle)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _unsafe(name) from None
        raise
    try:
        _acquire(handle, name, wait_seconds)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, name: str, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"Another program holds {name}.", "Try again when it has finished."
                ) from None
            time.sleep(0.002)
        else:
            return


def read(directory_handle: int, name: str, limit: int) -> tuple[bytes, os.stat_result] | None:
    """Read a small regular file, or None if there is none; never blocks on a FIFO or a device."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(name, flags, dir_fd=directory_handle)
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
        if status.st_size > limit:
            raise HandoffError(
                f"{name} has {status.st_size} bytes; the limit is {limit}.",
                "Shorten it, or move it aside.",
            )
        return os.read(handle, limit + 1), status
    finally:
        os.close(handle)


def _unsafe(name: str) -> UnsafePathError:
    return UnsafePathError(
        f"{name} is a symlink or no regular file; it is left alone.",
        f"Replace {name} by a regular file, or remove it.",
    )


def write(
    directory_handle: int,
    name: str,
    data: bytes,
    *,
    unless_changed_from: os.stat_result | None = None,
    compare: bool = False,
) -> os.stat_result | None:
    """Replace a file atomically and durably.

    With `compare`, nothing is written and None returned if the file on disk is no longer the
    one that was read (`unless_changed_from`; None: there was no file).
    """
    temporary = f".{name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        written = _write_temporary(directory_handle, temporary, data)
        current = _regular(directory_handle, name)
        if compare and not same_file(current, unless_changed_from):
            os.unlink(temporary, dir_fd=directory_handle)
            return None
        os.rename(temporary, name, src_dir_fd=directory_handle, dst_dir_fd=directory_handle)
    except BaseException:
        _unlink_quietly(directory_handle, temporary)
        raise
    os.fsync(directory_handle)
    return written


def _write_temporary(directory_handle: int, name: str, data: bytes) -> os.stat_result:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(name, flags, 0o600, dir_fd=directory_handle)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
        return os.fstat(handle)
    finally:
        os.close(handle)


def _regular(directory_handle: int, name: str) -> os.stat_result | None:
    """Return the status of a target, which must be a regular file if it is there."""
    current = _status(directory_handle, name)
    if current is not None and not stat.S_ISREG(current.st_mode):
        raise _unsafe(name)
    return current


def same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
    )


def _status(directory_handle: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory_handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _unlink_quietly(directory_handle: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory_handle)
    except OSError:
        return


def create_once(directory_handle: int, name: str, data: bytes) -> None:
    """Write a file unless something of that name is there."""
    if _status(directory_handle, name) is None:
        write(directory_handle, name, data)


def sweep(directory_handle: int) -> int:
    """Remove what a killed writer left behind; call it with the lock held."""
    left = [name for name in os.listdir(directory_handle) if name.endswith(TEMPORARY_SUFFIX)]
    for name in left:
        _unlink_quietly(directory_handle, name)
    return len(left)
