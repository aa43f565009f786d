"""Which tests a command selects, and whether one run covers another. Pure."""

import re
from functools import lru_cache
from posixpath import normpath
from typing import NamedTuple

from handoffd.agents.test_commands import SHOW, find_runners, match_runner, without_prefixes

_CUT = "…"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Options that select some of the tests; some programs use the same letter for something else.
_SELECTING = _words(
    "-k -t -g -E -R -L -run -skip -pl -tag -Dtest --grep --filter --testNamePattern --tests --only"
    " --testPathPattern --testPathPatterns --test-name-pattern --package --test --bin --example"
    " --exclude --ignore --deselect --shard --project --projects --suite --testsuite --group"
    " --exclude-group --include --name --tag --tags --changed --session --env --framework"
)
_SELECTING_LETTERS = {
    "-m": ("pytest",),
    "-p": ("cargo test", "cargo nextest"),
    "-e": ("tox", "rspec"),
    "-s": ("nox",),
    "-n": ("minitest",),
    "-f": ("dotnet test",),
}
_SELECTING_FLAGS = _words(
    "--lf --last-failed --onlyChanged --lib --bins --doc --examples -short --stale --failed"
    " --only-failures --sw --stepwise"
)
# Options that add tests which do not run without them.
_ADDING = re.compile(
    r"-tags$|--(?:features|workspace|ignored|run|with-|all|include-|enable|integration|e2e|slow)"
)
# Options with a value that change neither.
_VALUED = _words(
    "-n -j -p -c -f -o -W -C -m --tb --timeout -timeout -count -parallel -cpu --maxfail --reporter"
    " --verbosity --logger --config --rootdir --durations --jobs --workers --retries --settings"
    " --output --seed -coverprofile --coverprofile --junitxml --prefix --directory --dir --cwd"
    " --configuration --color --format -benchtime --features -tags"
)
_DIRECTORY = re.compile(r" (?:-C|--prefix|--directory|--dir|--cwd)(?: |=)(?!-)(\S+)")
_NUMBER = re.compile(r"\d[\d.]*(?:ms|[smh%x])?\Z")
# Where projects keep all their tests.
_EVERYTHING = frozenset(("", "tests", "test", "spec", "__tests__"))
# These commands name a task: a part of their name is the name of the tests.
_NAMED = ("make test", "npm test", "rake test", "task test", "build test", "test script", "gate")


class Scope(NamedTuple):
    """The tests of one run: its program, the paths (none: every test), and telling options."""

    program: str
    paths: tuple[str, ...]
    selecting: frozenset[str]
    adding: frozenset[str]


def run_key(command: str, cwd: str) -> str:
    """Return the key of a test run, with the directory in which it runs if that is not `cwd`."""
    found, directory = [], ""
    nested = "(cd " not in command
    for _, raw, at in _runs(command, cwd, nested=nested):
        # Without `cwd` there is nothing to compare a directory with.
        where = "" if not cwd and _is_absolute(at) else at
        moved = f"cd {where or '.'} && " if where != directory else ""
        typed = without_prefixes(f"{raw} ")
        found.append(moved + " ".join((typed.replace(f"{cwd}/", "") if cwd else typed).split()))
        directory = where
    return " && ".join(dict.fromkeys(found))


def is_covered(earlier: str, later: tuple[str, ...]) -> bool:
    """Return True if the later runs, given by their keys, ran every test of the earlier one."""
    if earlier in later:
        return True
    wanted = _scopes(earlier)
    found = [scope for key in later if not key.endswith(_CUT) for scope in _scopes(key)]
    return bool(wanted) and all(any(_contains(scope, part) for scope in found) for part in wanted)


def _runs(command: str, cwd: str, *, nested: bool) -> list[tuple[str, str, str]]:
    """Return each test run of a command (read, and as typed) with its directory below `cwd`.

    A `cd` starts where the last one led if `nested` is True, else in `cwd`.
    """
    parts, places = find_runners(command)
    found, directory = [], ""
    for place, part in enumerate(parts):
        verb, _, target = part.text.partition(" ")
        if verb in ("cd", "pushd") and target and "$" not in target:
            directory = _below(cwd, directory if nested else "", target.translate(SHOW))
        elif place in places:
            found.append((part.text, part.raw, directory))
    return found


