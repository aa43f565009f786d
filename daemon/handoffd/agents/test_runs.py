"""Read test runs from shell commands and their output: red or green, and how many tests.

Pure, and never raises. A wrong verdict is worse than none: the verdict is None if neither the
output shows it nor the exit status proves it. The patterns come from captured output
(tests/golden/testruns).
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from handoffd.agents.test_commands import (
    GATE,
    Segment,
    command_key,
    find_runners,
    is_test_command,
)

__all__ = ["Verdict", "command_key", "is_test_command", "is_unseen", "read_run"]

_HEAD, _TAIL = 4_000, 16_000
_FAILING, _NAME = 5, 200
_NEVER = r"(?!)"


class Verdict(NamedTuple):
    """The result of a test run; a count is None if it was not printed, or not in full."""

    runner: str
    green: bool
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    failing: tuple[str, ...] = ()


class _Visibility(NamedTuple):
    """The parts that a cut output still shows: all summaries, all lines, its end, its failures."""

    whole: bool
    lines: bool = True
    end: bool = True
    failures: bool = True


class _Format(NamedTuple):
    """The output format of a runner; the patterns are for text without colours."""

    summary: str = _NEVER
    failing: str = _NEVER  # the last group that matched is the name of a failing test
    red: str = _NEVER  # decides, also against a summary
    broken: str = _NEVER  # decides if there is no summary
    green: str = _NEVER  # decides if there is no summary
    files: str = ""  # a line about files, without which no summary is green
    each: str = ""  # the sign that each test has a line; without it only failures have one
    many: bool = False  # the runner prints one summary per part


# fmt: off
# These commands name no runner: the output shows which one ran.
_GENERIC = (
    "tox", "nox", "make test", "npm test", "rake test", "task test", "build test", "test script",
    GATE,
)
# Commands that may run something else than tests: only their output can show that tests ran.
_DOUBTFUL = ("test script", GATE)
# These runners print their counts on several lines; a grep may let only some of them through.
_BLOCKS = ("mocha", "bun test", "node --test", "ctest", "swift test", "automake", "playwright")
_FORMATS = {
    "pytest": _Format(
        r"^(?:=+ )?(?P<counts>\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b"
        r"[^\n]{0,200}?) in [\d.]+ ?s|^Results \([\d.]+s\):\n(?: +(?:\d+ [a-z]+|- [^\n]*)\n?)+",
        r"^(?:FAILED|ERROR) ([^\s:][^\n]*?)(?: - [^\n]*)?$|^(\S+::\S+) (?:FAILED|ERROR)\b"
        r"|^(?:FAIL |ERROR: )((?:Required test coverage|Coverage failure)[^\n]*)",
        r"^(?:FAIL |ERROR: )(?:Required test coverage|Coverage failure)",
        r"^(?:FAILED|ERROR) \S+\.py|^\S+::\S+ (?:FAILED|ERROR)\b|^ERROR: |^INTERNALERROR>"),
    "unittest": _Format(
        r"^Ran (?P<total>\d+) tests? in [^\n]*\n+(?P<counts>(?:OK|FAILED)(?: \([^\n]*\))?)$",
        r"^(?:FAIL|ERROR): (\S+ \([^\n]*\))", broken=r"^FAILED \((?:failures|errors|unexpected)",
        green=r"^OK(?: \((?:skipped|expected)[^\n]*\))?\s*\Z"),
    "jest": _Format(
        r"^Tests: +(?P<counts>\d[^\n]{0,200} total)$",
        r"^ {2,4}● (?!Console|Test suite failed)([^\n]+)|^FAIL (\S+)\n(?:\n?  ● Test suite failed)"
        r"|^Jest: (\S+ coverage threshold [^\n]* not met[^\n]*)",
        r"^Jest: \S+ coverage threshold [^\n]* not met",
        r"^FAIL \S+\.\w+", files=r"^Test Suites: +(?:(?P<bad>\d+) failed)?"),
    "vitest": _Format(
        r"^ *Tests +(?P<counts>\d[^\n]{0,200})$",
        r"^ *FAIL +([^\n]+)|^ERROR: (Coverage for [^\n]* does not meet [^\n]*)",
        r"^ *Errors +\d+ error|^ERROR: Coverage for [^\n]* does not meet",
        r"^ *FAIL +\S+\.\w+", files=r"^ *Test Files +(?:(?P<bad>\d+) failed)?"),
    "mocha": _Format(
        r"^ +\d+ passing \([^\n]*(?:\n +\d+ (?:pending|failing))*",
        r"^  \d+\) ([^\n]+(?:\n {5,}+\S[^\n]*){0,4}?):\n",
        broken=r"Exception during run:|^ +\d+ failing$"),
    "node --test": _Format(
        r"^[ℹ#] tests \d+\n(?:[ℹ#] (?:suites|pass) \d+\n)*[ℹ#] fail \d+"
        r"(?:\n[ℹ#] (?:cancelled|skipped|todo) \d+)*",
        r"^test at [^\n]*\n✖ ([^\n]+?) \([\d.]+ms\)|^ *not ok \d+ - ([^\n]+)\n"
        r"(?:(?! *failureType)[^\n]*\n){0,5} +failureType: '(?!subtests)",
        broken=r"^not ok \d+|^✖ failing tests:|^[ℹ#] fail [1-9]",
        green=r"^[ℹ#] pass [1-9]\d*\n[ℹ#] fail 0$(?!\n[ℹ#] cancelled [1-9])"),
    "bun test": _Format(
        r"^ *\d+ pass\n(?: *\d+ (?:skip|todo|filtered out)\n)* *\d+ fail$",
        r"^\(fail\) ([^\n]+?)(?: \[[^\]\n]*\])?$",
        broken=r"^error: (?!No tests)|^ *[1-9]\d* fail$"),
    "deno test": _Format(
        r"^(?:ok|FAILED) \| (?P<counts>[^\n]{0,200})", r"^(\S[^\n]*?) => \S+:\d+:\d+$",
        broken=r"^error: (?!No test modules)"),
    "go test": _Format(
        r"^--- (?:(?P<passed>PASS)|(?P<failed>FAIL)|(?P<skipped>SKIP)): ", r"^ *--- FAIL: (\S+)",
        r"^FAIL\b|^--- FAIL: ", each=r"^=== RUN", many=True,
        green=r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\))(?![^\n]*no tests to run)"),
    "cargo test": _Format(
        r"^test result: (?:ok|FAILED)\. (?P<counts>[^\n]{0,200})",
        r"^(?:test )?(\S[^\n]*?) (?:\.\.\.|---) FAILED$",
        r"^error: (?:test failed|\d+ targets? failed|doctest failed|could not compile)|^error\[E",
        r"^error: ", many=True),
    "cargo nextest": _Format(
        r"^ *Summary \[[^\]\n]*\] +[\d/]+ tests? run: (?P<counts>[^\n]{0,200})",
        r"^ +(?:FAIL|SIG\w+|TIMEOUT|ABORT) \[[^\]\n]*\] +(?:\([^)\n]*\) +)?([^\n]+)",
        broken=r"^error: (?!no tests)"),
    "mvn": _Format(
        r"^(?:\[\w+\] )?Tests run: [^\n]{0,80}Skipped: \d+[ \t]*$",
        r"^\[ERROR\] {3}([\w$.>]+\.[\w$]+)(?::\d+| »)", r"^\[ERROR\] COMPILATION ERROR",
        r"BUILD FAILURE|^\[ERROR\] Failed to execute goal", r"BUILD SUCCESS", many=True),
    "gradle": _Format(
        r"^\d+ tests? completed[^\n]{0,200}", r"^(\S[^\n]* > [^\n]+) FAILED$",
        broken=r"There were failing tests|^Execution failed for task '\S*(?:[tT]est|compile)",
        green=r"^BUILD SUCCESSFUL", many=True),
    "rspec": _Format(
        r"^\d+ examples?, \d+ failures?[^\n]{0,200}",
        r"^rspec \S+ # ([^\n]+)|^An error occurred while loading (\S+?)\.(?: |$)"),
    "minitest": _Format(  # and test-unit
        r"^\d+ (?:runs|tests), \d+ assertions, [^\n]{0,200}",
        r"^ +\d+\) (?:Failure|Error):\n(\S+?)(?: \[|:$)|^(?:Failure|Error): ([\w?!]+\(\S+\))"),
    "phpunit": _Format(  # and pest
        r"^OK \(\d+ tests?, [^\n]{0,80}|^Tests: \d+, Assertions: [^\n]{0,200}"
        r"|^ *Tests: +(?P<counts>\d[^\n]{0,200}) \(\d+ assertions?\)",
        r"^\d+\) (\S+::\S+)|^ *FAILED +(\S[^\n]*?)[ \t\r]*$", r"^(?:FAILURES|ERRORS)!$",
        r"^(?:PHP )?Fatal error: "),
    "dotnet test": _Format(
        r"^(?:Passed|Failed|Skipped)! +- (?P<counts>[^\n]{0,100})|^ *Test summary: [^\n]{0,200}"
        r"|^Total tests: \d+\n(?: +(?:Passed|Failed|Skipped): \d+\n?)*"
        # The same line in another language: only the order of the counts is known.
        r"|^\S[^\n!]{0,30}! +- [^:\n]{1,40}: +(?P<failed>\d+), [^:\n]{1,40}: +(?P<passed>\d+)"
        r", [^:\n]{1,40}: +(?P<skipped>\d+), [^:\n]{1,40}: +\d+",
        r"^ +(?:X|Failed) ([^\n]+?) \[[^\]\n]+\]$",
        broken=r"error [A-Z]{2,10}\d+:|^Test Run (?:Aborted|Failed)", many=True),
    "ctest": _Format(
        r"^\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<total>\d+)"
        r"|^[ \t]+\d+ - [^\n]+ \((?P<skipped>Skipped)\)$",
        r"^[ \t]+\d+ - ([^\n]+) \((?!Skipped|Disabled)[^)\n]*\)", each=r"^\d+% tests passed",
        broken=r"^Errors while running CTest|^The following tests FAILED"),
    "mix test": _Format(
        r"^(?:\d+ (?:doctests?|properties|property), )*\d+ tests?, \d+ failures?[^\n]{0,100}",
        r"^ +\d+\) (?:test|doctest|property) ([^\n]+)",
        broken=r"^== Compilation error|^\*\* \(\w+Error\)"),
    "bats": _Format(
        r"^(?:(?P<failed>not ok)|(?P<skipped>ok(?= \d+[^\n]*# skip))|(?P<passed>ok)) \d+"
        r"|^\d+ tests?, \d+ failures?[^\n]{0,100}", r"^not ok \d+ ([^\n]+)|✗ ([^\n]+)",
        r"^not ok \d+", many=True),
    "swift test": _Format(
        r"^Test Suite '(?:All|Selected) tests' [^\n]*\n\s+Executed (?P<counts>[^\n]*\bfailures?)"
        r"|Test run with (?P<total>\d+) tests?(?: in \d+ suites?)? passed after",
        r"^Test Case '-?\[?([^'\]]+)\]?' failed"
        r"|^[^\w\n]{1,20} Test (?!run )\"?([^\"\n]+?)\"?(?:\(\))? failed after",
        r"Test run with \d+ tests?(?: in \d+ suites?)? failed after", r"^error: "),
    "prove": _Format(
        failing=r"^(\S+) +\(Wstat", red=r"^Result: FAIL", green=r"^Result: PASS"),
    "playwright": _Format(
        r"^\n(?: {2}\d+ (?:passed|failed|skipped|flaky|interrupted|did not run)[^\n]*\n?"
        r"(?: {4}[^\n]*\n)*)+", r"^ {4}(?:\[[^\]\n]+\] › )?(\S[^\n]*? › [^\n]*?)(?: ─+)?$",
        broken=r"^Error: (?!No tests)|^ {2}\d+ failed$"),
    "automake": _Format(
        r"^# TOTAL: +\d+\n(?:# [A-Z]+: +\d+\n){0,6}# ERROR: +\d+", r"^(?:FAIL|ERROR): (\S+)"),
    "script": _Format(  # a script that counts for itself
        r"^[^\w\n]*(?:[A-Za-z ]{1,20}: *)?"
        r"(?:(?P<passed>[1-9]\d*)/(?P=passed) (?:tests? )?pass(?:ed)?\b"
        r"|(?P<counts>\d+ (?:tests? )?(?:passed|failed)[^\n]{0,60})$)",
        r"^\W*FAIL(?:ED)?\W+(\w[^\n]*)",
        r"^[^\w\n]*(?:[A-Za-z ]{1,20}: *)?(\d+)/(?!\1 )\d+ (?:tests? )?pass(?:ed)?\b"),
    "tox": _Format(red=r"evaluation failed :\(", green=r"congratulations :\)"),
    "nox": _Format(red=r"^nox > Session \S*test\S* failed"),
    "make test": _Format(red=r"^make.*: \*\*\* \[[^\]\n]*(?:test|check|spec)[^\]\n]*\] Error"),
    "npm test": _Format(red=r"^npm (?:ERR!|error) Test failed|ELIFECYCLE\W+Test failed"),
    "task test": _Format(
        red=r"^(?:\[\S*test\S*\] )?ERROR task failed|^error: Recipe `\S*test\S*` failed"
            r"|^task: Failed to run task \"\S*test\S*\""),
    "rake test": _Format(red=r"^rake aborted!\n(?:Command failed|LoadError)"),
}
# fmt: on

_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z])")
_PAIR = re.compile(
    r"(\d+) +(?:tests? )?([a-z]+)\b|([A-Za-z]+(?: [a-z]+)?)[:=] *(\d+)"
    r"|[ℹ#] ([a-z]+) (\d+)"
)
_TITLES = re.compile(r"^ +(?:- |[^\n]*›)[^\n]*$", re.MULTILINE)
_WORDS = {
    word: kind
    for kind, words in {
        "passed": "passed,pass,passing,succeeded",
        "failed": "failed,fail,failing,failure,failures,error,errors,cancelled,timed"
        ",unexpected successes,interrupted",
        "skipped": "skipped,skip,skips,pending,pendings,ignored,todo,omissions,incomplete",
        "other": "expected failures",
        "unsure": "excluded",
        "total": "total,test,tests,example,examples,runs,completed,tests run,total tests"
        ",doctest,doctests,property,properties",
    }.items()
    for word in words.split(",")
}
_EMPTY = re.compile(
    r"no tests ran|collected 0 items|^Ran 0 tests|no test is available|no examples found"
    r"|no tests? (?:files? |modules )?(?:found|to run|executed|were found|specified)|^1\.\.0$"
    r"|missing script|no rule to make target|nothing to be done for|is up to date\.$"
    r"|result: notests|:test (?:no-source|skipped)|tests are skipped",
    re.IGNORECASE | re.MULTILINE,
)
# The tool's own words for a command that did not run, or not to its end.
_NOT_RUN = re.compile(
    r"Command running in background|Command timed out after|\[Request interrupted|<tool_use_error>"
    r"|The user doesn't want to|Permission to use |requested permissions|cd: [^\n]*No such file"
    r"|\[no test files\]|\AExit code (?:124|130|137|143)\b"
)
_CUT = re.compile(r"<persisted-output>|\[\d+ (?:lines|characters) truncated\]\W*\Z")
# A step before the tests failed.
_OTHER = re.compile(
    r"^make.*: \*\*\* \[(?![^\]\n]*(?:test|check|spec))[^\]\n]*\] Error"
    r"|^Execution failed for task '(?!\S*(?:[tT]est|compile))",
    re.MULTILINE,
)
# How a program that runs several tasks at once begins each line.
_PREFIXES = re.compile(
    r"^(?:\[[^\]\n]{1,80}\][ \t]+(?:\|[ \t]{0,3})?|[\w@/.-]{1,60} *\| ?"
    r"|[\w@/.#-]{1,60}[: ]tests?[\w:.-]*: )",
    re.MULTILINE,
)
_GO_PACKAGE = re.compile(
    r"^(?:ok|FAIL)[ \t]+\S+[ \t]+(?:[\d.]+s|\(cached\)|\[build failed\])", re.MULTILINE
)
_FAILURES = r" -\w*v\b|fail|error|result|total|summary|tests.run|not.ok"
_PLAIN = re.compile(r"(?:^|[ /])(?:tests?|spec|t|tox|nox)(?= |$)")
_HARMLESS = re.compile(r"(?:cd|pushd|export|set|source|\.|mkdir|rm|cp|touch|echo|unset|sleep) ")


def read_run(command: str, output: str, failed: bool | None) -> Verdict | None:
    """Return the verdict of a test run.

    `failed` is True if the shell's exit status was not 0, and None if the status is unknown.
    """
    parts, places = find_runners(command)
    if not places or _is_stashed(parts, places):
        return None
    text = _visible(output)
    visibility = _visibility(_filters(parts, max(places)), output, text)
    is_rerun = len(places) > 1 and len({parts[place].raw for place in places}) == 1
    # Read each runner once: a command may run the same one hundreds of times.
    runners = dict.fromkeys(places.values())
    names = dict.fromkeys(name for found in runners for name in _kinds(found, text))
    if all(name in _GENERIC for name in names) and _PREFIXES.search(text):
        text = _PREFIXES.sub("", text)  # several tasks at once: each line names its own
        names = dict.fromkeys(name for found in runners for name in _kinds(found, text))
    found = [verdict for name in names if (verdict := _read(name, text, visibility, is_rerun))]
    if found:
        verdict = min(found, key=lambda verdict: verdict.green)
        task_failed = _is_task_red(runners, text) or (
            failed and places[max(places)] in _GENERIC and _is_status_of_tests(parts, places)
        )
        return verdict._replace(green=False) if task_failed else verdict
    if any(_find(_FORMATS[name].summary, text) for name in names if name in _FORMATS):
        return None  # it counted no test, or the visible part may hide a failure
    if _NOT_RUN.search(text) or _EMPTY.search(text) or _OTHER.search(text):
        return None
    return _by_status(parts, places, text, failed)


def is_unseen(command: str, output: str) -> bool:
    """Return True if a command without a verdict ran tests: only their result is not visible."""
    parts, places = find_runners(command)
    if all(name in _DOUBTFUL for name in places.values()) or _is_stashed(parts, places):
        return False
    text = _visible(output)
    return not (_NOT_RUN.search(text) or _EMPTY.search(text) or _OTHER.search(text))


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def _find(pattern: str, text: str) -> re.Match[str] | None:
    """Return the first match; a pattern that never matches would be tried at each place."""
    return _regex(pattern).search(text) if pattern != _NEVER else None


def _number(digits: str) -> int:
    return int(digits[:9])  # int() refuses thousands of digits


def _is_stashed(parts: list[Segment], places: dict[int, str]) -> bool:
    """Return True if the changes were stashed: such a run says nothing about the work."""
    texts = [part.text for part in parts[: max(places)]]
    stashes = [
        text for text in texts if re.match(r"git stash(?: (?:push|save|pop|apply|-)|$)", text)
    ]
    return bool(stashes) and not re.match(r"git stash (?:pop|apply)", stashes[-1])


def _visible(output: str) -> str:
    if len(output) > _HEAD + _TAIL:
        output = f"{output[:_HEAD]}\n{output[-_TAIL:]}"
    text = _COLOURS.sub("", output) if "\x1b" in output else output
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _filters(parts: list[Segment], place: int) -> list[str]:
    """Return the commands through which a run's output was piped."""
    found = []
    while parts[place].joiner in ("|", "|&") and place + 1 < len(parts):
        place += 1
        found.append(parts[place].text)
    return found


