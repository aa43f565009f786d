"""What was done: files, commands, tests, commits, and what led nowhere. Pure."""

import re
from zlib import crc32

from handoffd.agents.claude_code.tool_events import output_text
from handoffd.agents.claude_code.typed_text import marked
from handoffd.agents.events import Denied, Edited, Notified, Ran, Resulted, Shelled
from handoffd.agents.test_runs import command_key, is_test_command
from handoffd.redaction.redact import redact
from handoffd.session.checks import (
    OUTPUT_READ,
    await_call,
    await_run,
    ends,
    is_output_read,
    note_output,
    note_run,
)
from handoffd.session.commits import git_command, is_of_git
from handoffd.session.dead_ends import dead_end
from handoffd.session.file_ranking import EDITED, absolute_path, file_of, is_ours, now, short
from handoffd.session.injected import note_injected
from handoffd.session.requests import PULL_REQUEST, name
from handoffd.session.state import (
    EDITS_MAX,
    FAILURES_MAX,
    Call,
    Edit,
    Failure,
    Receipt,
    SessionState,
    Value,
)
from handoffd.session.text import keep, shorten

# The same command failing this often is going round in circles.
CIRCLES = 3
_COMMAND_READ = 2000
_COMMAND_MAX = 120
_ERROR_MAX = 140
_KEY_START = 24
_SNIPPET_MAX = 80
_ACTIVITY_MAX = 60
_PULL_REQUEST = re.compile(r"\bgh pr create\b[^|;&]*?--title[ =]+([\"'])(.+?)\1", re.DOTALL)
_TELLING_ERROR = re.compile(
    r"(?i)\b(?:\w*error|\w*exception|fail(?:ed|ure)?|fatal|cannot|not found|denied)\b"
)


def edited(state: SessionState, event: Edited, source: Receipt) -> str:
    """Count an edit; return the path of the file if it belongs to the work."""
    path = absolute_path(state, event.path)
    if not path or not is_ours(state, path):
        return ""
    seen = source.observed
    known = file_of(state, path, seen)
    if known.edits <= 0:
        known.first_edit = source.offset
    known.edits += 1
    known.attention += EDITED
    known.receipt = seen
    known.edited_at = state.edited_at = now(state)
    state.worked_time = max(state.worked_time, source.time)
    if event.call:
        name = known.path.rsplit("/", 1)[-1]
        verb = "Editing" if event.before else "Writing"
        words = shorten(f"{verb} {name}", _ACTIVITY_MAX)
        state.activity, state.activity_kept = Value(words, seen), True
        state.spoke_last = False
        await_call(state, Call(event.call, "", known.path))
    if event.before:
        _note_edit(state, known.path, event, source)
    return known.path


def _note_edit(state: SessionState, path: str, event: Edited, source: Receipt) -> None:
    """Remember an edit, and recognise one that takes an earlier one back."""
    before, after = crc32(event.before.encode()), crc32(event.after.encode())
    for earlier in reversed(state.edits):
        if (earlier.path, earlier.after, earlier.before) == (path, before, after):
            state.edits.remove(earlier)
            _undo(state, path)
            written = redact(event.before[:OUTPUT_READ])[0]
            tried = keep(_first_new_line(event.after, written), _SNIPPET_MAX)
            what = f": {tried}" if tried else ""
            dead_end(state, f"Taken back in {short(state, path)}{what}", source.observed)
            return
    state.edits.append(Edit(path, before, after))
    del state.edits[:-EDITS_MAX]


def _forget_edit(state: SessionState, path: str) -> None:
    for edit in reversed(state.edits):
        if edit.path == path:
            state.edits.remove(edit)
            return


def _undo(state: SessionState, path: str) -> None:
    """Forget an edit and the one that took it back: together they changed nothing."""
    for file in state.files:
        if file.path == path:
            file.edits, file.attention = file.edits - 2, file.attention - EDITED


def _first_new_line(before: str, after: str) -> str:
    old = set(before.split("\n"))
    return next((line for line in after.split("\n") if line.strip() and line not in old), "")


# Commands


def ran(state: SessionState, event: Ran, source: Receipt) -> None:
    state.spoke_last = False
    if event.description:
        state.activity = Value(event.description, source)
        state.activity_kept = False
    if not event.command:
        return
    command = event.command
    if len(command) > _COMMAND_READ:
        words = command[:_COMMAND_READ].rsplit(maxsplit=1)
        command = words[0] if words else ""  # no half of a secret
    title = _PULL_REQUEST.search(command) if "gh pr create" in command else None
    if title:
        state.pull_request_title = Value(keep(title[2], _ERROR_MAX), source)
        name(state, PULL_REQUEST, state.pull_request_title)
    await_call(state, Call(event.call, command, ""))


