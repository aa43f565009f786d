"""The git data of a project: its uncommitted files and its commits.

`git_process.py` runs git on the data of a repository, without its configuration.
"""

import os
import re
import stat
import time

from handoff.common import programs
from handoffd.links.git_discovery import GitError, Repository
from handoffd.links.git_process import TIMEOUT_SECONDS, ask, ask_in, filters, open_repository

__all__ = ["TIMEOUT_SECONDS", "GitError"]

FILES_MAX = 200
STATUS = (
    "status", "--porcelain=v2", "-z", "--untracked-files=normal", "--ignore-submodules=all",
    "--no-renames",
)  # fmt: skip
SCANNED_MAX_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20
_INDEX_VERSION_4 = (4).to_bytes(4, "big")


# Files that we write ourselves are not part of a session's work.
_OWN_PATHS = (".flow-guardian/", "conductor/handoffs/", "conductor/.last_activity")
# Temporary files that Claude Code writes beside a file before it renames them, and the files that
# Python compiles from sources.
_GENERATED = re.compile(r"\.tmp\.\d+\.[0-9a-f]+$|(?:^|/)__pycache__/$")
# The number of fields before the path, by the first letter of an entry.
_FIELDS = {"1": 8, "u": 10, "?": 1}


def uncommitted_files(root: str, seconds: float = TIMEOUT_SECONDS) -> list[str]:
    """Return the paths, relative to the project's root, that differ from the last commit."""
    return status(root, seconds)[1]


def status(root: str, seconds: float, *more: str) -> tuple[dict[str, str], list[str]]:
    """Return the headers of `git status`, and the paths that differ from the last commit."""
    deadline = time.monotonic() + seconds
    repository = open_repository(root)
    output = ask_in(repository, deadline, *STATUS, *more, "--", ".", may_be_cut=True)
    # The last entry is empty or cut off.
    entries = output.decode("utf-8", "surrogateescape").split("\0")[:-1]
    headers = dict(entry[2:].partition(" ")[::2] for entry in entries if entry.startswith("# "))
    changed = {_path(entry): entry for entry in entries if entry.startswith("1 .M ")}
    same = _unchanged_by_time(repository, deadline) if changed else set()
    # git gives paths from the top of the repository, even for a project in a subdirectory.
    prefix = f"{repository.root}/".removeprefix(f"{repository.top}/")
    found = (_path(entry) for entry in entries)
    shown = (_decoded(path.removeprefix(prefix)) for path in found if path and path not in same)
    return headers, [path for path in shown if not _is_generated(path)][:FILES_MAX]


def _decoded(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


# The output of `ls-files --debug` for one file: its path, then its status in the index.
_INDEXED = re.compile(
    r"([^\0]+)\0  ctime: \d+:\d+\n  mtime: (\d+):(\d+)\n.*\n.*\n  size: (\d+)\t.*\n"
)


def _unchanged_by_time(repository: Repository, deadline: float) -> set[str]:
    """Return the files with a filter whose time and size are those in the index.

    We run no filters (Git LFS has one), so the content of such files always differs from the stored
    one. git compares the content only if the time of a file is not conclusive.
    """
    names = filters(repository, deadline)
    if not names:
        return set()
    patterns = [f":(attr:filter={name})" for name in names]
    output = ask_in(
        repository, deadline, "ls-files", "-z", "-m", "--debug", "--full-name", "--", *patterns
    )
    found = set()
    for entry in _INDEXED.finditer(output.decode("utf-8", "surrogateescape")):
        path, seconds, rest, size = entry.groups()
        try:
            file = os.lstat(f"{repository.top}/{path}")
        except OSError:
            continue
        time_ns = int(seconds) * 10**9 + int(rest)
        if file.st_size == int(size) and file.st_mtime_ns == time_ns:
            found.add(path)
    return found


def _is_generated(path: str) -> bool:
    return path.startswith(_OWN_PATHS) or bool(_GENERATED.search(path))


def _path(entry: str) -> str:
    fields = _FIELDS.get(entry[:1], 0)
    return entry.split(" ", fields)[-1] if fields else ""


def is_tracked(root: str, path: str) -> bool:
    """Return True if a file is in git's index; without git, no file is tracked."""
    if not programs.find("git"):
        return False
    return bool(ask(root, time.monotonic() + TIMEOUT_SECONDS, "ls-files", "-z", "--", path))


def may_be_tracked(git_directory: str, path: str) -> bool:
    """Return True if a path may be in the index, for a repository that git is not run in."""
    name, last = path.encode(), b""
    try:
        handle = os.open(f"{git_directory}/index", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb", buffering=0) as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return False
            # Since version 4 the index stores only the difference to the previous path.
            if (last := stream.read(8) or b"")[4:] >= _INDEX_VERSION_4:
                return True
            while part := stream.read(_CHUNK_BYTES):
                if name in last + part:
                    return True
                last = part[-len(name) :]
    except OSError:
        pass
    return False


def unpushed_commits(root: str) -> int | None:
    """Return the number of commits of HEAD that no remote has; None without a remote."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    if not ask(root, deadline, "for-each-ref", "--count=1", "refs/remotes").strip():
        return None
    counted = ask(root, deadline, "rev-list", "--count", "HEAD", "--not", "--remotes")
    return int(counted)


def added_lines(root: str, commit: str) -> dict[str, str]:
    """Return the lines that a commit added, by file."""
    words = ("-p", "-r", "--root", "--no-commit-id", "--unified=0", "--no-color", "--no-renames")
    output = ask(
        root,
        time.monotonic() + TIMEOUT_SECONDS,
        "diff-tree",
        *words,
        commit,
        "--",
        may_be_cut=True,
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