def _visibility(filters: list[str], output: str, text: str) -> _Visibility:
    cut = _CUT.search(text) is not None
    whole = not cut and len(output) <= _HEAD + _TAIL
    shown = _Visibility(whole, end=not cut)
    for line in filters:
        name = line.split(" ", 1)[0]
        if name in ("head", "tail"):
            asked = re.search(r"-(?:n ?)?(\d+)(?= |$)", line)
            # Blank lines at both ends may have been trimmed since.
            limit = _number(asked[1]) - 3 if asked and "-c" not in line else 7
            if text.count("\n") >= limit:
                shown = shown._replace(whole=False, end=shown.end and name == "tail")
        elif name not in ("tee", "cat"):
            shows = re.search(_FAILURES, line, re.IGNORECASE)
            lines = shown.lines and re.search(r"test.result|tests.run", line, re.IGNORECASE)
            shown = shown._replace(lines=bool(lines), failures=shown.failures and shows is not None)
    return shown


def _kinds(name: str, text: str) -> list[str]:
    """Return the runners that may have printed the text; for `make test` the text decides."""
    if name not in _GENERIC:
        return [name]
    forms = {kind: form for kind, form in _FORMATS.items() if kind not in _GENERIC}
    counted = [kind for kind, form in forms.items() if _find(form.summary, text)]
    if counted:
        # The lines of these two also occur in the output of others.
        for weak in ("script", "bats"):
            counted = [kind for kind in counted if kind != weak] or counted
        return counted
    if name == GATE:
        return ["go test"] if _GO_PACKAGE.search(text) else [name]
    said = [k for k, form in forms.items() if _find(form.red, text) or _find(form.green, text)]
    return said[:1] or [name]