def finish(state: SessionState, event: Resulted, source: Receipt) -> None:
    """Take the result of a call that was waited for."""
    call = state.calls.pop(event.call, None)
    if call is None:
        return
    if call.reads:
        note_output(state, call, event, source.observed)
    elif call.path:
        if event.failed:
            _edit_failed(state, call.path)
    elif call.command:
        _command_done(state, call, event, source.observed)


def _edit_failed(state: SessionState, path: str) -> None:
    for known in state.files:
        if known.path == path:
            known.edits -= 1
            known.attention -= EDITED
            _forget_edit(state, path)
            if known.attention <= 0:
                state.files.remove(known)
            return


def _command_done(state: SessionState, call: Call, event: Resulted, source: Receipt) -> None:
    if event.failed and event.code in _NOT_RUN:
        return
    if event.begun:
        await_run(state, call, event.task)
        return
    if "handoff" in call.command or "flow inject" in call.command:
        note_injected(state, marked(output_text(event.output)))
    tests = bool(is_test_command(call.command))
    of_git = is_of_git(call.command)
    if not (event.failed or tests or of_git):
        _succeeded(state, call.command)
        return
    # As a whole: a key is more than a line.
    command, output = redact(call.command)[0], redact(ends(output_text(event.output)))[0]
    if tests:
        note_run(state, command, output, event.failed, source)
    if event.failed:
        _failed(state, command, output, source)
    else:
        _succeeded(state, command)
        if of_git:
            git_command(state, command, output, source)


# The shell was told to stop, or a time limit ended it: it says nothing of the command.
_NOT_RUN = frozenset({130, 137, 143})


def shelled(state: SessionState, event: Shelled, source: Receipt) -> None:
    """Take a person's own `!` command: it comes in two records, and has no exit status."""
    if event.command:
        ran(state, Ran("!", event.command, ""), source)
        return
    call = state.calls.pop("!", None)
    if call is None:
        return
    seen, output = source.observed, redact(ends(event.output))[0]
    if is_test_command(call.command):
        note_run(state, redact(call.command)[0], output, None, seen)
    if is_of_git(call.command):
        git_command(state, redact(call.command)[0], output, seen)


def notified(state: SessionState, event: Notified, source: Receipt) -> None:
    """Take the end of a command in the background; its output is in a file of its own."""
    call = state.calls.pop(event.call, None)
    if call is None or not call.command:
        return
    command, failed, seen = redact(call.command)[0], event.status == "failed", source.observed
    ended = event.status in ("completed", "failed")
    if ended and is_test_command(call.command) and not is_output_read(state, call):
        note_run(state, command, event.summary, failed, seen)
    if failed:
        _failed(state, command, event.summary, seen)
    elif event.status == "completed":
        _succeeded(state, command)


def _failed(state: SessionState, command: str, output: str, source: Receipt) -> None:
    key = _key(command)
    known = next((item for item in state.failures if item.command == key), None)
    error = Value(_error_line(output), source)
    if known is None:
        state.failures.append(Failure(key, 1, error))
        del state.failures[:-FAILURES_MAX]
        return
    known.count += 1
    known.error = error


def _succeeded(state: SessionState, command: str) -> None:
    # The key takes its time, so first a look whether one may fit.
    command = redact(command)[0] if state.failures else ""
    if any(item.command[:_KEY_START] in command for item in state.failures):
        key = _key(command)
        state.failures = [item for item in state.failures if item.command != key]


def _key(command: str) -> str:
    return keep(command_key(command), _COMMAND_MAX)


def _error_line(output: str) -> str:
    """Return the line of an output that says best what went wrong: the last that names an error."""
    lines = [line.strip() for line in output.split("\n") if line.strip()]
    lines = [line for line in lines if not line.startswith("Exit code ")]
    telling = [line for line in lines if _TELLING_ERROR.search(line)]
    return keep((telling or lines or [""])[-1], _ERROR_MAX)


def settle(state: SessionState) -> None:
    """Make what was only noted fit to be stored: most of it is forgotten before that."""
    for call in state.calls.values():
        state.calls[call.id] = call._replace(command=redact(call.command)[0])
    activity(state)


def activity(state: SessionState) -> Value | None:
    """Return what was done last, in words."""
    found = state.activity
    if found and not state.activity_kept:
        text = keep(found.text, _ACTIVITY_MAX)
        found = Value(text, found.receipt.observed) if text else None
        state.activity, state.activity_kept = found, True
    return found


# What a person refused


def note_denial(state: SessionState, event: Denied, source: Receipt) -> None:
    what = ""
    call = state.calls.pop(event.call, None)
    if call is not None and call.path:
        what = f"an edit of {short(state, call.path)}"
        _edit_failed(state, call.path)
    elif call is not None:
        what = _key(redact(call.command)[0])
    words = keep(event.words, _ERROR_MAX)
    if words:
        refused = f" (it was: {what})" if what else ""
        dead_end(state, f"Refused: “{words}”{refused}", source)
