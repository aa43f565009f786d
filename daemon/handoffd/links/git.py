"""What git knows of a project, asked by subprocess: bounded in time, its process group ended.

A repository is not trusted: nothing its own configuration names (fsmonitor, hooks, filters)
is run, and nothing is locked or written.
"""

import os
import signal
import subprocess

TIMEOUT_SECONDS = 2.0
# Another repository's variables, and what a service manager said to us alone.
_NOT_FOR_GIT = ("GIT_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
FILES_MAX = 200
_SAFE = (
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false",
    "-c", "diff.external=",
    "-c", "submodule.recurse=false",
)  # fmt: skip


class GitError(Exception):
    """git gave no answer; the message says why."""


def uncommitted_files(root: str) -> list[str]:
    """Return the paths, relative to the project's root, that differ from the last commit."""
    output = _run(
        root,
        *_neutral_filters(root),
        "status",
        "--porcelain=v1",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
        "--",
        ".",
    )
    # Paths are given from the repository's top, also for a project in a subdirectory of it.
    prefix = _run(root, "rev-parse", "--show-prefix").decode("utf-8", "replace").strip("\n")
    entries = output.decode("utf-8", "replace").split("\0")
    found = [entry[3:].removeprefix(prefix) for entry in entries if entry]  # "XY path"
    return [path for path in found if not path.startswith(".flow-guardian/")][:FILES_MAX]


def is_tracked(root: str, path: str) -> bool:
    """Tell whether a file is in git's index."""
    return bool(_run(root, "ls-files", "-z", "--", path))


def _neutral_filters(root: str) -> list[str]:
    """Switch off the clean filters that the repository itself brings along."""
    listed = _run(root, "config", "--list", "-z", "--name-only", "--show-scope", "--includes")
    words = listed.decode("utf-8", "replace").split("\0")
    arguments: list[str] = []
    for scope, name in zip(words[::2], words[1::2], strict=False):
        if scope in ("local", "worktree") and name.startswith("filter."):
            driver = name.split(".", 1)[1].rpartition(".")[0]
            for key, value in (("clean", ""), ("process", ""), ("required", "false")):
                arguments += ["-c", f"filter.{driver}.{key}={value}"]
    return arguments


def _run(root: str, *arguments: str) -> bytes:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(_NOT_FOR_GIT)},
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }
    try:
        process = subprocess.Popen(  # noqa: S603  a fixed program with fixed arguments
            ["git", "-C", root, *_SAFE, *arguments],  # noqa: S607
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError as problem:
        raise GitError(f"git cannot be run: {problem.strerror}") from None
    try:
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise GitError(f"git took longer than {TIMEOUT_SECONDS:g} s in {root}") from None
    if process.returncode:
        raise GitError(f"git {arguments[0]} failed in {root}")
    return output
