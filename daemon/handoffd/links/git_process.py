"""The only way to run git: on the data of a repository, with a configuration of our own.

A repository is not trusted, and its configuration can name programs in too many ways to list. So
git never sees that configuration. It works in a small temporary directory, one per call: the
configuration there is ours, HEAD is a copy, and links lead to the references and to other data.
Environment variables name the objects, the index and the work tree. Of the settings of the
repository and of the user, only those listed here are used: each is one of a few words, or a name
that git reads as a name.
"""

import itertools
import os
import re
import shlex
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from handoff.common import paths
from handoff.common.errors import HandoffError
from handoffd.links import git_config, git_discovery, program
from handoffd.links.git_config import Values, last
from handoffd.links.git_discovery import GitError, Repository, is_there, refusal
from handoffd.runtime import clock
from handoffd.runtime.directories import make_private, make_state_dir

TIMEOUT_SECONDS = 2.0
_PLACE = "git"
REASON_MAX = 200
OUTPUT_MAX_BYTES = 8 << 20
USER_SETTINGS_SECONDS = 60.0
SHARED_INDEXES_MAX = 100
# The limit of references and unpacked objects; listing so many takes a tenth of a second.
DATA_FILES_MAX = 200_000
FILTERS_MAX = 50
# Variables of another repository, and those by which a service manager addresses only us.
_NOT_FOR_GIT = ("GIT_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
_OURS = (
    ("core.repositoryformatversion", "1"),
    ("core.bare", "false"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.quotePath", "false"),
    ("core.untrackedCache", "false"),
    ("submodule.recurse", "false"),
)
_BOOLEANS = (
    "core.filemode", "core.ignorecase", "core.precomposeunicode", "core.sparsecheckout",
    "core.sparsecheckoutcone", "core.symlinks", "core.trustctime", "index.sparse",
    "sparse.expectfilesoutsideofpatterns",
)  # fmt: skip
_WORDS = {
    "core.autocrlf": ("true", "false", "input"),
    "core.checkstat": ("default", "minimal"),
    "core.eol": ("lf", "crlf", "native"),
}
# The user's settings may name files of the user; a repository may not name a file.
_USERS_FILES = ("core.attributesfile", "core.excludesfile")
_REMOTE = re.compile(r"[\w.][\w./-]{0,200}")
_BRANCH = re.compile(r"refs/heads/[^\x00-\x20~^:?*\[\\\x7f]{1,200}")
_FETCHED = re.compile(r"\+?(refs/[\w./-]+(?:\*|[\w-])):(refs/[\w./-]+(?:\*|[\w-]))")
_FETCHED_MAX = 20
_FILTER = re.compile(r"filter\.([A-Za-z0-9_-]{1,100})\.(?:clean|process)")
# Files of the whole repository, and files of this work tree.
_COMMON_FILES = ("packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts")
_OWN_FILES = ("info/sparse-checkout",)

_numbers = itertools.count()
_user_settings: dict[tuple[str, str], tuple[float, Values]] = {}


def ask(root: str, deadline: float, *arguments: str, may_be_cut: bool = False) -> bytes:
    """Ask git about the repository of a project."""
    return ask_in(open_repository(root), deadline, *arguments, may_be_cut=may_be_cut)


def open_repository(root: str) -> Repository:
    """Return the repository of a project; raise a GitError if there is none."""
    repository = git_discovery.find(root)
    if repository is None:
        raise GitError(f"{root} is not in a git repository")
    return repository


def ask_in(
    repository: Repository, deadline: float, *arguments: str, may_be_cut: bool = False
) -> bytes:
    """Ask git about a repository; with `may_be_cut`, a truncated answer is accepted."""
    user = _read_user_settings(deadline)
    _require_owner(repository, user)
    try:
        with _private_directory(repository, user) as place:
            variables = _variables(repository, place)
            return _run(deadline, variables, repository.root, *arguments, may_be_cut=may_be_cut)
    except (OSError, HandoffError) as problem:
        raise GitError(f"git cannot be run: {problem}") from None


def filters(repository: Repository, deadline: float) -> list[str]:
    """Return the names of the filters that git would apply; we run none of them."""
    names = (*repository.settings, *_read_user_settings(deadline))
    found = {match[1] for name in names if (match := _FILTER.fullmatch(name))}
    return sorted(found)[:FILTERS_MAX]


def remove_leftovers() -> None:
    """Remove the directories of killed processes."""
    base = _base()
    with suppress(OSError):
        for name in os.listdir(base):
            if not _is_running(name.partition("-")[0]):
                shutil.rmtree(f"{base}/{name}", ignore_errors=True)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _base() -> str:
    return f"{paths.state_dir()}/{_PLACE}"


@contextmanager
def _private_directory(repository: Repository, user: Values) -> Iterator[str]:
    """Create a temporary git directory with links to the data of a repository."""
    head = git_discovery.head(repository.directory)
    links = dict(_links(repository))
    make_private(f"{make_state_dir()}/{_PLACE}")
    place = f"{_base()}/{os.getpid()}-{next(_numbers)}-{time.time_ns()}"
    os.mkdir(place, mode=0o700)
    try:
        os.mkdir(f"{place}/info", mode=0o700)
        for name, target in links.items():
            os.symlink(target, f"{place}/{name}")
        _write(f"{place}/HEAD", f"ref: {head.name}\n" if head.name else f"{head.commit}\n")
        settings = [*_OURS, *_plain(user), *_plain(repository.settings)]
        settings += [(name, last(user, name)) for name in _USERS_FILES if name in user]
        settings += _upstream(repository.settings, head.branch)
        if last(repository.settings, "extensions.objectformat").lower() == "sha256":
            settings.append(("extensions.objectformat", "sha256"))
        _write(f"{place}/config", git_config.formatted(settings))
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)


def _links(repository: Repository) -> Iterator[tuple[str, str]]:
    """Yield the name and path of the data that git reads; refuse symlinks among them."""
    common, own = repository.common, repository.directory
    for name in ("objects", "refs"):
        if not is_there(f"{common}/{name}", stat.S_IFDIR):
            raise refusal(f"there is no {common}/{name}")
    _require_own_data(repository)
    yield "refs", f"{common}/refs"
    is_there(f"{own}/index", stat.S_IFREG)
    for directory in {common, own}:
        is_there(f"{directory}/info", stat.S_IFDIR)
    shared = [name for name in os.listdir(own) if name.startswith("sharedindex.")]
    places = [(name, f"{common}/{name}") for name in _COMMON_FILES]
    places += [(name, f"{own}/{name}") for name in (*_OWN_FILES, *shared[:SHARED_INDEXES_MAX])]
    yield from ((name, place) for name, place in places if is_there(place, stat.S_IFREG))


def _require_own_data(repository: Repository) -> None:
    """Refuse references and objects that lie elsewhere: git would follow every link below them.

    A repository that borrows objects (`git clone --shared`) is refused as well. It need only name
    the id of a commit in another repository to show the subjects and files of that repository.
    """
    common, top = repository.common, shlex.quote(repository.top)
    borrowed = f"{common}/objects/info/alternates"
    places, seen = [f"{common}/objects", f"{common}/refs"], 0
    while places:
        with suppress(FileNotFoundError), os.scandir(places.pop()) as entries:
            for entry in entries:
                seen += 1
                if seen > DATA_FILES_MAX:
                    raise refusal(f"{common} has too many loose files; pack them: git -C {top} gc")
                if entry.is_dir(follow_symlinks=False):
                    places.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise refusal(f"{entry.path} is a symlink, or of another unexpected kind")
    if git_discovery.small_text(borrowed).strip():
        raise refusal(
            f"{common} borrows objects from another repository; to copy them: "
            f"git -C {top} repack -a -d && rm {shlex.quote(borrowed)}"
        )


def _plain(values: Values) -> Iterator[tuple[str, str]]:
    """Yield the settings that are plain data; omit values that git would not accept."""
    for name in _BOOLEANS:
        if name in values and (word := git_config.boolean(last(values, name))):
            yield name, word
    for name, words in _WORDS.items():
        found = last(values, name).lower()
        word = found if found in words else git_config.boolean(found)
        if name in values and word in words:
            yield name, word


def _upstream(values: Values, branch: str) -> Iterator[tuple[str, str]]:
    """Yield the settings that name the remote branch that this branch follows."""
    remote = last(values, f"branch.{branch}.remote")
    followed = last(values, f"branch.{branch}.merge")
    if branch and _REMOTE.fullmatch(remote) and _BRANCH.fullmatch(followed):
        yield f"branch.{branch}.remote", remote
        yield f"branch.{branch}.merge", followed
        for fetched in values.get(f"remote.{remote}.fetch", [])[:_FETCHED_MAX]:
            found = _FETCHED.fullmatch(fetched)
            if found and found[1].endswith("*") == found[2].endswith("*"):
                yield f"remote.{remote}.fetch", fetched


def _require_owner(repository: Repository, user: Values) -> None:
    """Refuse the repository of another user, as git does, unless the user declared it safe."""
    places = (repository.top, f"{repository.top}/.git", repository.directory, repository.common)
    try:
        foreign = any(os.lstat(place).st_uid != os.geteuid() for place in places)
    except OSError as problem:
        raise refusal(f"{repository.top}/.git cannot be read: {problem.strerror}") from None
    if foreign and not _is_safe(repository.top, user.get("safe.directory", [])):
        raise refusal(
            f"{repository.top} belongs to another user; if you trust it: "
            f"git config --global --add safe.directory {shlex.quote(repository.top)}"
        )


def _is_safe(top: str, named: list[str]) -> bool:
    """Return True if `safe.directory` names a directory; an empty value resets the list."""
    safe = False
    for value in named:
        place = os.path.expanduser(value)
        inside = place.endswith("/*") and top.startswith(place[:-1])
        safe = bool(value) and (safe or inside or value == "*" or os.path.realpath(place) == top)
    return safe


def _read_user_settings(deadline: float) -> Values:
    """Return the configuration of the user and the system, as git reads it outside a repository."""
    key = os.environ.get("HOME", ""), os.environ.get("XDG_CONFIG_HOME", "")
    read, values = _user_settings.get(key, (-USER_SETTINGS_SECONDS, {}))
    if clock.monotonic() - read >= USER_SETTINGS_SECONDS:
        environment = {**_environment(), "GIT_DIR": os.devnull}
        output = _run(deadline, environment, "/", "config", "--list", "-z", "--includes")
        values = {}
        for entry in output.decode("utf-8", "surrogateescape").split("\0"):
            name, equals, value = entry.partition("\n")
            values.setdefault(name, []).append(value if equals else "true")
        _user_settings[key] = clock.monotonic(), values
    return values


def _environment() -> dict[str, str]:
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(_NOT_FOR_GIT)},
        # A partial clone would fetch the objects that it lacks.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }


