"""Make the man pages from the parsers of --help: `make man` writes docs/man.

python docs/man_pages.py handoff        prints handoff.1
python docs/man_pages.py handoffd       prints handoffd.1
"""

import re
import sys

from handoff import __version__, cli
from handoff.command_tree import Argument, CommandManual, program

_FILES = (
    ("~/.config/handoffd/config.toml", "the configuration; none is needed"),
    ("~/.local/state/handoffd/", "what is kept"),
    ("~/.claude/handoffs/", "what each session left"),
    ("PROJECT/.flow-guardian/handoff.yaml", "the state of a project"),
)


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
