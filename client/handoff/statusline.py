"""The status line: our line, below the output of a person's own command. As light as fast.py."""

import posix
import select
import time

from handoff import fast
from handoff.common import paths, wire

# Claude Code cancels a status line that is late. This limit ends a command whose output is no
# longer awaited.
THEIRS_SECONDS = 5.0
OUTPUT_MAX_BYTES = 1 << 16
COLUMNS = 80
_SIGHUP, _SIGINT, _SIGKILL, _SIGPIPE, _SIGTERM = 1, 2, 9, 13, 15


def run(command: str) -> str:
    """Return the text to show: the output of their command first, then our line."""
    given = fast.hook_input()
    theirs = _start(command, given) if command else None
    ours = _our_line(given)
    shown = _finish(*theirs) if theirs else ""
    return f"{shown.rstrip()}\n{ours}" if shown.strip() and ours else (shown.strip() or ours)


def _our_line(given: str) -> str:
    columns = paths.variable("COLUMNS")
    params = {
        "protocol": wire.PROTOCOL,
        "cwd": fast.working_directory() or "/",
        "hook": given,
        "environment": {name: paths.variable(name) for name in fast.HOOK_VARIABLES},
        "render": {
            "columns": min(max(int(columns), 20), 1000) if columns.isdigit() else COLUMNS,
            "colour": False,
            "json": False,
        },
    }
    try:
        return fast.outcome(fast.call("statusline", params, fast.HOOK_BUDGET_SECONDS))[1].strip()
    except fast.Hanging:
        return ""
    except fast.Unreachable:
        return "handoffd is not running (handoff up)"
    except Exception:  # noqa: BLE001  a status line says nothing rather than fail
        return ""


def _start(command: str, given: str) -> tuple[int, int]:
    """Start their command with our input; return its process id and the pipe of its output."""
    stdin, feed = posix.pipe()
    output, stdout = posix.pipe()
    # A command that does not read its input must not block us.
    posix.set_blocking(feed, False)
    pid = posix.posix_spawn(
        "/bin/sh",
        ["sh", "-c", command],
        posix.environ,
        file_actions=[
            (posix.POSIX_SPAWN_DUP2, stdin, 0),
            (posix.POSIX_SPAWN_DUP2, stdout, 1),
        ],
        setsigdef=[_SIGPIPE],
        setpgroup=0,
    )
    _end_with_us(pid)
    posix.close(stdin)
    posix.close(stdout)
    try:  # noqa: SIM105  contextlib would cost its import
        posix.write(feed, given.encode("utf-8", "replace"))
    except OSError:
        pass  # the command does not read its input
    posix.close(feed)
    return pid, output


def _end_with_us(pid: int) -> None:
    """Kill their command when a signal ends us: it must not outlive a cancelled status line."""
    import _signal  # type: ignore[import-not-found]

    def end(number: int, _frame: object) -> None:
        posix.killpg(pid, _SIGKILL)
        posix._exit(128 + number)  # noqa: SLF001  os would cost its import

    for number in (_SIGHUP, _SIGINT, _SIGTERM):
        _signal.signal(number, end)


def _finish(pid: int, output: int) -> str:
    """Return the output of their command, as far as it came in time."""
    parts: list[bytes] = []
    size = 0
    deadline = time.monotonic() + THEIRS_SECONDS
    while size < OUTPUT_MAX_BYTES:
        if not select.select([output], [], [], max(deadline - time.monotonic(), 0))[0]:
            posix.killpg(pid, _SIGKILL)  # the processes that it started hang with it
            break
        part = posix.read(output, 1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts).decode("utf-8", "replace")