def _is_task_red(runners: Iterable[str], text: str) -> bool:
    """Return True if a task says of itself that it failed, whatever its tests printed."""
    own = (_FORMATS[name].red for name in runners if name in _GENERIC and name in _FORMATS)
    return any(_find(red, text) for red in own)


def _read(name: str, text: str, shown: _Visibility, is_rerun: bool) -> Verdict | None:
    if name not in _FORMATS:
        return None
    form = _FORMATS[name]
    counts = _counts(form, text, is_rerun)
    files = _find(form.files, text) if form.files else None
    if counts and files and not counts["failed"]:
        counts["failed"] = _number(files["bad"] or "0")
    bad = (counts or {}).get("failed") or (files and files["bad"]) or _find(form.red, text)
    if bad or (not counts and _find(form.broken, text)):
        return _verdict(name, False, counts, text, shown)
    if _may_hide_failure(name, shown, counted=bool(counts)) or (form.files and not files):
        return None
    # Go says of each package whether it has tests.
    is_empty = name != "go test" and _EMPTY.search(text)
    if counts or (_find(form.green, text) and not is_empty):
        return _verdict(name, True, counts, text, shown)
    return None


def _may_hide_failure(name: str, shown: _Visibility, *, counted: bool) -> bool:
    """Return True if a failure may be invisible: then nothing is green."""
    if name == "bats":
        return not shown.whole
    if name == "mocha":
        return not shown.failures
    return (_FORMATS[name].many or not counted) and not (shown.end and shown.failures)


