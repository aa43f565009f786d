"""What git did to the work: commits, pull requests, and edits that it threw away. Pure."""

import re

from handoffd.agents.events import GitDone
from handoffd.session.dead_ends import dead_end
from handoffd.session.file_ranking import now, short
from handoffd.session.state import COMMITS_MAX, Receipt, SessionState, Value
from handoffd.session.text import NOW_MAX, keep

_GIT = re.compile(r"\bgit\s+(?:-\S+\s+\S+\s+)?(?:commit|checkout|restore)\b")
_COMMITTED = re.compile(
    r"(?m)^\[[^\]\s]{1,200}[^\]\n]{0,80}? (?P<sha>[0-9a-f]{7,40})\] (?P<text>.+)$"
)
# Without `--` it may name a branch; only what is a file that was edited counts.
_THROWN_AWAY = re.compile(
    r"\bgit\s+(?:restore\s+(?!.*--staged)(?:--\S+\s+)*|checkout\s+(?:[\w./~^-]+\s+)?--\s+"
    r"|checkout\s+(?:HEAD\s+)?(?!-))(?P<paths>[^|;&\n]+)"
)


def is_of_git(command: str) -> bool:
    """Tell a command of git that may concern us."""
    return "git" in command and bool(_GIT.search(command))


def git_command(state: SessionState, command: str, output: str, source: Receipt) -> None:
    done = _COMMITTED.search(output)
    if done and "commit" in command:
        _commit(state, done["sha"], done["text"], source)
    thrown = _THROWN_AWAY.search(command)
    if thrown:
        _note_thrown_away(state, thrown["paths"].split(), source)


def git_done(state: SessionState, event: GitDone, source: Receipt) -> None:
    seen = source.observed
    if event.sha:
        _commit(state, event.sha, "", seen)
    if event.pull_request is not None:
        note_pull_request(state, event.pull_request, event.url, seen)


def _commit(state: SessionState, sha: str, text: str, source: Receipt) -> None:
    state.committed_at = now(state)
    state.worked_time = max(state.worked_time, source.time)
    if any(value.text.startswith(sha[:7]) for value in state.commits):
        return
    line = keep(f"{sha[:9]} {text}".strip(), NOW_MAX)
    state.commits.append(Value(line, source))
    del state.commits[:-COMMITS_MAX]


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
