"""Find the repository of a project by its `.git` alone, without git.

git would also accept a directory that merely looks like a repository, and any commit can contain
such a directory. A `.git` that leads elsewhere counts only if that place leads back: otherwise
names from another repository would enter the documents of this project.
"""

import errno
import os
import re
import stat
from typing import NamedTuple

from handoff.common import paths
from handoffd.fs import mounts
from handoffd.links import git_config
from handoffd.links.git_config import Values, last

SMALL_BYTES = 4096
CONFIG_MAX_BYTES = 1 << 20
WORKTREES_MAX = 200
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
# A branch or a commit. Of git's rules for names, these keep a name inside `refs` and on one line.
_HEAD = re.compile(
    r"(?:ref:[ \t]*(?P<name>refs/(?!.*\.\.)[^\x00-\x20~^:?*\[\\\x7f]+)"
    r"|(?P<commit>[0-9a-f]{40}|[0-9a-f]{64}))\s*"
)
# Extensions that do not change the format of the data (None), and the supported values of others.
_EXTENSIONS = {
    "extensions.noop": None,
    "extensions.partialclone": None,
    "extensions.preciousobjects": None,
    "extensions.relativeworktrees": None,
    "extensions.worktreeconfig": None,
    "extensions.objectformat": ("sha1", "sha256"),
    "extensions.refstorage": ("files",),
}


class GitError(Exception):
    """git gave no answer, or was not asked; the message gives the reason.

    If git is `missing` or was `late`, the repository is not at fault.
    """

    def __init__(self, message: str, *, missing: bool = False, late: bool = False) -> None:
        super().__init__("".join(c if c.isprintable() else "\ufffd" for c in message))
        self.missing = missing
        self.late = late


class Repository(NamedTuple):
    """A repository by real paths: `root` is the project, `top` its work tree.

    HEAD and the index are in `directory`, all other data in `common`; they differ in a linked work
    tree.
    """

    root: str
    top: str
    directory: str
    common: str
    settings: Values


class HeadFile(NamedTuple):
    """The content of a HEAD file: the full name of a branch, or a commit."""

    name: str
    commit: str

    @property
    def branch(self) -> str:
        return self.name.removeprefix("refs/heads/")


class Worktree(NamedTuple):
    """A work tree, its branch, and its own part of the repository."""

    path: str
    branch: str
    directory: str


def refusal(why: str) -> GitError:
    """Return the error for a repository in which git is not run, with the reason."""
    return GitError(f"git is not asked: {why}")


def find(root: str) -> Repository | None:
    """Return the repository of a project, or None; raise a GitError if it is refused."""
    if not mounts.answers(root):
        raise _silent(root)
    root = os.path.realpath(root)
    top = _top(root)
    if top is None:
        return None
    link = f"{top}/.git"
    directory = _directory(link)
    common = _common(directory)
    settings = _settings(directory, common)
    if common != directory:
        back = _path_in_file(f"{directory}/gitdir")
    else:
        back = _resolved(directory, last(settings, "core.worktree", "..")) + "/.git"
        if _is_bare(settings):
            raise refusal(f"{link} is a bare repository by its configuration (core.bare)")
    if back != link:
        raise refusal(f"{link} and its core.worktree or gitdir do not lead to each other")
    _require_known_format(common, settings)
    return Repository(root, top, directory, common, settings)


def suspected(root: str) -> str | None:
    """Return the directory of a repository that may be refused, or None if there is none."""
    top = _top(os.path.realpath(root)) if mounts.answers(root) else None
    try:
        return None if top is None else _directory(f"{top}/.git")
    except GitError:
        return f"{top}/.git"


def _directory(link: str) -> str:
    """Return a `.git` directory, or the directory that a `.git` file names."""
    return link if is_there(link, stat.S_IFDIR, stat.S_IFREG) else _target(link)


def _top(root: str) -> str | None:
    """Return the nearest directory with a `.git`; a `.git` in $HOME or / is ignored."""
    directory = root
    while directory not in ("/", "") and not paths.is_home(directory):
        if os.path.lexists(f"{directory}/.git"):
            return directory
        directory = directory.rpartition("/")[0]
    return None


def _target(link: str) -> str:
    """Return the directory that a `.git` file names."""
    text = small_text(link)
    if not text.startswith("gitdir:"):
        raise refusal(f"{link} names no directory")
    target = _resolved(os.path.dirname(link), text.removeprefix("gitdir:").strip())
    if not os.path.isdir(target):
        raise refusal(f"{link} leads to a directory that is not there")
    return target


