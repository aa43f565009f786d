"""Completion and man pages are made from the data of --help, and work in the real programs."""

import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import BIN, REPOSITORY
from handoff import cli, command_tree, completion

sys.path.append(str(REPOSITORY / "docs"))
import man_pages

PAGES = ("handoff", "handoffd")
# The typed text, and the one word to which it is completed.
TYPED = [
    ("clo", "close"),
    ("check", "check-contract"),
    ("--vers", "--version"),
    ("close --esc", "--escalate"),
    ("trigger man", "manual"),
    ("create --trigger epic-s", "epic-start"),
    ("thread cre", "create"),
    ("thread close --y", "--yes"),
    ("thread add hof_1 que", "question"),
    ("thread get --as ch", "chat"),
    ("completion fi", "fish"),
    ("show al", "alpha/"),
    ("close --project al", "alpha/"),
]
# Arguments that are not completed, although a directory has this prefix: a text, a thread.
SILENT = ["close --done al", "thread get al"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory with names to complete, and the scripts as the client prints them."""
    (tmp_path / "alpha").mkdir()
    (tmp_path / "empty").mkdir()
    for shell in completion.SHELLS:
        done = subprocess.run(
            [str(BIN / "handoff"), "completion", shell],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            capture_output=True, text=True, check=True, timeout=90,
        )  # fmt: skip
        (tmp_path / f"handoff.{shell}").write_text(done.stdout)
    return tmp_path


def needs(program: str) -> str:
    """Return the path of a program; skip the test if it is missing."""
    found = shutil.which(program)
    if found is None:
        package = {"groff": "groff-base"}.get(program, program)
        pytest.skip(f"{program} is missing: install it (Debian: apt-get install {package})")
    return found


def said(*words: str, cwd: Path) -> str:
    # No `handoff` on PATH: completion must not start our programs.
    environment = {"HOME": str(cwd), "PATH": f"{cwd}/empty:/usr/bin:/bin", "TERM": "dumb"}
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert "" == done.stderr
    return done.stdout


def in_bash(place: Path, typed: str) -> list[str]:
    script = """
        source handoff.bash; complete -p handoff >/dev/null
        read -ra COMP_WORDS <<<"handoff $1"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _handoff 2>/dev/null
        for word in "${COMPREPLY[@]}"; do [[ -d $word ]] && word=$word/; echo "$word"; done
    """
    return said(needs("bash"), "-c", script, "bash", typed, cwd=place).splitlines()


def in_fish(place: Path, typed: str) -> list[str]:
    script = f"source handoff.fish; complete -C 'handoff {typed}'"
    found = said(needs("fish"), "--no-config", "-c", script, cwd=place).splitlines()
    return [line.split("\t")[0] for line in found]


class Zsh:
    """An interactive zsh in which Tab can be pressed."""

    def __init__(self, place: Path):
        program = needs("zsh")
        (place / "functions").mkdir()
        shutil.copy(place / "handoff.zsh", place / "functions/_handoff")
        environment = {"HOME": str(place), "PATH": "/usr/bin:/bin", "TERM": "dumb", "PS1": "> "}
        pid, self.terminal = pty.fork()
        if not pid:
            os.chdir(place)
            os.execve(program, [program, "-f", "-i"], environment)
        self.pid = pid
        self.run("unsetopt zle_bracketed_paste prompt_sp; fpath=($PWD/functions $fpath)")
        self.run("autoload -Uz compinit && compinit -u -D; zstyle ':completion:*' list-colors ''")

    def until(self, mark: str) -> str:
        seen = b""
        deadline = time.monotonic() + 90
        while mark.encode() not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(self.terminal, 1 << 16)
        return seen.decode()

    def run(self, line: str) -> None:
        os.write(self.terminal, f"{line}; print en''d\n".encode())
        self.until("end\r\n")

    def complete(self, typed: str) -> str:
        """Press Tab, and let the shell itself print the words on its line."""
        os.write(self.terminal, f"handoff {typed}\t".encode())
        os.write(self.terminal, b"\x01print -r -- be''gin \x05 en''d\n")
        seen = self.until(" end\r\n")
        return seen.rpartition("begin ")[2].rpartition(" end\r\n")[0].removeprefix("handoff ")

    def close(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize(("typed", "expected"), TYPED)
def test_bash(place, typed, expected):
    """Bash completes commands, options, choices and directories."""
    assert [expected] == in_bash(place, typed)


@pytest.mark.parametrize(("typed", "expected"), TYPED)
def test_fish(place, typed, expected):
    """fish completes commands, options, choices and directories."""
    assert [expected] == in_fish(place, typed)


def test_zsh(place):
    """zsh completes commands, options, choices and directories, and guesses nothing."""
    shell = Zsh(place)
    try:
        found = [shell.complete(typed) for typed, _ in TYPED]
        guessed = [shell.complete(typed) for typed in SILENT]
    finally:
        shell.close()

    assert SILENT == [line.strip() for line in guessed]
    before = [typed.rpartition(" ")[0] for typed, _ in TYPED]
    whole = zip(before, (word for _, word in TYPED), strict=True)
    # zsh removes the slash again if the next key is not a letter.
    assert [f"{words} {word}".strip(" /") for words, word in whole] == [
        line.strip() for line in found
    ]


@pytest.mark.parametrize("typed", SILENT)
def test_nothing_is_guessed(place, typed):
    """A text or a thread's id is not completed, not even with file names."""
    assert [] == in_bash(place, typed)


@pytest.mark.parametrize("typed", SILENT)
def test_nothing_is_guessed_by_fish(place, typed):
    """fish does not complete a text or a thread's id either."""
    assert [] == in_fish(place, typed)


def test_every_command_is_completed():
    """Each script knows every command and every option of each command."""
    scripts = {shell: make() for shell, make in completion.SHELLS.items()}
    for command in command_tree.program("handoff").walk():
        for flag in (flag for option in command.options for flag in option.flags):
            assert flag in scripts["bash"], command.name
            assert flag in scripts["zsh"], command.name
            assert flag.lstrip("-") in scripts["fish"], command.name
    for name in cli.COMMANDS:
        assert all(name in script for script in scripts.values()), name


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_the_generated_one(name):
    """docs/man holds the output of `make man`."""
    committed = (REPOSITORY / f"docs/man/{name}.1").read_text()

    assert committed == man_pages.page(name), "run: make man"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_not_depend_on_where_it_is_made(name, tmp_path):
    """The width of the terminal, HOME and other variables do not change a page."""
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "docs/man_pages.py"), name],
        env={
            "HOME": str(tmp_path), "COLUMNS": "30", "XDG_CONFIG_HOME": str(tmp_path / "c"),
            "CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s", "LANG": "de_DE.UTF-8",
        },
        capture_output=True, text=True, check=True, timeout=90, cwd=tmp_path,
    )  # fmt: skip

    assert man_pages.page(name) == done.stdout


@pytest.mark.parametrize("name", PAGES)
def test_groff_has_nothing_to_complain_of(name):
    """groff formats a page without a warning, and every command is in it."""
    words = [needs("groff"), "-man", "-ww", "-Tutf8", str(REPOSITORY / f"docs/man/{name}.1")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)

    assert "" == done.stderr
    for command in command_tree.program(name).walk():
        assert command.name in done.stdout


def test_the_pages_are_installed():
    """The pages lie where pipx, and `man` for a program on PATH, look for them."""
    for name in PAGES:
        installed = BIN.parent / f"share/man/man1/{name}.1"
        assert (REPOSITORY / f"docs/man/{name}.1").read_text() == installed.read_text()
