"""Whether a build of the project we are in would take in its handoff.

Our `.gitignore` lies inside `.flow-guardian/`, where not every program that packs looks for one.
Only files are read: nothing of the project is run.
"""

import itertools
import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Iterator
from typing import Any

from handoff import paths
from handoff.examination.finding import Finding, bad
from handoff.examination.patterns import ends, is_ignored, names
from handoff.examination.scene import Scene, working_directory

OURS = ".flow-guardian"
TARGET = paths.CHECKPOINT
_READ_MAX_BYTES = 1 << 17
_DOCKERFILE = re.compile(r"(?:Dockerfile|Containerfile)(?:\..+)?|.+\.(?:Dockerfile|dockerfile)")
_FILES_MAX = 8


def examine(_scene: Scene) -> list[Finding]:
    root = paths.project_root(working_directory())
    return judge(root) if os.path.isfile(f"{root}/{TARGET}") else []


def judge(root: str) -> list[Finding]:
    """Say which builds of a project would take in its handoff, and what to change."""
    found = (*_git(root), *_hatchling(root), *_setuptools(root), *_npm(root), *_docker(root))
    return [bad(f"{what} takes in {TARGET}", remedy) for what, remedy in found]


Found = Iterator[tuple[str, str]]


def _git(root: str) -> Found:
    """Our own list is nearest, so that it decides; a person or a repository may have another."""
    if os.path.lexists(f"{root}/.git") and not _own_list(root, ".gitignore"):
        lists = (f"{root}/.gitignore", f"{root}/.git/info/exclude")
        if not any(is_ignored(_lines(path), TARGET) for path in lists):
            yield "`git add -A`", f"Put a line * into {root}/{OURS}/.gitignore"


def _own_list(root: str, name: str) -> bool | None:
    """Tell what a list in our own directory says; None if there is none, or it says nothing."""
    path = f"{root}/{OURS}/{name}"
    return is_ignored(_lines(path), os.path.basename(TARGET)) if os.path.isfile(path) else None


# Python


def _project(root: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(f"{root}/pyproject.toml"))
    except (ValueError, RecursionError):
        return {}


def _backend(root: str) -> str:
    return str(_table(_project(root), "build-system").get("build-backend", ""))


def _hatchling(root: str) -> Found:
    if not _backend(root).startswith("hatchling"):
        return
    build = _table(_project(root), "tool", "hatch", "build")
    for target in ("sdist", "wheel"):
        if _is_built(root, build, target):
            line = f'exclude = ["{OURS}"] under [tool.hatch.build.targets.{target}]'
            yield f"the {target} of hatchling", f"Put into {root}/pyproject.toml: {line}"


def _is_built(root: str, build: dict[str, Any], target: str) -> bool:
    """Tell whether hatchling takes us in; a wheel has the packages alone unless it is told more."""
    own = _table(build, "targets", target)

    def said(name: str) -> list[str]:
        given = own.get(name, build.get(name))
        return [str(item) for item in given] if isinstance(given, list) else []

    forced = any(_covers(str(path)) for path in _table(own, "force-include"))
    selected = said("only-include") or said("packages")
    seen = any(map(_covers, selected)) if selected else target == "sdist" or bool(said("include"))
    wanted = not said("include") or any(names(pattern, TARGET) for pattern in said("include"))
    by_vcs = not own.get("ignore-vcs", build.get("ignore-vcs", False))
    excluded = is_ignored([*(_nearest_ignores(root) if by_vcs else ()), *said("exclude")], TARGET)
    return forced or (seen and (is_ignored(said("artifacts"), TARGET) or (wanted and not excluded)))


def _nearest_ignores(root: str) -> list[str]:
    """Return the lines of the first .gitignore upwards, within the repository."""
    while True:
        if os.path.isfile(f"{root}/.gitignore"):
            return _lines(f"{root}/.gitignore")
        if os.path.lexists(f"{root}/.git") or root == os.path.dirname(root):
            return []
        root = os.path.dirname(root)


