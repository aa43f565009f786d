"""What git knows of a project, asked by subprocess: bounded in time, its process group ended.

A repository is not trusted: nothing its own configuration names (fsmonitor, hooks, filters)
is run, and nothing is locked or written.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time

TIMEOUT_SECONDS = 2.0
# Another repository's variables, and what a service manager said to us alone.
_NOT_FOR_GIT = ("GIT_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
FILES_MAX = 200
_SAFE = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("submodule.recurse", "false"),
)
_running: set[int] = set()


class GitError(Exception):
    """git gave no answer; the message says why."""


def uncommitted_files(root: str, seconds: float = TIMEOUT_SECONDS) -> list[str]:
    """Return the paths, relative to the project's root, that differ from the last commit."""
    deadline = time.monotonic() + seconds
    output = _run(
        root,
        deadline,
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
        "--",
        ".",
        settings=_neutral_filters(root, deadline),
    )
    # Paths are given from the repository's top, also for a project in a subdirectory of it.
    prefix = _run(root, deadline, "rev-parse", "--show-prefix").decode("utf-8", "replace")
    entries = output.decode("utf-8", "replace").split("\0")
    found = [entry[3:].removeprefix(prefix.strip("\n")) for entry in entries if entry]  # "XY path"
    return [path for path in found if not path.startswith(".flow-guardian/")][:FILES_MAX]


def is_tracked(root: str, path: str) -> bool:
    """Tell whether a file is in git's index; where there is no git, nothing is tracked."""
    if shutil.which("git") is None:
        return False
    return bool(_run(root, time.monotonic() + TIMEOUT_SECONDS, "ls-files", "-z", "--", path))


def end_all() -> None:
    """End every git that is still running: the daemon is ending."""
    for pid in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _neutral_filters(root: str, deadline: float) -> list[tuple[str, str]]:
    """Switch off the clean filters that the repository itself brings along."""
    listed = _run(
        root, deadline, "config", "--list", "-z", "--name-only", "--show-scope", "--includes"
    )
    words = listed.decode("utf-8", "replace").split("\0")
    found: list[tuple[str, str]] = []
    for scope, name in zip(words[::2], words[1::2], strict=False):
        if scope in ("local", "worktree") and name.startswith("filter."):
            driver = name.split(".", 1)[1].rpartition(".")[0]
            values = (("clean", ""), ("process", ""), ("required", "false"))
            found += [(f"filter.{driver}.{key}", value) for key, value in values]
    return found


def _environment(settings: list[tuple[str, str]]) -> dict[str, str]:
    """Give git our settings by its environment: a name with `=` would confuse `-c`."""
    pairs = [*_SAFE, *settings]
    given = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (name, value) in enumerate(pairs):
        given |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(_NOT_FOR_GIT)},
        **given,
        # A partial clone would fetch what it lacks, with a program that the repository names.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }


def _run(
    root: str, deadline: float, *arguments: str, settings: list[tuple[str, str]] | None = None
) -> bytes:
    try:
        process = subprocess.Popen(  # noqa: S603  a fixed program with fixed arguments
            ["git", "-C", root, *arguments],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(settings or []),
            start_new_session=True,
        )
    except OSError as problem:
        raise GitError(f"git cannot be run: {problem.strerror}") from None
    _running.add(process.pid)
    try:
        output, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise GitError(f"git took longer than {TIMEOUT_SECONDS:g} s in {root}") from None
    finally:
        _running.discard(process.pid)
    if process.returncode:
        raise GitError(f"git {arguments[0]} failed in {root}")
    return output