def _variables(repository: Repository, place: str) -> dict[str, str]:
    """Return the environment in which git reads only the data of a repository."""
    return {
        **_environment(),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_DIR": place,
        "GIT_WORK_TREE": repository.top,
        "GIT_INDEX_FILE": f"{repository.directory}/index",
        # This is not a link in our directory, since alternates are relative to the objects.
        "GIT_OBJECT_DIRECTORY": f"{repository.common}/objects",
    }


def _run(
    deadline: float,
    environment: dict[str, str],
    directory: str,
    *arguments: str,
    may_be_cut: bool = False,
) -> bytes:
    words = ["git", "-C", directory, *arguments]
    try:
        result = program.run(words, deadline, environment, most_bytes=OUTPUT_MAX_BYTES)
    except program.ProgramError as problem:
        if problem.late:
            why = f"git took longer than {TIMEOUT_SECONDS:g} s in {directory}"
            raise GitError(why, late=True) from None
        raise GitError(f"git cannot be run: {problem}", missing=problem.missing) from None
    if not result.whole and not may_be_cut:
        raise GitError(f"git {arguments[0]} said more than {OUTPUT_MAX_BYTES} bytes in {directory}")
    if result.code and result.whole:
        raise GitError(f"git {arguments[0]} failed in {directory}{_reason(result.complaint)}")
    return result.output


def _reason(complaint: bytes) -> str:
    """Return git's own error message in parentheses, if it is one printable line."""
    lines = complaint.decode("utf-8", "replace").splitlines()
    found = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
    return f" ({found[:REASON_MAX]})" if found.isprintable() and found else ""
