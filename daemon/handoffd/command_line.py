"""Parse the daemon's command line: run with options, replay and redact."""

import argparse
import sys
from pathlib import Path

from handoff import __version__
from handoff.common import paths
from handoff.common.errors import EXIT_FAILED, HandoffError
from handoff.common.plain_text import plain
from handoffd.session.fields import PREVIOUS_GOAL, TABLE
from handoffd.start import start

TRACED = (*(field.name for field in TABLE if field.traced), PREVIOUS_GOAL)


def run() -> int:
    arguments = parser().parse_args()
    if arguments.command == "run":
        return start(arguments.config, arguments.log_file)
    try:
        _use_own_patterns(arguments.config)
        return _replay(arguments) if arguments.command == "replay" else _redact(arguments)
    except HandoffError as problem:
        print(plain(f"handoffd: {problem}"), file=sys.stderr)  # noqa: T201
        return problem.exit_code


def parser() -> argparse.ArgumentParser:
    program = argparse.ArgumentParser(
        prog="handoffd",
        description="Keeps the handoff of every Claude Code project current.",
        epilog="Example: handoffd run        (people use `handoff up` and `handoff status`)",
    )
    program.add_argument("--version", action="version", version=f"handoffd {__version__}")
    commands = program.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run in the foreground, for a service manager",
        epilog="Example: handoffd run --config ~/.config/handoffd/config.toml",
    )
    run.add_argument("--config", default=paths.config_file(), help="default: %(default)s")
    replay = commands.add_parser(
        "replay",
        help="fold transcripts offline and show the state, or how a value came about",
        epilog="Example: handoffd replay --trace goal ~/.claude/projects/*/3f78*.jsonl",
    )
    replay.add_argument("files", nargs="+", type=Path, metavar="FILE")
    shown = replay.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print JSON for a program")
    shown.add_argument(
        "--contract", action="store_true", help="print the handoff that the session would leave"
    )
    shown.add_argument(
        "--counts", action="store_true", help="count the records by type, and say what is skipped"
    )
    replay.add_argument("--at", type=_positive, metavar="N", help="stop after N records")
    replay.add_argument(
        "--trace", default="", choices=TRACED, metavar="FIELD", help=", ".join(TRACED)
    )
    redact = commands.add_parser(
        "redact",
        help="mask the secrets in a text, as in everything that is kept",
        epilog="Example: handoffd redact < notes.txt        (with your [redact] patterns)",
    )
    redact.add_argument("--kinds", action="store_true", help="print only what kinds were found")
    for command in (replay, redact):
        command.add_argument("--config", default=paths.config_file(), help="default: %(default)s")
    run.add_argument("--log-file", help="log there instead of to stderr; kept below 2 MB")
    return program


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _use_own_patterns(path: str) -> None:
    """Mask the patterns of the user's configuration, too."""
    if path != paths.config_file() and not Path(path).exists():
        raise HandoffError(f"{path} does not exist.", "Give --config a file that does.")
    from handoffd import config  # noqa: PLC0415
    from handoffd.redaction.redact import use_patterns  # noqa: PLC0415

    use_patterns(config.load(path).redact.patterns)


def _redact(arguments: argparse.Namespace) -> int:
    from handoffd.redaction.redact import redact  # noqa: PLC0415

    text, kinds = redact(sys.stdin.buffer.read().decode("utf-8", "replace"))
    lines = "".join(f"{kind}\n" for kind in kinds)
    sys.stdout.write(lines if arguments.kinds else text)
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    from handoffd.api.replay import render, render_contract, render_counts  # noqa: PLC0415

    if arguments.counts:
        print(render_counts(arguments.files), end="")  # noqa: T201
        return 0
    for path in arguments.files:
        try:
            if arguments.contract:
                text = render_contract(path, arguments.at)
            else:
                text = render(path, as_json=arguments.json, at=arguments.at, trace=arguments.trace)
        except OSError as problem:
            why = problem.strerror or "no transcript"
            print(plain(f"handoffd: {path}: {why}"), file=sys.stderr)  # noqa: T201
            return EXIT_FAILED
        print(plain(text), end="")  # noqa: T201
    return 0