def _below(cwd: str, start: str, target: str) -> str:
    path, root = normpath(f"{start or '.'}/{target}"), cwd.replace("\\", "/").rstrip("/")
    if _is_absolute(target):
        path = normpath(target)
    if path in (root, "."):
        return ""
    return path.removeprefix(f"{root}/") if root else path


def _is_absolute(path: str) -> bool:
    return path[:1] in ("/", "~") or path[1:2] == ":"


@lru_cache(maxsize=64)
def _scopes(key: str) -> tuple[Scope, ...]:
    return tuple(_scope(text, directory) for text, _, directory in _runs(key, "", nested=False))


def _scope(text: str, directory: str) -> Scope:
    name, head, rest = match_runner(text)
    program, paths = name, []
    words = head.split(" ")
    if name in _NAMED:
        program = f"{words[0].rsplit('/', 1)[-1]} {words[-1]}"
    elif name == "gradle":
        project, _, task = words[-1].rpartition(":")
        program, paths = f"gradle {task}", [project.strip(":").replace(":", "/")] * bool(project)
    inner = _DIRECTORY.search(f" {text}")
    if inner:
        directory = normpath(f"{directory or '.'}/{inner[1]}")
    selecting, adding = set(), set()
    for option, value in _options(name, rest.split()):
        if not option:
            paths.append(value)
        elif option in _SELECTING_FLAGS or _selects(name, option):
            selecting.add(f"{option} {value}")
        elif _ADDING.match(option):
            adding.add(f"{option} {value}")
    below = tuple(_normal(f"{directory}/{path}" if directory else path) for path in paths)
    if not below and (directory or name == "go test"):
        below = (_normal(directory),)
    if name != "go test" and all(path in _EVERYTHING for path in below):
        below = ()
    return Scope(program, below, frozenset(selecting), frozenset(adding))


def _selects(name: str, option: str) -> bool:
    return option in _SELECTING or name in _SELECTING_LETTERS.get(option, ())


def _has_value(name: str, option: str) -> bool:
    return option in _VALUED or _selects(name, option) or (name, option) == ("dotnet test", "-v")


def _options(name: str, words: list[str]) -> list[tuple[str, str]]:
    """Return the options with their values; a path is a value without an option."""
    found: list[tuple[str, str]] = []
    waiting = ""
    for word in words:
        option, equals, value = word.partition("=")
        if waiting and not word.startswith("-"):
            found.append((waiting, word))
            waiting = ""
        elif word.startswith("-"):
            found += [(waiting, "")] * bool(waiting)
            waiting = ""
            if equals or option == "--":
                found += [(option, value)] * bool(equals)
            elif _has_value(name, option):
                waiting = option
            else:
                found.append((option, ""))
        elif _is_path(found, word, equals):
            found.append(("", word))
    return [*found, (waiting, "")] if waiting else found


def _is_path(found: list[tuple[str, str]], word: str, equals: str) -> bool:
    """Tell a path from a variable of make, a subcommand, and the number behind an option."""
    return not (equals or word in ("run", "watch", "&") or (found and _NUMBER.match(word)))


def _normal(path: str) -> str:
    path = normpath(path.replace("\\", "/").strip("'\"")) if path else ""
    return "" if path == "." else path


def _contains(later: Scope, earlier: Scope) -> bool:
    return (
        later.program == earlier.program
        and later.selecting <= earlier.selecting
        and later.adding >= earlier.adding
        and (not later.paths or (bool(earlier.paths) and _contains_paths(later, earlier)))
    )


def _contains_paths(later: Scope, earlier: Scope) -> bool:
    return all(
        any(_is_within(path, outer, later.program) for outer in later.paths)
        for path in earlier.paths
    )


def _is_within(path: str, outer: str, program: str) -> bool:
    if path == outer:
        return True
    if program == "go test":  # a package stands for itself, and `...` for all below it
        outer = outer.removesuffix("...").rstrip("/") if outer.endswith("...") else "\0"
        path = path.removesuffix("...").rstrip("/")
    elif any(mark in outer for mark in "*?["):
        return False
    rest = path.removeprefix(outer)
    return not outer or path == outer or (rest != path and rest[:1] in tuple("/:.[#"))
