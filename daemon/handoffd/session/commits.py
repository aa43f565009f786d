"""What git did to the work: commits, pull requests, and edits that it threw away. Pure."""

import re

from handoffd.agents.events import GitDone
from handoffd.session.dead_ends import dead_end
from handoffd.session.file_ranking import now, short
from handoffd.session.requests import COMMIT, name
from handoffd.session.state import COMMITS_MAX, Receipt, SessionState, Value
from handoffd.session.steps import close_committed
from handoffd.session.text import NOW_MAX, keep

_GIT = re.compile(
    r"\bgit\s+(?:-\S+\s+\S+\s+)?(?:commit|checkout|restore|push)\b|\bgh pr (?:create|merge)\b"
)
_COMMITTED = re.compile(
    r"(?m)^\[[^\]\s]{1,200}[^\]\n]{0,80}? (?P<sha>[0-9a-f]{7,40})\] (?P<text>.+)$"
)
_PUSHED = re.compile(r"\bgit\s+(?:-\S+\s+\S+\s+)?push\b|\bgh pr create\b")
_QUIET = re.compile(r"\bgit\s+(?:-\S+\s+\S+\s+)?commit\b(?=[^|;&]*\s(?:-\w*q\w*|--quiet)\b)")
_NOTHING_DONE = re.compile(r"(?i)nothing (?:added )?to commit|no changes added|fatal:|error:")
_MESSAGE = re.compile(
    r"(?s)\s(?:-\w*m|--message)[ =]*(?P<quote>[\"']?)(?:\$\(cat <<\s*\S+\s*)?(?P<text>[^\n\"']+)"
)
# Without `--` it may name a branch; only what is a file that was edited counts.
_THROWN_AWAY = re.compile(
    r"\bgit\s+(?:restore\s+(?!.*--staged)(?:--\S+\s+)*|checkout\s+(?:[\w./~^-]+\s+)?--\s+"
    r"|checkout\s+(?:HEAD\s+)?(?!-))(?P<paths>[^|;&\n]+)"
)


def is_of_git(command: str) -> bool:
    """Tell a command of git that may concern us."""
    return ("git" in command or "gh pr" in command) and bool(_GIT.search(command))


def git_command(state: SessionState, command: str, output: str, source: Receipt) -> None:
    done = _COMMITTED.search(output)
    if done and "commit" in command:
        _commit(state, done["sha"], done["text"], source)
    elif _QUIET.search(command) and not _NOTHING_DONE.search(output):
        # `-q` prints nothing: the message is in the command.
        said = _MESSAGE.search(command)
        _commit(state, "", said["text"] if said else "(message not seen)", source)
    if _PUSHED.search(command):
        state.pushed_at = now(state)
    thrown = _THROWN_AWAY.search(command)
    if thrown:
        _note_thrown_away(state, thrown["paths"].split(), source)


def git_done(state: SessionState, event: GitDone, source: Receipt) -> None:
    seen = source.observed
    if event.sha:
        _commit(state, event.sha, "", seen)
    if event.pushed:
        state.pushed_at = now(state)
    if event.pull_request is not None:
        note_pull_request(state, event.pull_request, event.url, seen)


def _commit(state: SessionState, sha: str, text: str, source: Receipt) -> None:
    state.committed_at = now(state)
    state.worked_time = max(state.worked_time, source.time)
    if sha and any(value.text.startswith(sha[:7]) for value in state.commits):
        return
    line = keep(f"{sha[:9]} {text}".strip(), NOW_MAX)
    state.commits.append(Value(line, source))
    del state.commits[:-COMMITS_MAX]
    if text:
        subject = Value(keep(text, NOW_MAX), source)
        name(state, COMMIT, subject)
        close_committed(state, subject.text)


def note_pull_request(state: SessionState, number: int, url: str, source: Receipt) -> None:
    line = keep(f"#{number} {url}".strip(), NOW_MAX)
    if all(value.text.split(" ")[0] != f"#{number}" for value in state.pull_requests):
        state.pull_requests.append(Value(line, source))
        del state.pull_requests[:-COMMITS_MAX]


def _note_thrown_away(state: SessionState, paths: list[str], source: Receipt) -> None:
    for file in state.files:
        name = short(state, file.path)
        if file.edits > 0 and name in (path.removeprefix("./").strip("'\"") for path in paths):
            dead_end(state, f"The edits of {name} were thrown away", source)
            file.edits = file.attention = 0
