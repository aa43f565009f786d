"""The completion scripts of three shells, made from the parsers of --help. They start nothing."""

from collections.abc import Iterator
from pathlib import Path

from handoff.command_tree import DIRECTORY, FILE, Argument, CommandManual, program

_FOLDER = Path(__file__).parent / "shells"


def bash() -> str:
    whole = program("handoff")
    words, values = [], []
    for command in whole.walk():
        path = _path(command)
        words.append(f"    '{path}') {_bash_words(command)} ;;")
        for option in command.options:
            if option.value:
                flags = " | ".join(f"'{path} {flag}'" for flag in option.flags)
                values.append(f"    {flags}) {_bash_value(option)} ;;")
    nested = [_path(command) for command in whole.commands if command.commands]
    return _filled(
        "bash", NESTED="|".join(nested), WORDS="\n".join(words), VALUES="\n".join(values)
    )


def _bash_words(command: CommandManual) -> str:
    flags = " ".join(flag for option in command.options for flag in option.flags)
    names = [_path(below).split()[-1] for below in command.commands]
    names += [choice for operand in command.operands for choice in operand.choices]
    return f"options='{flags}' words='{' '.join(names)}' kind='{_kind(command.operands)}'"


def _bash_value(option: Argument) -> str:
    return f"words='{' '.join(option.choices)}' kind='{option.kind}'"


def _kind(operands: tuple[Argument, ...]) -> str:
    return next((operand.kind for operand in operands if operand.kind), "")


def zsh() -> str:
    return _filled("zsh", BODY="\n".join(_zsh_function(program("handoff"))))


def _zsh_function(command: CommandManual) -> Iterator[str]:
    """Yield the functions of the commands below a command, then its own."""
    for below in command.commands:
        yield from _zsh_function(below)
    yield f"{_zsh_name(command)}() {{"
    if command.commands:
        yield "    local context state line curcontext=$curcontext"
        yield "    local -A opt_args"
        yield "    local -a commands"
        yield "    commands=("
        for below in command.commands:
            yield f"        {_quoted(_path(below).split()[-1] + ':' + below.summary)}"
        yield "    )"
    yield f"    _arguments {'-C ' if command.commands else ''}\\"
    yield from (f"        {word} \\" for option in command.options for word in _zsh_option(option))
    if command.commands:
        yield "        '1: :{_describe command commands}' '*:: :->below' && return"
        yield f"    [[ $state == below ]] && (( $+functions[{_zsh_name(command)}_$words[1]] )) &&"
        yield f"        {_zsh_name(command)}_$words[1]"
    else:
        yield from (f"        {_zsh_operand(operand)} \\" for operand in command.operands)
        yield "        && return"
    yield "}"


def _zsh_name(command: CommandManual) -> str:
    return "_" + command.name.replace(" ", "_")


def _zsh_option(option: Argument) -> Iterator[str]:
    value = f":{_zsh_escaped(option.value)}:{_zsh_action(option)}" if option.value else ""
    repeated = "*" if option.many else f"({' '.join(option.flags)})"
    for flag in option.flags:
        yield _quoted(f"{repeated}{flag}[{_zsh_escaped(option.text)}]{value}")


def _zsh_operand(operand: Argument) -> str:
    many = "*" if operand.many else ""
    optional = ":" if operand.optional else ""
    return _quoted(f"{many}:{optional}{_zsh_escaped(operand.value)}:{_zsh_action(operand)}")


def _zsh_action(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return {DIRECTORY: "_files -/", FILE: "_files"}.get(argument.kind, "()")


def _zsh_escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "[]:\\" else c for c in text)


def fish() -> str:
    lines = []
    for command in program("handoff").walk():
        on = _quoted(f"__handoff_on {_path(command)}".strip())
        for below in command.commands:
            word = _path(below).split()[-1]
            lines.append(f"complete -c handoff -n {on} -a {word} -d {_quoted(below.summary)}")
        below_too = _quoted(f"__handoff_below {_path(command)}".strip())
        lines += [
            line
            for argument in (*command.options, *command.operands)
            if (line := _fish_argument(argument, on if command.commands else below_too))
        ]
    return _filled("fish", BODY="\n".join(lines))


def _fish_argument(argument: Argument, on: str) -> str:
    words = ["complete -c handoff -n", on]
    words += [f"-{'s' if len(flag) == 2 else 'l'} {flag.lstrip('-')}" for flag in argument.flags]  # noqa: PLR2004
    if argument.choices:
        words.append(f"-x -a {_quoted(' '.join(argument.choices))}")
    elif argument.kind == DIRECTORY:
        words.append("-x -a '(__fish_complete_directories)'")
    elif argument.kind == FILE:
        words.append("-r -F")
    elif not argument.flags:
        return ""  # free text cannot be completed
    elif argument.value:
        words.append("-x")
    return " ".join([*words, f"-d {_quoted(argument.text)}"])


def _path(command: CommandManual) -> str:
    """Return the words of a command after the program's name."""
    return command.name.partition(" ")[2]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _filled(shell: str, **parts: str) -> str:
    text = (_FOLDER / f"handoff.{shell}").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"# {name}\n", f"{part}\n").replace(f"@{name}@", part)
    return text


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
