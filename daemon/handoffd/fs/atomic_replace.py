"""Renaming a finished file into place without losing a concurrent write of another program.

A plain rename also replaces a file that appeared or changed after the last check. renameat2(2) can
refuse to replace, or exchange two names.
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
# The errors of an old kernel, and of a file system that supports neither flag.
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


def rename(directory_handle: int, name: str, new: str) -> None:
    os.rename(name, new, src_dir_fd=directory_handle, dst_dir_fd=directory_handle)


def replace_if_unchanged(
    directory_handle: int, temporary: str, name: str, expected: os.stat_result | None
) -> bool:
    """Replace a file by the temporary one; return False if it is no longer the `expected` one.

    A person may write between a check and a rename. So the two files exchange their names, and the
    old file is checked afterwards, when no other program can find it by its name.
    """
    try:
        if expected is not None:
            return _replace_by_exchange(directory_handle, temporary, name, expected)
        if not _rename_to_free_name(directory_handle, temporary, name):
            rename(directory_handle, temporary, name)
    except (FileExistsError, FileNotFoundError):
        return False
    return True


def _replace_by_exchange(
    directory_handle: int, temporary: str, name: str, expected: os.stat_result
) -> bool:
    ours = _stamp(status_of(directory_handle, temporary))
    # The old file may be a person's. It must never have the name of a temporary file, which `sweep`
    # deletes. So the temporary file gets another name before the exchange.
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
    """Exchange two names again; keep a file that was put there meanwhile, since it is newest."""
    try:
        _exchange(directory_handle, aside, name)
    except FileNotFoundError:
        # Our file was moved away, as editors do. If a newer file has the name, `aside` stays.
        with suppress(FileExistsError):
            _rename_to_free_name(directory_handle, aside, name)
        return
    if _stamp(status_of(directory_handle, aside)) == ours:
        os.unlink(aside, dir_fd=directory_handle)
    else:
        rename(directory_handle, aside, name)


def finish_replacement(directory_handle: int, aside: str) -> None:
    """Complete a replacement whose writer was killed.

    Our own file and the file that it replaced are deleted. A person's file is put back, or stays
    aside if a newer file has its name.
    """
    name, ours, expected = aside.removesuffix(ASIDE_SUFFIX)[1:].rsplit(".", 2)
    if _stamp(status_of(directory_handle, aside)) in (ours, expected):
        os.unlink(aside, dir_fd=directory_handle)
    elif _stamp(status_of(directory_handle, name)) in (ours, _stamp(None)):
        _put_back(directory_handle, aside, name, ours)


def _stamp(status: os.stat_result | None) -> str:
    """Return a short checksum that identifies a version of a file, for use in a file name."""
    identity = (status.st_ino, status.st_size, status.st_mtime_ns) if status else ()
    return f"{binascii.crc32(repr(identity).encode()):08x}"


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
    """Exchange two names in a directory; return False if the system cannot do that."""
    return _rename_with_flags(directory_handle, one, other, _EXCHANGE)


def _rename_to_free_name(directory_handle: int, name: str, new: str) -> bool:
    """Rename to a free name or raise FileExistsError; return False if the system cannot do that."""
    return _rename_with_flags(directory_handle, name, new, _NO_REPLACE)


def _rename_with_flags(directory_handle: int, name: str, new: str, flags: int) -> bool:
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
    import ctypes  # noqa: PLC0415  on Linux the file observer has loaded it already

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None

    def call(handle: int, name: bytes, new: bytes, flags: int) -> tuple[int, int]:
        failed = function(handle, name, handle, new, flags)
        return failed, ctypes.get_errno()

    return call
