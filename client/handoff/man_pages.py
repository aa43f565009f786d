"""The arguments of every command, read from the parsers of --help, and the man pages made of them.

python -m handoff.man_pages handoff        prints handoff.1
python -m handoff.man_pages handoffd       prints handoffd.1

The parsers' own help is not used: it depends on the terminal and on Python's version.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from handoff import __version__, cli, local
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
_FILES = (
    ("~/.config/handoffd/config.toml", "the configuration; none is needed"),
    ("~/.local/state/handoffd/", "what is kept"),
    ("~/.claude/handoffs/", "what each session left"),
    ("PROJECT/.flow-guardian/handoff.yaml", "the state of a project"),
)


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


# The page


def page(name: str) -> str:
    """Return a man page, for groff and for mandoc."""
    whole = program(name)
    commands = [command for command in whole.walk() if command is not whole]
    lines = [
        f'.TH {name.upper()} 1 "" "handoffd {__version__}" "User Commands"',
        ".SH NAME",
        f"{name} \\- {_roff(whole.summary)}",
        ".SH SYNOPSIS",
        f".B {name}",
        "\\fICOMMAND\\fR [\\fIARGUMENT\\fR...]",
        ".SH DESCRIPTION",
        *_paragraph(whole.description),
        ".SH OPTIONS",
        *_arguments(whole.options),
        ".SH COMMANDS",
        *(line for command in commands if not command.commands for line in _section(command)),
        *_closing(whole),
    ]
    return "\n".join(lines) + "\n"


def _section(command: CommandManual) -> list[str]:
    return [
        f".SS {_roff(command.name)}",
        *_synopsis(command),
        ".PP",
        *_paragraph(command.description),
        *_arguments((*command.operands, *_own_options(command))),
        *_example(command.epilog),
    ]


def _synopsis(command: CommandManual) -> list[str]:
    words = [f"\\fB{_roff(command.name)}\\fR"]
    words += [_usage(argument) for argument in (*_own_options(command), *command.operands)]
    return [" ".join(words)]


def _own_options(command: CommandManual) -> tuple[Argument, ...]:
    """Return the options of a command without --help, which every command has."""
    return tuple(option for option in command.options if "--help" not in option.flags)


def _usage(argument: Argument) -> str:
    name = f"\\fI{_roff(_value(argument))}\\fR" if argument.value else ""
    if argument.flags:
        name = f"\\fB{_roff(argument.flags[-1])}\\fR" + (f"\\~{name}" if name else "")
    repeated = "..." if argument.many else ""
    return f"[{name}]{repeated}" if argument.optional else f"{name}{repeated}"


def _value(argument: Argument) -> str:
    """Return the placeholder of a value: its choices if they are short, else its name."""
    named = argument.value.lower() != argument.value and argument.value in argument.text
    short = len("|".join(argument.choices)) <= 20  # noqa: PLR2004  half a line of a usage
    return (
        "|".join(argument.choices) if argument.choices and short and not named else argument.value
    )


def _arguments(arguments: tuple[Argument, ...]) -> list[str]:
    lines = []
    for argument in arguments:
        flags = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in argument.flags)
        value = f"\\fI{_roff(_value(argument))}\\fR" if argument.value else ""
        lines += [".TP", " ".join(filter(None, (flags, value))), *_paragraph(argument.text)]
        if argument.choices and not all(choice in argument.text for choice in argument.choices):
            lines.append(_roff(f"({', '.join(argument.choices)})"))
    return lines


def _example(epilog: str) -> list[str]:
    if not epilog:
        return []
    return [".PP", ".nf", *(_roff(line) for line in epilog.splitlines()), ".fi"]


def _closing(whole: CommandManual) -> list[str]:
    _, _, codes = cli.EXIT_CODES.partition(": ")
    lines = [".SH EXIT STATUS", _roff(" ".join(codes.split()) + ".")]
    lines.append(".SH FILES")
    for path, text in _FILES:
        lines += [".TP", f".I {_roff(path)}", _roff(text)]
    other = "handoffd" if whole.name == "handoff" else "handoff"
    return [*lines, ".SH SEE ALSO", f".BR {other} (1)"]


def _paragraph(text: str) -> list[str]:
    return [_roff(line) for line in re.split(r"\s*\n\s*", text.strip()) if line]


def _roff(text: str) -> str:
    """Escape a text so that roff takes no part of it for a request, and a dash stays a dash."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    escaped = escaped.replace("`", "\\(ga").replace("~", "\\(ti").replace("^", "\\(ha")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
