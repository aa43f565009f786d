"""The hot path: argv -> one frame -> print.

It imports neither os nor json, and nothing from the directory in which it runs: a hook of the
editor pays for one interpreter start. Modules that only a failure needs are imported there.
Annotations are quoted, since `__future__` is a module, too. All commands and arguments that are
unknown here go to cli.py.
"""

import posix
import sys
import time

from handoff.common import paths, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

    Params = dict[str, Any]
    Outcome = tuple[int, str, str]

# command -> its maximum number of positional arguments
HOT_COMMANDS = {"status": 0, "show": 1, "sessions": 1, "inject": 0, "hook": 0}
# These commands serve a hook: they never fail, and they give up soon.
SILENT = ("inject", "hook")
# The sources of SessionStart after which a session knows nothing yet, or nothing any more.
SOURCES_FROM_DISK = ("startup", "clear", "compact")
LEVELS = ("L0", "L1", "L2", "L3")
HOOK_BUDGET_SECONDS = 0.1
HOOK_VARIABLES = (
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_PLUGIN_ROOT",
)
REPLY_SECONDS = 3.0
HOOK_INPUT_MAX_BYTES = 512 << 10
FLOW_COMMANDS = ("save", "inject")


class Unreachable(Exception):  # noqa: N818  a state of the world, not of the program
    """No daemon can be reached."""


class Hanging(Unreachable):
    """A daemon runs, but it does not answer."""


def main(name: str, argv: list[str]) -> None:
    command = argv[0] if argv else ""
    if name == "flow" and command not in (*FLOW_COMMANDS, "", "-h", "--help"):
        _exit_now(2, "", f"flow: only {' and '.join(FLOW_COMMANDS)}; all the rest is `handoff`.\n")
    if command == "mcp" and can_relay(argv[1:]):
        from handoff.mcp_relay import relay

        _exit_now(relay.run(argv[-1] if argv[1:] else "chat"))
    if command == "statusline" and (not argv[1:] or (argv[1] == "--beside" and len(argv) == 3)):  # noqa: PLR2004
        from handoff import statusline

        _exit_now(0, statusline.run(argv[2] if argv[1:] else ""))
    params = parse(command, argv[1:])
    if params is None:
        from handoff.cli import main as slow_main

        code = slow_main(name, argv)
        # From a hook, exit code 2 would stop the editor's compaction.
        _exit_now(0 if command in SILENT else code)
        return
    if command in SILENT:
        _exit_now(0, *_serve_hook(command, params))
    _exit_now(*run(command, params))


def can_relay(arguments: list[str]) -> bool:
    """Return True if the relay of `mcp` can start at once; argparse handles other arguments."""
    return arguments in ([], ["--client", "chat"], ["--client", "code"])


def parse(command: str, arguments: list[str]) -> "Params | None":
    """Return the parameters of a hot command, or None if argparse should handle it."""
    if command not in HOT_COMMANDS:
        return None
    params: Params = {"protocol": wire.PROTOCOL}
    as_json = False
    positional = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--json" and command not in SILENT:
            as_json = True
        elif argument == "--save-state" and command == "inject":
            params["save_state"] = True
        elif argument in ("-q", "--quiet") and command == "inject":
            continue  # an older hook passes it; the command is always quiet
        elif argument in ("-l", "--level") and command == "inject":
            params["level"] = next(rest, "")
        elif argument.startswith("-") or not argument:
            return None
        else:
            positional.append(argument)
    if len(positional) > HOT_COMMANDS[command] or params.get("level", "L1") not in LEVELS:
        return None
    if positional:
        params["project"] = positional[0]
    params["cwd"] = working_directory()
    if not params["cwd"] and command not in SILENT:
        return None
    params["render"] = rendering(as_json)
    return params


def working_directory() -> str:
    """Return the current directory, or an empty string if it was deleted."""
    try:
        return posix.getcwd()
    except OSError:
        return ""


def rendering(as_json: bool) -> "Params":
    """Return the abilities of this terminal, for the daemon that renders the answer."""
    columns, colour = 80, False
    if posix.isatty(1):
        colour = not paths.variable("NO_COLOR") and paths.variable("TERM") != "dumb"
        try:
            columns = min(max(posix.get_terminal_size(1).columns or 80, 20), 1000)
        except OSError:
            columns = 80
    return {"columns": columns, "colour": colour, "json": as_json}


