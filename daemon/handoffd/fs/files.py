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
from contextlib import contextmanager, suppress
from typing import Literal

from handoff.common.errors import HandoffError, UnsafePathError
from handoffd.fs.atomic_replace import (
    ASIDE_SUFFIX,
    rename,
    same_file,
    settle,
    status_of,
    take_place,
)

TEMPORARY_SUFFIX = ".handoffd-tmp"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What link(2) says where hard links cannot be: exFAT, some network disks, a file of another user.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_CHUNK_BYTES = 1 << 16
_PRIVATE_DIRECTORY = 0o700
_PRIVATE = 0o600
# What flock(2) says of a directory on a network disk, where only a file open for writing will do.
_NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


@contextmanager
def directory(
    root: str, relative: str = "", *, create: bool = False, mode: int = 0o700
) -> Iterator[int]:
    """Open a directory below a root, component by component; yields its descriptor.

    The root itself is trusted and must exist: a project that was deleted is not made again.
    `mode` is that of what is created, whatever the umask.
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
        # Another writer was quicker.
        return _open_component(parent, name, shown, None)
    os.fsync(parent)
    handle = _open_component(parent, name, shown, None)
    if mode != _PRIVATE_DIRECTORY:
        os.fchmod(handle, mode)
    return handle


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
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _unsafe(name)
        _acquire(handle, name, wait_seconds)
        yield
    finally:
        os.close(handle)


def lock_directory(
    directory_handle: int, name: str, wait_seconds: float, *, shared: bool = False
) -> None:
    """Lock an open directory itself, until it is closed; it gets no file for it.

    Where directories cannot be locked it is not: writers must also compare (`expected`).
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
    """Read a small regular file, or None if there is none; never blocks on a FIFO or a device.

    One that is too long is refused, or, with `cut`, read so far.
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


def write(  # noqa: PLR0913  all that can be said of one file
    directory_handle: int,
    name: str,
    data: bytes,
    *,
    expected: os.stat_result | Literal["anything"] | None = "anything",
    mtime_seconds: float | None = None,
    mode: int = _PRIVATE,
) -> os.stat_result | None:
    """Replace a file atomically and durably; `mode` holds whatever the umask.

    Nothing is written and None returned if the file on disk is no longer the one that was
    read (`expected`; None: there was no file).
    """
    temporary = f".{name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    try:
        written = _write_temporary(directory_handle, temporary, data, mtime_seconds, mode)
        current = _regular(directory_handle, name)
        if expected == "anything":
            rename(directory_handle, temporary, name)
        elif not same_file(current, expected) or not take_place(
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
    """Return the status of a target, which must be a regular file if it is there."""
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
    """Write a file unless something of that name is there."""
    if status_of(directory_handle, name) is None:
        write(directory_handle, name, data)


def touch(directory_handle: int, name: str, mode: int = _PRIVATE) -> None:
    """Set a file's time to now; make an empty one where there is none."""
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
    """Make a symlink unless something of that name is there; tells whether it was made."""
    try:
        os.symlink(target, name, dir_fd=directory_handle)
    except FileExistsError:
        return False
    return True


def remove(directory_handle: int, name: str) -> bool:
    """Remove a file, whatever it is; tells whether there was one."""
    try:
        os.unlink(name, dir_fd=directory_handle)
    except FileNotFoundError:
        return False
    os.fsync(directory_handle)
    return True


def remove_directory(directory_handle: int, name: str) -> bool:
    """Remove an empty directory; False when something is in it, or in its place."""
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
    """Move a file with its time; False when something of the new name is there.

    By a second link, since a rename replaces what is there. Killed between the two steps, the
    file has both names. Where links cannot be made the caller's lock must do.
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
    """Rename a directory; False when something of the new name is there."""
    if status_of(directory_handle, new) is not None:
        return False
    try:
        # What comes between is safe: rename(2) puts a directory over an empty one only.
        os.rename(name, new, src_dir_fd=directory_handle, dst_dir_fd=directory_handle)
    except OSError as problem:
        if problem.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    os.fsync(directory_handle)
    return True


def is_copy(source_handle: int, name: str, target_handle: int, other: str) -> bool:
    """Tell whether two regular files are the same, byte for byte."""
    with _opened(source_handle, name) as one, _opened(target_handle, other) as two:
        return _equal(one, two)


def drop_copy(source_handle: int, name: str, target_handle: int, other: str) -> bool:
    """Remove a file that another repeats; the other gets the later time. False when they differ."""
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
    """Remove what a killed writer left behind; call it with the lock held."""
    names = os.listdir(directory_handle)
    left = [name for name in names if name.endswith(TEMPORARY_SUFFIX)]
    for name in left:
        _unlink_quietly(directory_handle, name)
    for name in names:
        if name.endswith(ASIDE_SUFFIX):
            # Whoever gave it such a name, it is no reason to stop.
            with suppress(OSError, ValueError):
                settle(directory_handle, name)
    return len(left)
