"""The arguments of every command, read from the parsers of --help.

The parsers' own help is not used: it depends on the terminal and on Python's version.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from handoff import cli, local
from handoff.common import paths

FILE, DIRECTORY = "file", "directory"
# The kind of a value, by its name in the help. A value with another name cannot be completed.
_KINDS = {
    "DIR": DIRECTORY,
    "PROJECT": DIRECTORY,
    "PROJECT|SESSION": DIRECTORY,
    "FILE": FILE,
    "PATH|TRACK": FILE,
}
SUMMARIES = {
    "handoff": "the client of handoffd, which keeps the handoff of every project current",
    "handoffd": "keeps the handoff of every Claude Code project current",
}
# Python's own texts for these actions differ from version to version.
_OWN = {"_HelpAction": "show the help, and exit", "_VersionAction": "show the version, and exit"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or an operand, which has no flags."""

    flags: tuple[str, ...]
    # The name of the value; empty for an option that takes none.
    value: str
    text: str
    choices: tuple[str, ...] = ()
    optional: bool = True
    many: bool = False

    @property
    def kind(self) -> str:
        return _KINDS.get(self.value, "")


@dataclass(frozen=True, slots=True)
class CommandManual:
    """A command, with the commands below it."""

    name: str
    summary: str
    description: str
    epilog: str
    options: tuple[Argument, ...]
    operands: tuple[Argument, ...]
    commands: tuple["CommandManual", ...]

    def walk(self) -> Iterator["CommandManual"]:
        """Yield the command itself and all commands below it."""
        yield self
        for command in self.commands:
            yield from command.walk()


def program(name: str) -> CommandManual:
    """Return a program with all its commands."""
    if name == "handoff":
        return _command(cli.build_parser(name, cli.COMMANDS), name, SUMMARIES[name])
    return _command(local.daemon_parser(), name, SUMMARIES[name])


def _command(parser: argparse.ArgumentParser, name: str, summary: str) -> CommandManual:
    actions = [
        action
        for action in parser._actions  # noqa: SLF001  there is no public way to ask
        if action.help != argparse.SUPPRESS
    ]
    plain = [action for action in actions if not isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    arguments = [_argument(action, parser.prog) for action in plain]
    return CommandManual(
        name,
        summary,
        parser.description or f"{summary[0].upper()}{summary[1:]}.",
        parser.epilog or "",
        tuple(argument for argument in arguments if argument.flags),
        tuple(argument for argument in arguments if not argument.flags),
        tuple(_below(actions, name)),
    )


def _below(actions: list[argparse.Action], name: str) -> Iterator[CommandManual]:
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            for word, parser in action.choices.items():
                yield _command(parser, f"{name} {word}", summaries[word])


def _argument(action: argparse.Action, prog: str) -> Argument:
    takes_value = not action.option_strings or action.nargs != 0
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    own = _OWN.get(type(action).__name__)
    text = own or (action.help or "") % {**vars(action), "prog": prog}
    return Argument(
        tuple(action.option_strings),
        name if takes_value else "",
        # The path on this machine is of no use on another one.
        text.replace(paths.config_file(), "~/.config/handoffd/config.toml"),
        tuple(map(str, action.choices or ())),
        optional=action.nargs in ("?", "*") or bool(action.option_strings),
        many=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),  # noqa: SLF001
    )