def _counts(form: _Format, text: str, is_rerun: bool) -> dict[str, int]:
    """Return the sum of the summaries; if the same tests ran again, only the last run counts."""
    found: Counter[str] = Counter()
    summaries = list(_regex(form.summary).finditer(text))
    for summary in summaries[-1:] if is_rerun else summaries:
        named = {kind: value for kind, value in summary.groupdict().items() if value}
        for kind in named.keys() - {"counts"}:
            found[kind] += _number(named[kind]) if named[kind].isdigit() else 1
        if "counts" in named or not named:
            found.update(_pairs(named.get("counts", summary[0])))
    failed, skipped = found["failed"], found["skipped"]
    passed = found["passed"] or max(0, found["total"] - failed - skipped - found["other"])
    ran = {"passed": passed, "failed": failed, "skipped": skipped}
    if found["unsure"]:
        del ran["passed"]
    if form.each and not _find(form.each, text):
        ran = {"failed": failed}
    return ran if any(ran.values()) else {}


def _pairs(text: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for pair in _PAIR.finditer(_TITLES.sub("", text)):
        first, second = (part for part in pair.groups() if part)
        word, number = (second, first) if first.isdigit() else (first, second)
        found[_WORDS.get(word.lower(), "")] += _number(number)
    return found


def _verdict(
    name: str, green: bool, counts: dict[str, int], text: str, shown: _Visibility
) -> Verdict:
    form = _FORMATS[name]
    if (
        (form.many and not shown.whole)
        or (form.each and not shown.end)
        or (not shown.lines and (form.many or name in _BLOCKS))
    ):
        counts = {}
    failing: dict[str, None] = {}
    for found in _regex(form.failing).finditer(text) if not green else ():
        failing[" ".join((found[found.lastindex or 0]).split())[:_NAME]] = None
        if len(failing) == _FAILING:
            break
    passed, failed, skipped = (counts.get(kind) for kind in ("passed", "failed", "skipped"))
    return Verdict(name, green, passed, failed, skipped, tuple(failing))


def _by_status(
    parts: list[Segment], places: dict[int, str], text: str, failed: bool | None
) -> Verdict | None:
    """Return the verdict of the exit status, if it can only be the tests' own."""
    first, last = min(places), max(places)
    name, echoed = places[last], _echoed_failure(parts, last, text)
    if name in _DOUBTFUL or (name in _GENERIC and not _is_plain(name, parts[last].text)):
        return None
    if parts[last].text.startswith("! "):
        return None
    if echoed is not None:
        return Verdict(name, not echoed)
    joiners = [part.joiner for part in parts[first:-1]]
    if failed is False and (text.strip() or name not in _GENERIC):
        return Verdict(name, True) if set(joiners) <= {"&&"} and parts[-1].joiner != "&" else None
    return Verdict(name, False) if failed and _is_status_of_tests(parts, places) else None


def _is_plain(name: str, text: str) -> bool:
    return name == "build test" or _PLAIN.search(text) is not None


def _is_status_of_tests(parts: list[Segment], places: dict[int, str]) -> bool:
    """Return True if a failure of the whole command can only be a failure of its tests."""
    last = max(places)
    before = [part for place, part in enumerate(parts[:last]) if place not in places]
    return last == len(parts) - 1 and all(
        part.joiner != "&&" or _HARMLESS.match(part.text) for part in before
    )


def _echoed_failure(parts: list[Segment], last: int, text: str) -> bool | None:
    """Return True if `pytest; echo $?` printed a failure, None if it printed no status."""
    after = parts[last + 1].text if last + 1 < len(parts) else ""
    if parts[last].joiner not in ("\n", ";") or not after.startswith("echo ") or "$?" not in after:
        return None
    said = re.search(r"(?:^|[^\d.])(\d{1,3})\W*\Z", text)
    return said[1].strip("0") != "" if said and len(parts) == last + 2 else None
