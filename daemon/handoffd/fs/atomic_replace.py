"""Giving a finished file its name, without losing what somebody else wrote there just now.

A plain rename replaces whatever came to be there after the last look; renameat2(2) does not.
"""

import binascii
import errno
import os
import sys
from contextlib import suppress
from functools import cache
from typing import Any

ASIDE_SUFFIX = ".handoffd-aside"
_NO_REPLACE, _EXCHANGE = 1, 2
# An old kernel, or a disk that knows neither.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


def rename(directory_handle: int, name: str, new: str) -> None:
    os.rename(name, new, src_dir_fd=directory_handle, dst_dir_fd=directory_handle)


def take_place(
    directory_handle: int, temporary: str, name: str, expected: os.stat_result | None
) -> bool:
    """Put a file in the place of another; False if that one changed after it was looked at.

    A person may write in the moment between a look and a rename: so the two exchange their names,
    and what was there is looked at when nobody else can find it any more.
    """
    try:
        if expected is not None:
            return _exchanged(directory_handle, temporary, name, expected)
        if not _take_free(directory_handle, temporary, name):
            rename(directory_handle, temporary, name)
    except (FileExistsError, FileNotFoundError):
        return False
    return True


def _exchanged(directory_handle: int, temporary: str, name: str, expected: os.stat_result) -> bool:
    ours = _stamp(status_of(directory_handle, temporary))
    # What is there may be a person's: not for a moment has it the name of what we throw away.
    aside = f".{name}.{ours}.{_stamp(expected)}{ASIDE_SUFFIX}"
    rename(directory_handle, temporary, aside)
    try:
        if not _exchange(directory_handle, aside, name):
            rename(directory_handle, aside, name)
            return True
    except OSError:
        rename(directory_handle, aside, temporary)
        raise
    if same_file(status_of(directory_handle, aside), expected):
        os.unlink(aside, dir_fd=directory_handle)
        return True
    _put_back(directory_handle, aside, name, ours)
    return False


def _put_back(directory_handle: int, aside: str, name: str, ours: str) -> None:
    """Exchange two names again; what somebody put there meanwhile is newer than both."""
    try:
        _exchange(directory_handle, aside, name)
    except FileNotFoundError:
        # Ours was moved away, as editors do. A newer file leaves this one where it is.
        with suppress(FileExistsError):
            _take_free(directory_handle, aside, name)
        return
    if _stamp(status_of(directory_handle, aside)) == ours:
        os.unlink(aside, dir_fd=directory_handle)
    else:
        rename(directory_handle, aside, name)


def settle(directory_handle: int, aside: str) -> None:
    """End what a killed writer began: ours and what it replaced go, a person's is put back.

    It stays aside where its place was taken by something newer.
    """
    name, ours, expected = aside.removesuffix(ASIDE_SUFFIX)[1:].rsplit(".", 2)
    if _stamp(status_of(directory_handle, aside)) in (ours, expected):
        os.unlink(aside, dir_fd=directory_handle)
    elif _stamp(status_of(directory_handle, name)) in (ours, _stamp(None)):
        _put_back(directory_handle, aside, name, ours)


def _stamp(status: os.stat_result | None) -> str:
    """Return what tells a file from others, short enough for a name."""
    told = (status.st_ino, status.st_size, status.st_mtime_ns) if status else ()
    return f"{binascii.crc32(repr(told).encode()):08x}"


def same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
    )


def status_of(directory_handle: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory_handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _exchange(directory_handle: int, one: str, other: str) -> bool:
    """Exchange two names of a directory; False where that cannot be done."""
    return _rename_by(directory_handle, one, other, _EXCHANGE)


def _take_free(directory_handle: int, name: str, new: str) -> bool:
    """Rename to a name that is free, or raise FileExistsError; False where that cannot be done."""
    return _rename_by(directory_handle, name, new, _NO_REPLACE)


def _rename_by(directory_handle: int, name: str, new: str, flags: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    failed, number = call(directory_handle, os.fsencode(name), os.fsencode(new), flags)
    if failed and number not in _UNKNOWN:
        raise OSError(number, os.strerror(number), new)
    return not failed


@cache
def _renameat2() -> Any:
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415  there the observer has it in memory already

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None

    def call(handle: int, name: bytes, new: bytes, flags: int) -> tuple[int, int]:
        failed = function(handle, name, handle, new, flags)
        return failed, ctypes.get_errno()

    return call
