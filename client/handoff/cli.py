"""The whole command line: argparse, and one file per command in commands/."""

import argparse
import contextlib
import importlib
import sys
from collections.abc import Callable, Collection
from typing import Any

from handoff import __version__, fast
from handoff.common import paths, wire
from handoff.common.errors import EXIT_FAILED, EXIT_USAGE, HandoffError, NotRunningError
from handoff.common.plain_text import PlainStream, PlainText

# The overview of --help is printed from this table; no module of a command is loaded for it.
COMMANDS = {
    "setup": "put handoffd into Claude Code: service, hooks or plugin, MCP, commands; asks first",
    "teardown": "take out what setup put in, and nothing else",
    "status": "what the daemon is doing: progress, lag, what was skipped or redacted",
    "show": "the state of a project: goal, now, files, branch, live sessions",
    "why": "the receipt of a value: who said it, when, and in which record",
    "save": "write what you are doing into handoff.yaml",
    "done": "close an open item, by its number in `handoff show`: it is done",
    "drop": "close an open item, by its number in `handoff show`: it is not to be done",
    "inject": "print the state for a new session (for hooks: quick, silent on failure, exit 0)",
    "hook": "answer a hook of Claude Code: what it says on stdin tells which (quick, exit 0)",
    "statusline": "one line for Claude Code's status line: goal, last handoff, unread, progress",
    "sessions": "the sessions of a project, or of all, most recent first",
    "watch": "follow the changes of a project, or of all, as they happen",
    "open": "what the last session left behind, and what else nobody has read",
    "list": "the handoffs of a project, the newest first",
    "close": "leave a handoff: your own words, completed by what is known of the session",
    "escalate": "call for a person in the newest handoff",
    "review": "the newest handoff as it is, and whether it calls for a person",
    "create": "make a track record in nine steps: file, metadata.json, index, Beads, mail",
    "resume": "take up a track: what was left, what moved since, what comes next",
    "auto": "resume at a session's first message, else create",
    "slash": "do what a slash command of Claude Code says, and tell all of it (always exits 0)",
    "triggers": "what fired lately, why, and what it wrote",
    "trigger": "make a trigger's record by hand, or with --dry-run show what it would be",
    "mcp": "the tools by which Chat and Code share a thread, over MCP on stdin and stdout",
    "thread": "a conversation of Chat and Code: create, get, add ID TYPE TEXT, read, close",
    "token": "access over HTTP: the token; the clients that ask by OAuth: approve, list, revoke",
    "pause": "learn nothing from now on: of one project, or of everything",
    "unpause": "learn again; what was written during the pause stays unknown",
    "forget": "erase what was derived of a project or a session; the transcripts are left",
    "repair": "mend what handoffd keeps, from all that can still be read; shown first, then asked",
    "logs": "the daemon's log",
    "up": "start the daemon: by its service unit if one is installed, else in the background",
    "down": "end the daemon in good order",
    "restart": "end the daemon, if it runs, and start it",
    "migrate": "bring handoff directories of the contract's first version to the second",
    "check-contract": "check a directory of handoffs against the contract, point by point",
    "doctor": "check that everything is as it should be; changes nothing",
    "version": "this client's version; --check compares it with the daemon's and the plugin's",
    "completion": "print the completion of a shell: bash, zsh or fish",
}
# The daemon may ask git, which can be slow. While the daemon is at work, no second process
# should do the same.
ASKED_SECONDS = 30.0
EXIT_CODES = (
    "exit codes: 0 done, 1 failed, 2 usage, 3 daemon not running,\n"
    "  4 a choice is needed, 5 not fresh, 6 versions differ, 7 already running"
)


def main(name: str, argv: list[str]) -> int:
    """Run one command and return its exit code; an expected error is printed as a message."""
    with (
        contextlib.redirect_stdout(_plain_stream(sys.stdout)),
        contextlib.redirect_stderr(_plain_stream(sys.stderr)),
    ):
        return _main(name, argv)


def _plain_stream(stream: Any) -> Any:
    return stream and PlainStream(stream)  # None if the stream was closed before the start


def _main(name: str, argv: list[str]) -> int:
    try:
        parser = build_parser(name, argv[:1])
        arguments, more = parser.parse_known_args(argv)
        # The content may follow an option. By then argparse has matched the optional positional
        # with nothing, so the word is left over.
        if len(more) == 1 and not more[0].startswith("-") and _lacks_content(arguments):
            arguments.content = more.pop()
        if more:
            parser.error(f"unrecognized arguments: {' '.join(more)}")
    except SystemExit as exit_request:
        return exit_request.code if isinstance(exit_request.code, int) else EXIT_USAGE
    try:
        return int(arguments.run(arguments))
    except HandoffError as problem:
        sys.stderr.write(f"handoff: {problem}\n")
        return problem.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except OSError as problem:
        from handoff.common.remedies import remedy

        sys.stderr.write(f"handoff: {problem}\n{remedy(problem)}".strip() + "\n")
        return EXIT_FAILED