def _common(directory: str) -> str:
    """Return the directory that the work trees of a repository share."""
    named = small_text(f"{directory}/commondir").strip()
    common = _resolved(directory, named) if named else directory
    if named and os.path.dirname(directory) != f"{common}/worktrees":
        raise refusal(f"{directory}/commondir does not lead to the repository of this work tree")
    return common


def _path_in_file(file: str) -> str:
    """Return the path in a file, resolved except for its last component, which may be a link."""
    named = os.path.join(os.path.dirname(file), small_text(file).strip())
    return os.path.join(os.path.realpath(os.path.dirname(named)), os.path.basename(named))


def _resolved(directory: str, named: str) -> str:
    if "\0" in named:
        raise refusal(f"{directory} names a path with a NUL byte")
    path = os.path.realpath(os.path.join(directory, named))
    if not mounts.answers(path):
        raise _silent(directory)
    return path


def _silent(path: str) -> GitError:
    return GitError(f"a disk that {path} needs does not answer", late=True)


def _settings(directory: str, common: str) -> Values:
    """Return the configuration of a repository, with that of the work tree if it is enabled."""
    found = _parsed(f"{common}/config")
    if git_config.boolean(last(found, "extensions.worktreeconfig")) == "true":
        return found | _parsed(f"{directory}/config.worktree")
    return found


def _parsed(path: str) -> Values:
    try:
        return git_config.parse(_read(path, CONFIG_MAX_BYTES))
    except git_config.GitConfigError as problem:
        raise refusal(f"{path}: {problem}") from None


def _require_known_format(common: str, settings: Values) -> None:
    """Refuse an unknown format: our configuration would describe it wrongly to git."""
    version = last(settings, "core.repositoryformatversion", "0")
    for name in (name for name in settings if name.startswith("extensions.")):
        allowed = _EXTENSIONS.get(name, ())
        if allowed is not None and last(settings, name).lower() not in allowed:
            version = ""
    if version not in ("0", "1"):
        raise refusal(f"{common} has a format or an extension that is not supported")


def is_there(path: str, *kinds: int) -> bool:
    """Return True if a path is of the first of these kinds; refuse a path of none of them.

    A missing path is False.
    """
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except OSError as problem:
        if problem.errno in _ABSENT:
            return False
        raise refusal(f"{path} cannot be read: {problem.strerror}") from None
    if kind not in kinds:
        raise refusal(f"{path} is a symlink, or of another unexpected kind")
    return kind == kinds[0]


def small_text(path: str) -> str:
    """Return the text of a small file, or an empty text if it does not exist."""
    data = _read(path, SMALL_BYTES)
    if b"\0" in data:  # no path holds one, and calls of the system would raise a ValueError
        raise refusal(f"{path} holds a NUL byte")
    return data.decode("utf-8", "surrogateescape")


def _read(path: str, limit: int) -> bytes:
    """Return the bytes of a regular file, or none if it does not exist; never wait for a pipe."""
    if not is_there(path, stat.S_IFREG):
        return b""
    try:
        handle = os.open(path, _FLAGS)
    except OSError as problem:
        raise refusal(f"{path} cannot be read: {problem.strerror}") from None
    try:
        with open(handle, "rb") as stream:
            data = stream.read(limit + 1)
    except OSError as problem:
        raise refusal(f"{path} cannot be read: {problem.strerror}") from None
    if len(data) > limit:
        raise refusal(f"{path} has more than {limit} bytes")
    return data


def head(directory: str) -> HeadFile:
    """Return the branch or the commit that the HEAD in a directory names."""
    found = _HEAD.fullmatch(small_text(f"{directory}/HEAD"))
    if found is None:
        raise refusal(f"{directory}/HEAD names neither a branch nor a commit")
    return HeadFile(found["name"] or "", found["commit"] or "")


def worktrees(repository: Repository) -> list[Worktree]:
    """Return the work trees of a repository that lead back to it, the main one first."""
    common, found = repository.common, []
    linked = common != repository.directory
    main = os.path.dirname(common) if linked else repository.top
    if not linked or (f"{main}/.git" == common and not _is_bare(repository.settings)):
        found.append(Worktree(main, head(common).branch, common))
    try:
        names = sorted(os.listdir(f"{common}/worktrees"))[:WORKTREES_MAX]
    except OSError:
        names = []
    for name in names:
        directory = f"{common}/worktrees/{name}"
        try:
            link = _path_in_file(f"{directory}/gitdir")
            if _target(link) == directory:
                found.append(Worktree(os.path.dirname(link), head(directory).branch, directory))
        except GitError:
            continue  # the work tree was moved, or deleted by hand
    return found


def _is_bare(settings: Values) -> bool:
    return git_config.boolean(last(settings, "core.bare")) == "true"
