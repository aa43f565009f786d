"""Start a program that the kernel confines, with its children, to a few files and no network.

On Linux this uses Landlock (files) and seccomp (sockets). Both restrict the calling thread and the
programs that it starts. So a separate thread restricts itself, starts the program and ends: no code
of ours runs between fork and exec, and the daemon itself is not restricted. On macOS this uses
sandbox-exec; that part was written from its documentation and has never been run.
"""

import ctypes
import functools
import gc
import os
import platform
import re
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

_starting = threading.Lock()
T = TypeVar("T")
# The loader, the libraries and the time zones that a program may need.
_SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/zoneinfo",
    "/etc/ld.so.cache", "/etc/localtime", "/nix/store", "/dev/urandom",
)  # fmt: skip
# The kernel's numbers: linux/landlock.h, linux/seccomp.h, linux/filter.h and asm/unistd.h.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1, 2, 4, 8
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
# The number of access rights per version of Landlock. Version 1 cannot move files; version 2 is in
# Linux 5.19.
_KINDS = {2: 14, 3: 15, 4: 15}
_KINDS_NOW = 16
_OLDEST = 2
_SIGNALS, _WITH_SIGNALS = 2, 6
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
# Per machine: its number in the kernel's audit, and the number of the system call socket().
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
_IO_URING_SETUP = 425  # it opens sockets as well
_OTHER_CALLS = 0x40000000  # x32: the same calls by other numbers
_LOADER = re.compile(rb"(/[\x21-\x7e]+/ld[-.\w]*)\0")
_SANDBOX = "/usr/bin/sandbox-exec"


class Reach(NamedTuple):
    """The files that a confined program may use; a directory includes all files below it."""

    program: str
    readable: tuple[str, ...]
    writable: tuple[str, ...]


def problem() -> str:
    """Return the reason why programs cannot be confined here, or an empty text."""
    if sys.platform == "darwin":
        return "" if os.access(_SANDBOX, os.X_OK) else f"this system has no {_SANDBOX}"
    if platform.machine() not in _MACHINES:
        return f"programs cannot be confined on {platform.machine()}"
    version = _landlock()
    return "" if version >= _OLDEST else "this kernel has no Landlock (Linux 5.19 or newer)"


def start(reach: Reach, words: Sequence[str], begin: Callable[[Sequence[str]], T]) -> T:
    """Let `begin` start a program that can reach these files and no others."""
    if sys.platform == "darwin":
        return begin([_SANDBOX, "-p", _profile(reach), *words])
    outcome: list[T] = []
    failure: list[BaseException] = []

    def begin_confined() -> None:
        try:
            _restrict(reach)
            outcome.append(begin(words))
        except BaseException as reason:  # noqa: BLE001  the waiting thread raises it again
            failure.append(reason)

    thread = threading.Thread(target=begin_confined, name="confined")
    with _starting, _without_collection():
        thread.start()
        thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


@contextmanager
def _without_collection() -> Iterator[None]:
    """Turn off garbage collection: a finalizer in the confined thread could not reach its files."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _restrict(reach: Reach) -> None:
    """Confine this thread permanently, and every program that it starts."""
    version = _landlock()
    kinds = (1 << _KINDS.get(version, _KINDS_NOW)) - 1
    reading, running = _READ_FILE | _READ_DIRECTORY, _EXECUTE | _READ_FILE
    rules = [
        *((path, reading) for path in (*_SYSTEM, *reach.readable)),
        *((path, kinds & ~_EXECUTE) for path in reach.writable),
        *((path, running) for path in (reach.program, _loader(reach.program)) if path),
        ("/dev/null", _READ_FILE | _WRITE_FILE),
    ]
    # Landlock handles files and, since Linux 6.12, signals to other processes. It does not handle
    # the network here, since sockets are refused below.
    handled = struct.pack("=QQQ", kinds, 0, _SIGNALS)[: 24 if version >= _WITH_SIGNALS else 8]
    ruleset = _call(_CREATE_RULESET, handled, len(handled), 0)
    try:
        for path, access in rules:
            _allow(ruleset, path, access & kinds)
        _control(_NO_NEW_PRIVILEGES, 1)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    _refuse_sockets()


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        number = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not every system has all of these directories
    try:
        of_its_kind = -1 if stat.S_ISDIR(os.fstat(number).st_mode) else _OF_FILES
        _call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", access & of_its_kind, number), 0)
    finally:
        os.close(number)


def _refuse_sockets() -> None:
    """Let every call that creates a socket fail: Landlock covers only TCP, in later versions."""
    architecture, socket = _MACHINES[platform.machine()]
    # Instruction, steps to skip if the comparison is true, steps to skip if false, operand.
    steps = (
        (_LOAD, 0, 0, 4), (_IF_EQUAL, 0, 4, architecture), (_LOAD, 0, 0, 0),
        (_IF_AT_LEAST, 2, 0, _OTHER_CALLS), (_IF_EQUAL, 1, 0, socket),
        (_IF_EQUAL, 0, 1, _IO_URING_SETUP), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW),
    )  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    _control(_SET_SECCOMP, _FILTER, struct.pack("@HP", len(steps), ctypes.addressof(code)))


def _landlock() -> int:
    """Return the version of Landlock in the kernel; 0 if there is none."""
    try:
        return _call(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def _call(*arguments: int | bytes | None) -> int:
    return _checked(_library().syscall, *arguments)


def _control(*arguments: int | bytes) -> None:
    # prctl() takes five arguments, and some operations require the unused ones to be zero.
    _checked(_library().prctl, *(*arguments, 0, 0, 0, 0)[:5])


def _checked(function: Callable[..., int], *arguments: int | bytes | None) -> int:
    # ctypes passes a plain int as 32 bits, but the kernel reads 64.
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer = function(*converted)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the program cannot be confined: {os.strerror(number)}")
    return answer


@functools.cache
def _library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _loader(program: str) -> str:
    """Return the loader that the kernel starts for a program, or nothing if it needs none."""
    with open(program, "rb") as stream:
        found = _LOADER.search(stream.read(1 << 13))
    return os.fsdecode(found[1]) if found else ""


def _profile(reach: Reach) -> str:
    """Return the profile for sandbox-exec on macOS."""

    def paths(kind: str, *names: str) -> str:
        return " ".join(f'({kind} "{_quoted(os.path.realpath(name))}")' for name in names)

    readable = paths("subpath", "/usr/lib", "/System", "/usr/share", *reach.readable)
    writable = paths("subpath", *reach.writable)
    program, null = paths("literal", reach.program), paths("literal", "/dev/null", "/dev/urandom")
    return (
        "(version 1)(deny default)(allow sysctl-read)(allow file-read-metadata)"
        f"(allow process-exec {program})(allow file-read* {program} {readable} {writable} {null})"
        f"(allow file-write* {writable} {null})"
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
