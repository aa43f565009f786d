"""What git knows of a project, asked by subprocess: bounded in time, its process group ended.

A repository is not trusted: nothing its own configuration names (fsmonitor, hooks, filters)
is run, and nothing is locked or written.
"""

import mmap
import os
import re
import shutil
import time

from handoffd.links import program

TIMEOUT_SECONDS = 2.0
# Another repository's variables, and what a service manager said to us alone.
_NOT_FOR_GIT = ("GIT_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
FILES_MAX = 200
REASON_MAX = 200
OUTPUT_MAX_BYTES = 8 << 20
SCANNED_MAX_BYTES = 1 << 20
_SHORTENED = (4).to_bytes(4, "big")
_SAFE = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.quotePath", "false"),
    # It would run a program that the repository names.
    ("log.showSignature", "false"),
    ("core.untrackedCache", "false"),
    ("submodule.recurse", "false"),
)


class GitError(Exception):
    """git gave no answer; the message says why.

    Nobody is at fault where there is no git, or where it was only late.
    """

    def __init__(self, message: str, *, missing: bool = False, late: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
        self.late = late


# What we write ourselves is nobody's work.
_OURS = (".flow-guardian/", "conductor/handoffs/", "conductor/.last_activity")
# What Claude Code writes beside a file before it takes its name: it is gone a moment later. And
# what Python makes of sources.
_MADE = re.compile(r"\.tmp\.\d+\.[0-9a-f]+$|(?:^|/)__pycache__/$")
# How many fields stand before the path, by the first letter of an entry.
_FIELDS = {"1": 8, "u": 10, "?": 1}


def uncommitted_files(root: str, seconds: float = TIMEOUT_SECONDS) -> list[str]:
    """Return the paths, relative to the project's root, that differ from the last commit."""
    return status(root, seconds)[1]


def status(root: str, seconds: float, *more: str) -> tuple[dict[str, str], list[str]]:
    """Return what git says of a work tree: its headers, and what differs from the last commit."""
    deadline = time.monotonic() + seconds
    output = ask(
        root,
        deadline,
        "status",
        "--porcelain=v2",
        "-z",
        *more,
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
        "--",
        ".",
        settings=neutral_filters(root, deadline),
    )
    # Paths are given from the repository's top, also for a project in a subdirectory of it.
    prefix = ask(root, deadline, "rev-parse", "--show-prefix").decode("utf-8", "replace")
    entries = output.decode("utf-8", "replace").split("\0")
    headers = dict(entry[2:].partition(" ")[::2] for entry in entries if entry.startswith("# "))
    found = [_path(entry).removeprefix(prefix.strip("\n")) for entry in entries]
    kept = [path for path in found if path and not _is_nobodys(path)]
    return headers, kept[:FILES_MAX]


def _is_nobodys(path: str) -> bool:
    return path.startswith(_OURS) or bool(_MADE.search(path))


def _path(entry: str) -> str:
    fields = _FIELDS.get(entry[:1], 0)
    return entry.split(" ", fields)[-1] if fields else ""


def is_tracked(root: str, path: str) -> bool:
    """Tell whether a file is in git's index; where there is no git, nothing is tracked."""
    if shutil.which("git") is None:
        return False
    return bool(ask(root, time.monotonic() + TIMEOUT_SECONDS, "ls-files", "-z", "--", path))


def may_be_tracked(git_directory: str, path: str) -> bool:
    """Tell whether a path stands in the index, where git itself cannot be asked."""
    try:
        with (
            open(f"{git_directory}/index", "rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as index,
        ):
            # From version 4 on a path stands there only as far as it differs from the last one.
            return index[4:8] >= _SHORTENED or index.find(path.encode()) >= 0
    except (OSError, ValueError):  # not there, or empty
        return False


def unpushed_commits(root: str) -> int | None:
    """Return how many commits of HEAD no remote has; None where there is no remote."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    if not ask(root, deadline, "for-each-ref", "--count=1", "refs/remotes").strip():
        return None
    counted = ask(root, deadline, "rev-list", "--count", "HEAD", "--not", "--remotes")
    return int(counted)


def added_lines(root: str, commit: str) -> dict[str, str]:
    """Return the lines that a commit added, by file; a repository's own diff programs stay out."""
    words = ("-p", "-r", "--root", "--no-commit-id", "--unified=0", "--no-color", "--no-renames")
    output = ask(
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


def neutral_filters(root: str, deadline: float) -> list[tuple[str, str]]:
    """Switch off the clean filters that the repository itself brings along."""
    listed = ask(
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


def ask(
    root: str, deadline: float, *arguments: str, settings: list[tuple[str, str]] | None = None
) -> bytes:
    environment = _environment(settings or [])
    try:
        said = program.run(
            ["git", "-C", root, *arguments], deadline, environment, most_bytes=OUTPUT_MAX_BYTES
        )
    except program.ProgramError as problem:
        if problem.late:
            why = f"git took longer than {TIMEOUT_SECONDS:g} s in {root}"
            raise GitError(why, late=True) from None
        raise GitError(f"git cannot be run: {problem}", missing=problem.missing) from None
    if said.code and said.whole:
        raise GitError(f"git {arguments[0]} failed in {root}{_reason(said.complaint)}")
    return said.output


def _reason(complaint: bytes) -> str:
    """Return what git itself says, if it does; it may be anything."""
    lines = complaint.decode("utf-8", "replace").splitlines()
    found = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
    return f" ({found[:REASON_MAX]})" if found.isprintable() and found else ""