def run(command: str, params: "Params") -> "Outcome":
    """Ask the daemon; return exit code, standard output and standard error."""
    try:
        reply = call(command, params, REPLY_SECONDS)
    except Unreachable as reason:
        from handoff.common.errors import EXIT_FAILED, EXIT_NOT_RUNNING

        code, why, remedy = EXIT_FAILED, str(reason), "End it and start it anew: handoff restart"
        if not isinstance(reason, Hanging):
            from handoff.lock_holder import unreachable_message

            code, (why, remedy) = EXIT_NOT_RUNNING, unreachable_message(why)
        if command == "show":
            from handoff.cli import show_offline

            return show_offline(params, why, f"{remedy}\n")
        return code, "", f"{why}\n{remedy}\n"
    return outcome(reply)


def outcome(reply: "Params") -> "Outcome":
    error = reply.get("error")
    if error:
        from handoff.common.errors import EXIT_FAILED

        data = error.get("data") or {}
        hint = data.get("hint")
        text = f"handoff: {error.get('message')}\n" + (f"{hint}\n" if hint else "")
        return data.get("exit", EXIT_FAILED), "", text
    result = reply.get("result") or {}
    if result.get("protocol") != wire.PROTOCOL:
        from handoff.common.errors import EXIT_VERSIONS_DIFFER

        return EXIT_VERSIONS_DIFFER, "", versions_differ(result)
    return result.get("exit", 0), result.get("text", ""), ""


def versions_differ(result: "Params") -> str:
    from handoff import __version__

    return (
        f"handoff: this client is {__version__} (protocol {wire.PROTOCOL}), the daemon is "
        f"{result.get('version')} (protocol {result.get('protocol')}): run `handoff restart`.\n"
    )


