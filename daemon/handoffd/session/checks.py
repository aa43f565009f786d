"""Test runs: the last result of each, without those that a later run made obsolete. Pure."""

import re

from handoffd.agents.claude_code.tool_events import output_text
from handoffd.agents.events import AgentRan, AgentResulted, OutputRead, Resulted
from handoffd.agents.test_runs import Verdict, is_test_command, is_unseen, read_run
from handoffd.agents.test_scopes import is_covered, run_key
from handoffd.redaction.redact import redact
from handoffd.session.dead_ends import dead_end
from handoffd.session.file_ranking import now, short
from handoffd.session.state import (
    CALLS_MAX,
    CHECKS_MAX,
    Call,
    Check,
    Receipt,
    SessionState,
    Value,
)
from handoffd.session.text import keep

_COMMAND_MAX = 120
_FAILING_MAX = 140
OUTPUT_READ = 32 << 10
_AGENT_COMMAND_MAX = 2000
# How the client shows the output of a command in the background, and the lines of a file.
_TASK_STATUS = re.compile(r"<status>(\w+)</status>")
_TASK_EXIT = re.compile(r"<exit_code>(\d+)</exit_code>")
_TASK_OUTPUT = re.compile(r"</?(?:output|stdout|stderr)>")
_LINE_NUMBER = re.compile(r"^ *\d+[\t→]", re.MULTILINE)


def note_run(
    state: SessionState, command: str, output: str, failed: bool | None, source: Receipt
) -> None:
    """Take the result of a test command.

    A result that cannot be seen replaces no known one: it is noted besides.
    """
    run = read_run(command, output, failed)
    if run is None and not is_unseen(command, output):
        return
    key = keep(run_key(command, state.cwd), _COMMAND_MAX)
    if run is None:
        state.unseen = [value for value in state.unseen if value.text != key]
        state.unseen.append(Value(key, source))
        del state.unseen[:-CHECKS_MAX]
        return
    state.unseen = [value for value in state.unseen if not is_covered(value.text, (key,))]
    check = Check(key, run.green, _summary(run), source, now(state))
    obsolete = [known for known in state.checks if _is_obsolete(state, known, check)]
    if check.green:
        _turned_green(state, obsolete, source)
    state.checks = [known for known in state.checks if known not in obsolete]
    state.checks.append(check)
    del state.checks[:-CHECKS_MAX]


def tests(state: SessionState) -> list[Value]:
    """Return the last result of each test run, the latest first, then the runs without one."""
    ordered = sorted(state.checks, key=lambda check: -check.at)
    again = {value.text for value in state.unseen}
    known = {check.command for check in ordered}
    return [
        *(Value(_told(check, check.command in again), check.receipt) for check in ordered),
        *(
            Value(f"{value.text}: unknown, ran, result not seen", value.receipt)
            for value in reversed(state.unseen)
            if value.text not in known
        ),
    ]


def is_red(state: SessionState) -> bool:
    """Return True if the tests that ran last failed, as far as their result was seen."""
    return bool(state.checks) and not max(state.checks, key=lambda check: check.at).green


def covers(later: Check, earlier: Check) -> bool:
    """Return True if a later run ran every test of an earlier one: the same, or more."""
    return later.at > earlier.at and is_covered(earlier.command, (later.command,))


def _is_obsolete(state: SessionState, known: Check, check: Check) -> bool:
    """Return True if a new result says all that a known one said.

    A red run is obsolete if the runs that passed since, together, ran its tests again.
    """
    if known.command == check.command:
        return True
    passed = [other.command for other in state.checks if other.green and other.at > known.at]
    return check.green and is_covered(known.command, (check.command, *passed))


def _told(check: Check, again: bool) -> str:
    color = "green" if check.green else "red"
    later = "; ran again, result not seen" if again else ""
    return f"{check.command}: {color}, {check.summary}{later}"


def _summary(run: Verdict) -> str:
    counts = [
        f"{count} {word}"
        for count, word in (
            (run.failed, "failed"),
            (run.passed, "passed"),
            (run.skipped, "skipped"),
        )
        if count
    ]
    summary = ", ".join(counts) or ("passed" if run.green else "failed")
    if run.failing:
        summary += f" ({keep(', '.join(run.failing[:2]), _FAILING_MAX)})"
    return summary


def _turned_green(state: SessionState, before: list[Check], source: Receipt) -> None:
    """Note which change turned a red test green: the files edited since it was last red."""
    red = max((check for check in before if not check.green), key=lambda c: c.at, default=None)
    if red is None:
        return
    changed = [file for file in state.files if file.edits > 0 and file.edited_at > red.at]
    changed.sort(key=lambda file: file.edited_at)
    if changed:
        names = ", ".join(short(state, file.path) for file in changed[-3:])
        verb = "was" if len(changed) == 1 else "were"
        text = f"{red.command} was red ({red.summary}) until {names} {verb} changed"
        dead_end(state, text, source.observed)


# Calls whose result is still to come


def await_call(state: SessionState, call: Call) -> None:
    state.calls[call.id] = call
    if len(state.calls) > CALLS_MAX:
        del state.calls[next(iter(state.calls))]


def ends(output: str) -> str:
    """Return the beginning and the end of an output; what lies between is not read."""
    if len(output) <= OUTPUT_READ:
        return output
    return f"{output[: OUTPUT_READ // 4]}\n{output[-OUTPUT_READ // 2 :]}"


def agent_ran(state: SessionState, event: AgentRan, _source: Receipt) -> None:
    if len(event.command) <= _AGENT_COMMAND_MAX:
        await_call(state, Call(event.call, event.command, ""))


def agent_resulted(state: SessionState, event: AgentResulted, source: Receipt) -> None:
    call = state.calls.pop(event.call, None)
    if call is not None and call.command:
        command, output = redact(call.command)[0], redact(ends(output_text(event.output)))[0]
        note_run(state, command, output, event.failed, source.observed)


# Commands in the background: the client names each, and keeps its output under that name


def await_run(state: SessionState, call: Call, task: str) -> None:
    """Wait for the end of a command in the background, and for a look at its output."""
    await_call(state, call)
    if task and is_test_command(call.command):
        await_call(state, Call(task, call.command, ""))


def is_output_read(state: SessionState, call: Call) -> bool:
    """Return True if the output of a command in the background has shown its result already."""
    return all(other.command != call.command for other in state.calls.values())


def output_read(state: SessionState, event: OutputRead, _source: Receipt) -> None:
    begun = state.calls.get(event.task)
    if begun is not None:
        # The reader hides parts of the output as if it stood behind a pipe.
        command = f"{begun.command} | {event.reader}" if event.reader else begun.command
        await_call(state, Call(event.call, command, "", event.task))


def note_output(state: SessionState, call: Call, event: Resulted, source: Receipt) -> None:
    """Take the output of a command in the background; as long as it runs, it has no result."""
    output = redact(ends(output_text(event.output)))[0]
    status, code = _TASK_STATUS.search(output), _TASK_EXIT.search(output)
    if event.failed or (status and status[1] not in ("completed", "failed")):
        return
    text = _LINE_NUMBER.sub("", _TASK_OUTPUT.sub("\n", output))
    command, failed = redact(call.command)[0], code[1] != "0" if code else None
    if read_run(command, text, failed) is not None:
        note_run(state, command, text, failed, source)
        state.calls.pop(call.reads, None)
