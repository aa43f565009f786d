"""Find the test runner that a shell command starts. Pure, cheap, and never raises."""

import re
from functools import lru_cache
from typing import NamedTuple

# Bounds: a command with and without its heredocs, one of its parts, the number of heredocs; a key.
_WRITTEN, _LIMIT, _PART, _HEREDOCS, _KEY = 200_000, 20_000, 2_000, 50, 120


class Segment(NamedTuple):
    """One simple command: as typed, with the blanks of quoted words hidden, and its operator."""

    raw: str
    text: str
    joiner: str


# Prefixes of a command that do not change the program it runs.
_NEUTRAL = (
    r"\w+=\S*|(?:env|sudo)(?: -u (?!-)\S+| -\S+)*|time|nohup|exec|command|then|else|do|if"
    r"|while|until|!|\{|nice(?: -n (?!-)\S+| -\S+)*"
    r"|g?timeout(?: -[ks] (?!-)\S+| -\S+)* [\d.]+[smhd]?|stdbuf(?: -\S+)*"
    r"|xvfb-run(?: -\S+)*|cross-env|xargs(?: -n (?!-)\S+| -\S+)*|unbuffer|chronic|setsid"
    r"|caffeinate(?: -\S+)*|arch(?: -\S+)*|ionice(?: -\S+)*"
)
_OPTIONS = (
    r"(?: (?:--(?:with|extra|group|python|project|directory|package|env-file|name|prefix|env|user"
    r"|workdir|file|profile|filter|workspace|cwd|dir)|-[pneuwvfCF]) (?!-)\S+| -\S+)*"
)
# The name of a task that runs tests, and of one that may run them among other things.
_TARGET = r"(?:[^\W_]+[-_:.]+)*tests?(?:[-_:.][\w:.-]+)?"
_GATE = (
    r"(?:[^\W_]+[-_:.]+)*(?:verify|ci|checks?|gate|qa|validate|pre-?(?:commit|push|submit)|all|cov"
    r"|coverage|e2e|integration|unit|specs?)(?:[-_:](?:all|ci|cov|coverage|full|unit|e2e))?"
)
_PACKAGED = r"(?:uv|poetry|pipenv|pdm|rye|pixi|conda|hatch) run"
_WRAPPER = re.compile(
    rf"(?:{_NEUTRAL}|(?:\S*/)?(?:{_PACKAGED}{_OPTIONS}(?! {_TARGET}(?: |$))"
    rf"|(?:npx|pnpx|bunx|nyc|c8){_OPTIONS}|(?:npm|pnpm|yarn|bun){_OPTIONS} (?:exec|dlx|x){_OPTIONS}"
    rf"|(?:pnpm|yarn|bun){_OPTIONS}(?: run)?"
    r"(?= (?:vitest|jest|mocha|playwright|turbo|nx|lerna|cypress)\b)|bundle exec"
    rf"|(?:docker|podman)(?:[- ]compose)?{_OPTIONS} (?:exec|run){_OPTIONS} \S+"
    r"|(?:kubectl|oc) exec (?:\S+ ){1,6}?--|ssh(?: -\S+)* \S+|(?:ba|z|da)?sh(?: -\w+)*? -\w*c"
    r"|(?:pwsh|powershell)(?:\.exe)?(?: -\S+)*? -[cC]\w*|cmd(?:\.exe)? /[cC]"
    r"|(?:doppler|op|infisical|dotenv|aws-vault|chamber|flox|devenv)(?: \S+){0,6}? --"
    r"|py(?:thon)?[\d.]*(?:\.exe)?(?: -[XW] (?!-)\S+| -(?!m)\S+)* -m"
    r"|coverage run(?: -(?!m)\S+)*(?: -m)?"
    r"|node(?: -\S+)*(?= \S*node_modules/)|php(?: -\S+)*(?= \S*(?:phpunit|pest|artisan))"
    r"|(?:mise|direnv) (?:exec|x)(?: (?!--)\S+)?(?: --)?|nix develop(?: \S+)*? (?:-c|--command)"
    r"|nix-shell(?: \S+)*? --run)) "
)
_NEUTRALS = re.compile(rf"(?:(?:{_NEUTRAL}) )+")
# Options that run no test although the command names a runner.
_LISTING = re.compile(
    r" (?:--version|--help|--collect-only|--co|--list\w*|--list-tests|--no-run|--fixtures|--markers"
    r"|--dry-run|--show-only\S*|-DskipTests\S*|-Dmaven\.test\.skip\S*|-x \S*test|-list)(?= |=|$)"
    r"|\bgo(?: -C \S+)? test (?:\S+ )*?-c(?= |$)"
    r"|\bmake .*-n\b|\bctest .*-N\b|\b[tn]ox .*-[es] ?(?:lint|doc|mypy|typ|format|fix|style|ruff)"
)
_SCRIPT = rf"(?:{_OPTIONS}(?: run(?:-script)?| workspace \S+))*{_OPTIONS}"
# Programs that run a project's tasks by their names; `mise test` is short for `mise run test`.
_TASKS = (
    r"(?:mise|just|task|go-task|mage|inv(?:oke)?|poe|doit|ant|lein|grunt|gulp|earthly|moon|lerna"
    r"|rush|melos|devbox|dagger|composer|deno task|hatch|turbo|nx|pants|plz|please)"
    r"(?: (?:run(?:-script|-many)?|r|call)(?= ))?"
    r"(?: (?:-[fdCcjp]|--(?:justfile|working-directory|dir|taskfile|cd|cwd|file)) (?!-)\S+"
    r"| -(?!-? )\S+| \w+=\S*)*(?: run(?= ))?(?: --)?"
    r"(?! (?:install|use|add|require|remove|generate|g|new|init|show|list|edit|info|which|tasks?) )"
)
_BUILDERS = (
    r"bazel(?:isk)?|meson|flutter|dart|sbt|stack|cabal|zig build|dune|gleam|forge|hardhat|buck2?|ng"
)
_PREFILTER = re.compile(  # each branch begins with a letter: that is much faster
    r"test|spec|check|jest|tox|nox|mocha|mvn|phpunit|prove|bats|pest|unit|cargo|npm t|cypress"
    r"|behave|verify| ci\b|/ci\b|:ci\b|gate\b| qa\b|validate|pre-?(?:commit|push|submit)"
    r"| all\b|:all\b|cov|e2e|integration|gradle|ginkgo|cucumber|robot|karma|ava\b|trial"
)
# The names of programs that run tests; a path or a search that only names a test has none of them.
_STARTER = re.compile(
    r"py\.?test|unittest|nose|jest|mocha|spec|unit|pest|prove|bats|[tn]ox\b|playwright|django|react"
    r"|\b(?:python|node|tsx|bun|deno|go|cargo|mvn|gradle|rails|ruby|artisan|dotnet|mix|swift|xcode"
    r"|g?make|cmake|ctest|p?npm|yarn|rake|just|task|mage|invoke|composer|hatch|turbo|nx|bazel|meson"
    r"|flutter|dart|sbt|vitest|paratest|gotest|cypress|behave|ginkgo|cucumber|robot|karma|pre-commit"
    r"|poetry|pipenv|earthly|hardhat|crystal|elm-test|clj|mise)"
    r"|\b(?:uv|pdm|rye|pixi|conda|inv|poe|doit|ant|lein|grunt|gulp|moon|lerna|rush|melos|devbox"
    r"|dagger|pants|plz|please|ava|trial|stack|cabal|zig|dune|gleam|forge|ng|buck2?|mill|py)\b"
    r"|sh\b|(?:\.|scripts?|bin|ci)/"
)
# fmt: off
_RUNNERS = [(name, re.compile(rf"(?:\S*/)?(?:{pattern})(?= |$)")) for name, pattern in (
    ("pytest", r"pytest(?:-3)?|py\.test"),
    ("unittest", r"unittest|nose2|(?:python\S* )?(?:\S*/)?manage\.py test|django-admin test"),
    ("jest", r"jest(?:\.js)?|react-scripts test"),
    ("vitest", r"vitest(?:\.mjs)?(?! (?:list|init|bench))"),
    ("mocha", r"_?mocha(?:\.js)?"),
    ("playwright", r"playwright test"),
    ("node --test", r"(?:node|tsx)(?: --(?:import|require|env-file) (?!-)\S+| -\S+)*? --test"),
    ("bun test", r"bun(?: -\S+)* test"),
    ("deno test", r"deno test"),
    ("go test", r"go(?: -C \S+)? test|gotestsum"),
    ("cargo nextest", r"cargo(?: \+\S+| -\S+)* (?:nextest (?:run|r)|llvm-cov nextest)"),
    ("cargo test", r"cargo(?: \+\S+| -\S+)* (?:test|t|tarpaulin|llvm-cov(?! [rcs]))"),
    ("mvn", r"mvn[wd]?(?: \S+)*? (?:test|verify|integration-test|surefire:test)"),
    ("gradle", r"gradlew?(?: \S+)*? (?:\S*:)?(?:test|\w+Tests?|check)"),
    ("rspec", r"rspec"),
    ("minitest", r"rails test\S*|ruby(?: -\S+)* (?:\S*/)?(?:\w+_test|test_\w+)\.rb"),
    ("phpunit", r"phpunit\S*|paratest|pest|artisan test"),
    ("dotnet test", r"dotnet (?:test|vstest)"),
    ("ctest", r"ctest"),
    ("mix test", r"mix test"),
    ("swift test", r"swift test|xcodebuild(?: \S+)*? test\S*"),
    ("prove", r"prove"),
    ("bats", r"bats"),
    ("tox", r"tox"),
    ("nox", r"nox"),
    ("make test", rf"g?make(?: \S+)*? (?:{_TARGET}|check)|cmake (?:\S+ )+--target test"),
    ("npm test", rf"(?:npm|pnpm|yarn|bun){_SCRIPT} (?:tst|t|{_TARGET})"),
    ("rake test", rf"rake (?:\S+ )*?(?:{_TARGET}|spec)"),
    ("task test", rf"{_TASKS}(?: \S+)*? (?:-t |--targets?[= ])?(?://\S*:|\+)?{_TARGET}"),
    ("task test", rf"{_PACKAGED}{_OPTIONS} {_TARGET}"),
    ("build test", rf"(?:{_BUILDERS}) test|crystal spec|cypress run|ginkgo|behave|cucumber"),
    ("build test", r"robot|karma start|ava|trial|elm-test|clj\S* -\S*:test|mill \S*test\S*"),
    ("test script", r"(?:python\S*|(?:ba|z)?sh)(?: -\S+)* (?:\S*[/_-])?tests?(?:_\w+)?\.(?:py|sh)"),
    ("test script", r"python\S*(?: -\S+)* (?:\S*/)?test_\w+\.py|(?:\.|scripts?|bin)/test\S*"),
    ("gate", rf"(?:g?make|{_TASKS}|(?:npm|pnpm|yarn|bun){_SCRIPT}|rake)(?: \S+)*? {_GATE}"),
    ("gate", rf"{_PACKAGED}{_OPTIONS} {_GATE}|pre-commit run|mix (?:precommit|ci)"),
    ("gate", rf"(?:(?:ba|z)?sh(?: -\S+)* |python\S* )?(?:\S*/)(?:run[-_])?{_GATE}(?:\.(?:sh|py))?"),
    ("gate", rf"(?:(?:ba|z)?sh|python\S*) (?:run[-_])?{_GATE}\.(?:sh|py)"),
    ("gate", r"mvn[wd]?(?: \S+)*? (?:package|install)|gradlew?(?: \S+)*? (?:\S*:)?build"),
)]
# fmt: on
# The runners whose commands name no test: they count only if their output shows a result.
GATE = "gate"
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")
_TOKEN = re.compile(
    r"""(?P<gap>[ \t\r]+|\\\n|\#[^\n]*)
    |(?P<redirect>(?:\d+|&)?(?:<<<|<>|>>|>\||[<>]&|[<>])[ \t]*)
    |(?P<operator>&&|\|\||\|&|;;|[;|&\n()])
    |(?P<word>(?:[^\s\\'"<>|&;()]++|'[^']*+'|"(?:[^"\\]|\\.)*+"|\\.)++|.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_HIDE, SHOW = str.maketrans(" \t\n", "\1\1\2"), str.maketrans("\1\2", " \n")


def is_test_command(command: str) -> str:
    """Return the runner that a shell command starts, or an empty string."""
    _, places = find_runners(command)
    return next(iter(places.values()), "")


def command_key(command: str) -> str:
    """Return the short form under which a run replaces the earlier run of the same tests."""
    parts, places = find_runners(command)
    parts = [parts[place] for place in places] or _segments(command)
    texts = (without_prefixes(f"{part.raw} ") for part in parts if part.text[:3] != "cd ")
    return " && ".join(dict.fromkeys(" ".join(text.split()) for text in texts))[:_KEY]


def without_prefixes(text: str) -> str:
    """Return the command without the prefixes that do not change it."""
    neutral = _NEUTRALS.match(text)
    return text[neutral.end() :] if neutral else text


@lru_cache(maxsize=32)  # the same command is looked up three times: runner, verdict, key
def find_runners(command: str) -> tuple[list[Segment], dict[int, str]]:
    """Return the simple commands, and the runners among them by their indexes."""
    if not _PREFILTER.search(command) or not _STARTER.search(command):
        return [], {}
    parts = _segments(command)
    places = {place: name for place, part in enumerate(parts) if (name := _runner(part.text))}
    return (parts, places) if places else _nested(parts)


def _nested(parts: list[Segment]) -> tuple[list[Segment], dict[int, str]]:
    """Look into `sh -c '…'`: the commands inside replace it; its operator follows the last one."""
    for place, part in enumerate(parts):
        inner = _unwrapped(part.text)
        if inner != part.text and inner.translate(SHOW) != inner:
            inside, places = find_runners(inner.split(" ", 1)[0].translate(SHOW))
            if places:
                last = inside[-1]._replace(joiner=part.joiner)
                parts[place : place + 1] = [*inside[:-1], last]
                return parts, {place + inner_place: name for inner_place, name in places.items()}
    return [], {}


def _segments(command: str) -> list[Segment]:
    """Split a command at its operators, without redirections and heredocs."""
    found: list[Segment] = []
    words: list[str] = []
    skip = False
    for token in _TOKEN.finditer(_without_heredocs(command[:_WRITTEN])[:_LIMIT] + "\n"):
        kind = token.lastgroup
        if kind == "operator":
            _end_segment(found, words, token.group())
        elif kind == "word" and not skip:
            words.append(token.group())
        skip = kind == "redirect" or (skip and kind == "gap")
    return found


def _end_segment(found: list[Segment], words: list[str], operator: str) -> None:
    if words:
        text = " ".join(_unquoted(word) for word in words)
        found.append(Segment(" ".join(words), text, operator))
        words.clear()
    elif found and found[-1].joiner in ")\n" and operator not in "()\n;":
        # `(cd x && pytest) | tail`: the operator behind the bracket belongs to its last command.
        found[-1] = found[-1]._replace(joiner=operator)


def _unquoted(word: str) -> str:
    if not any(mark in word for mark in "'\"\\"):
        return word
    return _QUOTED.sub(lambda found: "".join(found.groups("")), word).translate(_HIDE) or "''"


def _without_heredocs(command: str) -> str:
    kept, position = [], 0
    for _ in range(_HEREDOCS):
        start = _HEREDOC.search(command, position)
        if start is None:
            break
        line = command.find("\n", start.end())
        last = re.compile(rf"^\t*{start[2]}$", re.MULTILINE)
        end = last.search(command, line) if line >= 0 else None
        kept += [command[position : start.start()], command[start.end() : line] if end else ""]
        position = end.end() if end else start.end()
    return "".join([*kept, command[position:]])


def _unwrapped(text: str) -> str:
    """Return the command without its wrappers: environment, timeouts, `uv run`, `docker exec`."""
    for _ in range(12):
        wrapper = _WRAPPER.match(text)
        if not wrapper:
            break
        text = text[wrapper.end() :]
    return text


def _runner(text: str) -> str:
    return match_runner(text)[0]


def match_runner(text: str) -> tuple[str, str, str]:
    """Return the runner that a simple command starts, the words that name it, and the others."""
    if not _PREFILTER.search(text) or _LISTING.search(text[:_PART]):
        return "", "", ""
    text = _unwrapped(text[:_PART])
    for name, pattern in _RUNNERS:
        found = pattern.match(text)
        if found:
            return name, found[0], text[found.end() :]
    return "", "", ""