def call(
    method: str, params: "Params", seconds: float, connection: "_socket.socket | None" = None
) -> "Params":
    """Send a request and return the reply within the time; a busy daemon is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        reply = _exchange(wire.request(method, params), deadline, connection)
        connection = None
        is_busy = (reply.get("error") or {}).get("code") == wire.BUSY
        if not is_busy or time.monotonic() > deadline:
            return reply
        time.sleep(0.01)


def _exchange(
    request: bytes, deadline: float, connection: "_socket.socket | None" = None
) -> "Params":
    """Send one request and wait for its reply."""
    connection = connection or connect(deadline)
    try:
        try:  # noqa: SIM105  contextlib would cost its import
            connection.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the daemon stopped reading, and may have replied why
        parts = []
        while True:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            part = connection.recv(1 << 16)
            if not part:
                raise Unreachable("handoffd closed the connection.")
            parts.append(part)
            if part.endswith(b"\n"):
                reply: Params = wire.decode(b"".join(parts))
                return reply
    except OSError as problem:
        raise Hanging(f"handoffd does not answer ({problem}).") from None
    finally:
        connection.close()


def connect(deadline: float) -> "_socket.socket":
    """Return a connection to the first socket that accepts one and is ours."""
    import _socket

    for path in paths.socket_candidates():
        while True:
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                connection.connect(path.encode("utf-8", "surrogateescape"))
            except BlockingIOError:
                # A Unix socket with a full backlog gives EAGAIN: the daemon lives, but is busy.
                connection.close()
                if time.monotonic() > deadline:
                    break
                time.sleep(0.002)
            except OSError:
                connection.close()
                break
            else:
                if is_ours(connection):
                    return connection
                connection.close()
                break
    # The caller chooses the message: a relay whose package was removed could not load one.
    raise Unreachable


def is_ours(connection: "_socket.socket") -> bool:
    """Return True if this user or root listens at the other end.

    `su` may leave us another user's XDG_RUNTIME_DIR. The structures of both kernels have the user
    id in their second word.
    """
    import _socket

    if sys.platform == "darwin":
        level, option, size = 0, 1, 76
    else:
        level, option, size = _socket.SOL_SOCKET, _socket.SO_PEERCRED, 12
    try:
        uid = connection.getsockopt(level, option, size)[4:8]
    except OSError:
        return False
    return int.from_bytes(uid, sys.byteorder) in (posix.getuid(), 0)


def _serve_hook(command: str, params: "Params") -> tuple[str, str]:
    """Return stdout and stderr for a hook, in time or from disk, and never as a failure."""
    try:
        # Connect first: the daemon accepts the connection while we read the hook's input.
        connection = _connect_or_none()
        hook = hook_input()
        params["hook"] = hook
        params["cwd"] = params["cwd"] or "/"
        params["environment"] = {name: paths.variable(name) for name in HOOK_VARIABLES}
        try:
            if connection:
                return outcome(call(command, params, HOOK_BUDGET_SECONDS, connection))[1:]
        except Unreachable:
            pass
        why = "handoffd did not answer in time" if connection else "handoffd is not running"
        return _from_disk(command, params, fields_of(hook), why)
    except Exception as problem:  # noqa: BLE001  a hook never fails the program it serves
        return "", f"handoff {command}: {problem}\n"


def _connect_or_none() -> "_socket.socket | None":
    try:
        return connect(time.monotonic() + HOOK_BUDGET_SECONDS)
    except Unreachable:
        return None


def _from_disk(command: str, params: "Params", hook: "Params", why: str) -> tuple[str, str]:
    if command == "hook" and not (
        text_of(hook, "hook_event_name") == "SessionStart"
        and text_of(hook, "source") in SOURCES_FROM_DISK
    ):
        return "", ""  # the content of all other events is in the transcript
    start = paths.variable("CLAUDE_PROJECT_DIR") or text_of(hook, "cwd") or params["cwd"]
    root = paths.project_root(start)
    plain = not params.get("save_state") and params.get("level", "L1") == "L1"
    brief = paths.read_dated_brief(root) if plain else None
    if brief is not None:
        return _aged(*brief, why), ""
    if command == "hook" and paths.checkpoint_stamp(root) == "none":
        return "", ""
    from handoff import local

    code = local.daemon_code()
    if params.get("save_state"):
        code.save_state(start)
        return "", ""
    text = code.inject_text(start, params.get("level", "L1"))
    return _noted(text, f"{why}; this is what is on disk"), ""


def _aged(text: str, written: float, why: str) -> str:
    """Return a brief on disk with its age: later work may be missing."""
    from handoff.common.ages import ago, with_ages

    now = time.time()
    return _noted(with_ages(text, now), f"{why}; this was written {ago(now - written)}")


def _noted(text: str, why: str) -> str:
    from handoff.common.ages import with_note

    return with_note(text, f"**Not up to date:** {why}, and later work may be missing.")


def fields_of(hook: str) -> "Params":
    try:
        found = wire.decode(hook.encode())
    except Exception:  # noqa: BLE001  stdin was not the JSON of a hook
        return {}
    return found if isinstance(found, dict) else {}


def text_of(hook: "Params", name: str) -> str:
    found = hook.get(name)
    return found if isinstance(found, str) else ""


def hook_input() -> str:
    """Return the hook's JSON on stdin, as far as it arrives within HOOK_BUDGET_SECONDS."""
    kind = posix.fstat(0).st_mode & 0o170000
    if kind not in (0o010000, 0o140000, 0o100000):  # a pipe, a socket or a file
        return ""
    import _signal  # type: ignore[import-not-found]  # built in; select may be a separate file

    parts: list[bytes] = []
    try:
        _signal.signal(_signal.SIGALRM, _raise_timeout)
        # The parent process may have blocked SIGALRM.
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
        _signal.setitimer(_signal.ITIMER_REAL, HOOK_BUDGET_SECONDS)
        while sum(map(len, parts)) < HOOK_INPUT_MAX_BYTES:
            part = posix.read(0, 1 << 16)
            parts.append(part)
            if not part or part.endswith(b"}\n"):
                break
        _signal.setitimer(_signal.ITIMER_REAL, 0)
    except TimeoutError:
        pass
    return b"".join(parts).decode("utf-8", "replace")


def _raise_timeout(*_: object) -> None:
    raise TimeoutError


def _exit_now(code: int, out: str = "", err: str = "") -> None:
    """Print, and end the process without the interpreter's own shutdown."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None if it was closed before the start
                stream.flush()
        except OSError:
            pass  # the reader is gone
    if err:  # it may contain a name; the daemon's output is harmless already
        from handoff.common.plain_text import plain

        err = plain(err)
    for handle, text in ((1, out), (2, err)):
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[posix.write(handle, data) :]
        except OSError:
            pass
    posix._exit(code)  # noqa: SLF001  the public name in os would cost the import of os
