"""What git knows of a project, asked by subprocess: bounded in time, its process group ended.

A repository is not trusted: nothing its own configuration names (fsmonitor, hooks, filters)
is run, and nothing is locked or written.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time

TIMEOUT_SECONDS = 2.0
# Another repository's variables, and what a service manager said to us alone.
_NOT_FOR_GIT = ("GIT_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
FILES_MAX = 200
OUTPUT_MAX_BYTES = 8 << 20
SCANNED_MAX_BYTES = 1 << 20
_ENDING_SECONDS = 0.2
_SAFE = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.quotePath", "false"),
    # It would run a program that the repository names.
    ("log.showSignature", "false"),
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


def unpushed_commits(root: str) -> int | None:
    """Return how many commits of HEAD no remote has; None where there is no remote."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    if not _run(root, deadline, "for-each-ref", "--count=1", "refs/remotes").strip():
        return None
    counted = _run(root, deadline, "rev-list", "--count", "HEAD", "--not", "--remotes")
    return int(counted)


def added_lines(root: str, commit: str) -> dict[str, str]:
    """Return the lines that a commit added, by file; a repository's own diff programs stay out."""
    words = ("-p", "-r", "--root", "--no-commit-id", "--unified=0", "--no-color", "--no-renames")
    output = _run(
        root,
        time.monotonic() + TIMEOUT_SECONDS,
        "diff-tree",
        *words,
        "--no-ext-diff",
        "--no-textconv",
        commit,
        "--",
    )[:SCANNED_MAX_BYTES]
    added: dict[str, list[str]] = {}
    path = before = ""
    for line in output.decode("utf-8", "replace").split("\n"):
        if line.startswith("+++ ") and before.startswith("--- "):
            path = line[4:].removeprefix("b/").rstrip("\t")
        elif line.startswith("+"):
            added.setdefault(path, []).append(f"{line[1:]}\n")
        before = line
    return {path: "".join(lines) for path, lines in added.items()}


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
        output = _read(process, deadline)
    finally:
        _end(process)
        _running.discard(process.pid)
    if output is None:
        raise GitError(f"git took longer than {TIMEOUT_SECONDS:g} s in {root}")
    if process.returncode and len(output) < OUTPUT_MAX_BYTES:
        raise GitError(f"git {arguments[0]} failed in {root}")
    return output


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """Read what a program says, up to a limit; None if it is not done in time."""
    stream = process.stdout
    if stream is None:
        return b""
    parts: list[bytes] = []
    left = OUTPUT_MAX_BYTES
    ready = select.poll()
    ready.register(stream, select.POLLIN | select.POLLHUP)
    while left > 0:
        rest = deadline - time.monotonic()
        if rest < 0 or not ready.poll(max(rest, 0.01) * 1000):
            return None
        part = os.read(stream.fileno(), min(left, 1 << 16))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """See that a program ends: it has closed its output, or it is ended with its children."""
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