def _lacks_content(arguments: argparse.Namespace) -> bool:
    return getattr(arguments, "content", "") is None


def build_parser(name: str, wanted: Collection[str]) -> argparse.ArgumentParser:
    """Return the parser of a program; only the wanted commands get their arguments."""
    parser = argparse.ArgumentParser(
        prog=name,
        description="The client of handoffd, which keeps the handoff of every project current.",
        epilog=f"Example: {name} save -m 'half way through the parser'\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"handoff {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in fast.FLOW_COMMANDS if name == "flow" else COMMANDS:
        text = COMMANDS[command]
        # Usually one command is used; the others are added for their line in the help.
        sub = subparsers.add_parser(
            command,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=command in wanted,
        )
        if command in wanted:
            module = importlib.import_module(f"handoff.commands.{command.replace('-', '_')}")
            sub.epilog = f"Example: {module.EXAMPLE.replace('handoff', name, 1)}"
            module.arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def current_directory() -> str:
    """Return the current directory, or raise an error if it was deleted."""
    directory = fast.working_directory()
    if not directory:
        raise HandoffError("The current directory no longer exists.", "Go to another one: cd")
    return directory


def end_on_interrupt() -> None:
    """End a waiting program on Ctrl-C; an exception would be lost if a destructor raised it."""
    import os
    import signal

    signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def show_offline(params: dict[str, Any], reason: str, remedy: str) -> tuple[int, str, str]:
    """Return exit code, output and a note for `show`, rendered from the files on disk."""
    import os

    from handoff import local

    start = os.path.normpath(
        os.path.join(params["cwd"], os.path.expanduser(params.get("project") or ""))
    )
    try:
        text = local.daemon_code().show_text(start, params["render"])
    except HandoffError as problem:
        return EXIT_FAILED, "", f"handoff: {problem}\n{reason} {remedy}"
    note = " (Receipts come from the daemon only.)" if params.get("receipts") else ""
    if params.get("log"):
        note = " (The log comes from the daemon only.)"
    return 0, text, f"{reason} This is what is on disk.{note} {remedy}"


def run_hot(command: str, arguments: argparse.Namespace) -> int:
    """Run a command whose answer the daemon renders."""
    given = vars(arguments).items()
    params = {
        "protocol": wire.PROTOCOL,
        "cwd": current_directory(),
        "render": fast.rendering(arguments.json),
        **{
            name: value
            for name, value in given
            if name not in ("json", "run") and value is not None
        },
    }
    code, out, err = fast.run(command, params)
    sys.stdout.write(PlainText(out))
    sys.stderr.write(err)
    return int(code)


def run_online_or_offline(command: str, params: dict[str, Any], *, as_json: bool = False) -> int:
    """Run a command in the daemon or in this process, and print the result."""
    _, text, note = call(command, stated(params), as_json=as_json)
    sys.stdout.write(PlainText(text))
    sys.stdout.flush()
    sys.stderr.write(note)
    return 0


def call(
    command: str,
    params: dict[str, Any],
    on_step: Callable[[dict[str, Any]], None] | None = None,
    *,
    as_json: bool = False,
) -> tuple[dict[str, Any], str, str]:
    """Run a command in the daemon, or run the same code in this process if no daemon runs.

    Return its data, its text, and a note for stderr.
    """
    from handoff import local
    from handoff.client import Client

    params = {"cwd": current_directory(), **params}
    style = fast.rendering(as_json)
    client = Client(ASKED_SECONDS)
    try:
        if on_step:
            result = client.follow(command, on_step, render=style, **params)
        else:
            result = client.call(command, render=style, **params)
    except NotRunningError as reason:
        data, text = local.daemon_code("runner").run(command, params, style, on_step)
        return data, text, f"{reason.title} {_offline_note(command)}\n"
    return result["data"], result["text"], ""


def stated(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that have a value: a daemon of another version may not know all."""
    return {name: value for name, value in params.items() if value}


def _offline_note(command: str) -> str:
    """Return the note on a command that was answered without the daemon."""
    if command not in ("open", "list", "review"):
        return "Done without it."
    import os

    note = "Read from the files alone."
    if os.path.lexists(f"{paths.state_dir()}/core.db.damaged"):
        note += " core.db is damaged: what was read before is known from a copy of what is left."
    return note


def positive(text: str) -> int:
    """Return the number in a text, which must be at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for a program")


def add_project(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("project", nargs="?", metavar="PROJECT", help=text)