def _setuptools(root: str) -> Found:
    backend = _backend(root)
    legacy = not backend and os.path.isfile(f"{root}/setup.py")
    if not (backend.startswith("setuptools") or legacy):
        return
    taken = False
    for line in _lines(f"{root}/MANIFEST.in"):
        taken = _by_manifest(line.split("#")[0].split(), taken)
    if taken:
        yield (
            "the sdist of setuptools",
            f"Put a last line into {root}/MANIFEST.in: prune {OURS}",
        )


def _by_manifest(words: list[str], taken: bool) -> bool:
    """Return whether a file is taken after a line of MANIFEST.in."""
    if len(words) < 2:  # noqa: PLR2004
        return taken
    verb, *rest = words
    if verb in ("graft", "prune"):
        hit = any(_covers(directory.rstrip("/")) for directory in rest)
    elif verb.startswith("recursive-"):
        hit = _globs(rest[1:], ends(f"{os.path.normpath(rest[0])}/**/".removeprefix("./"), TARGET))
    elif verb.startswith("global-"):
        hit = _globs(rest, ends("**/", TARGET))
    else:
        hit = verb in ("include", "exclude") and _globs(rest, {0})
    return not verb.endswith(("exclude", "prune")) if hit else taken


def _globs(patterns: list[str], starts: set[int]) -> bool:
    return any(len(TARGET) in ends(os.path.normpath(p), TARGET, starts) for p in patterns)


def _covers(path: str) -> bool:
    """Tell whether a path that is named, or a glob, is our file or a directory above it."""
    path = os.path.normpath(path.lstrip("/") or ".")
    return path == "." or names(f"/{path}", TARGET)


# npm


def _npm(root: str) -> Found:
    try:
        package = json.loads(_text(f"{root}/package.json"))
    except (ValueError, RecursionError):
        return
    if not isinstance(package, dict):
        return
    files = package.get("files")
    listed = [str(item) for item in files] if isinstance(files, list) else None
    if listed and any(os.path.normpath(item.lstrip("/")) == TARGET for item in listed):
        yield "`npm pack`", f"Take {TARGET} out of the files in {root}/package.json"
    elif not _ignored_by_npm(root, listed):
        yield "`npm pack`", f"Put a line * into {root}/{OURS}/.gitignore"


def _ignored_by_npm(root: str, listed: list[str] | None) -> bool:
    """Follow npm: .npmignore replaces .gitignore beside it; below the top they hold in any case."""
    name = ".npmignore" if os.path.isfile(f"{root}/{OURS}/.npmignore") else ".gitignore"
    own = _own_list(root, name)
    if own is not None:
        return own
    if listed is not None:
        return not is_ignored(listed, TARGET, anchored=True)
    top = ".npmignore" if os.path.isfile(f"{root}/.npmignore") else ".gitignore"
    return bool(is_ignored(_lines(f"{root}/{top}"), TARGET))


# docker


def _docker(root: str) -> Found:
    """Take the project's root for the context, as `docker build .` does."""
    found = (name for name in sorted(os.listdir(root)) if _DOCKERFILE.fullmatch(name))
    for name in itertools.islice(found, _FILES_MAX):
        own = f"{root}/{name}.dockerignore"
        ignore = own if os.path.isfile(own) else f"{root}/.dockerignore"
        if name.endswith(".dockerignore") or is_ignored(_lines(ignore), TARGET, anchored=True):
            continue
        if any(map(_covers, _copied(_text(f"{root}/{name}")))):
            yield f"an image of {name}", f"Put a line into {ignore}: {OURS}"


def _copied(text: str) -> Iterator[str]:
    """Yield what a Dockerfile copies from its context."""
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        verb, _, rest = line.strip().partition(" ")
        if verb.upper() not in ("COPY", "ADD"):
            continue
        options = re.match(r"(?:\s*--\S+)*", rest)
        given = rest[options.end() :] if options else rest
        if options and "--from=" in options[0]:
            continue
        yield from _sources(given.strip())


def _sources(given: str) -> list[str]:
    try:
        words = json.loads(given) if given.startswith("[") else shlex.split(given)
    except ValueError:
        return []
    return [str(word) for word in words[:-1]]


# Reading


def _table(data: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _lines(path: str) -> list[str]:
    return _text(path).splitlines()


def _text(path: str) -> str:
    """Return what is in a file of the project, which may be a FIFO, or large."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, _READ_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
