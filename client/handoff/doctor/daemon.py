"""Check whether and where the daemon answers, and report its own warnings."""

import os
import pwd
import stat

from handoff import service
from handoff.common import paths
from handoff.common.errors import NotRunningError
from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, bad, explained, note, ok

# The warnings that another subject reports in other words.
REPORTED_ELSEWHERE = ("letters_dead",)


def examine(environment: Environment) -> list[Finding]:
    if environment.problem is None:
        status = environment.status
        found = [ok(f"process {status['pid']} answers at {status['socket']}")]
    else:
        found = [
            bad(environment.problem.title, environment.problem.hint, environment.problem.exit_code)
        ]
    is_there = not isinstance(environment.problem, NotRunningError)
    found += _failure_note(is_there=is_there)
    for path in paths.socket_candidates():
        if path == environment.status.get("socket"):
            break
        found += _socket_findings(path, is_there=is_there)
    return found


def _failure_note(*, is_there: bool) -> list[Finding]:
    """Return a note on the last daemon that ended unasked, with the reason."""
    for line in service.failures()[-1:]:
        when, _, why = line.partition(" ")
        which = "the one before it" if is_there else "it"
        return [note(f"{which} ended by itself at {when}: {why}", "See: handoff logs")]
    return []


def _socket_findings(path: str, *, is_there: bool) -> list[Finding]:
    """Return the obstacle at one of the paths where a socket may be."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return []
    except OSError as problem:
        return [note(f"{path}: {problem.strerror}", _OTHER_PLACE)]
    if found.st_uid not in (os.getuid(), 0):
        text = f"{path} is the socket of {_name(found.st_uid)}, and is left alone"
        return [note(text, _OTHER_PLACE)]
    if not stat.S_ISSOCK(found.st_mode):
        return [bad(f"{path} is no socket", f"Move it away: mv {path} {path}.old")]
    if is_there:
        return []
    return [note(f"nobody listens at {path}: its daemon was killed", "handoff up replaces it.")]


_OTHER_PLACE = "`su` leaves another user's XDG_RUNTIME_DIR: unset XDG_RUNTIME_DIR"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def examine_warnings(environment: Environment) -> list[Finding]:
    return [
        bad(warning["text"], explained(warning["anchor"]))
        for warning in environment.warnings
        if warning["code"] not in REPORTED_ELSEWHERE
    ]
