"""The program of Beads: its path, its features, and the environment in which it is run.

A repository is not trusted, and its .beads may hold hooks, settings, routes, variables and a
database with triggers and events, which Dolt runs even if issues are only listed. So the program
gets a temporary .beads per call, with the project's database and none of its settings. It also gets
a temporary HOME, and only the environment variables that it needs. The kernel confines the program
and its children to that database: they cannot write other files and have no network.
"""

import glob
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from handoff.common import programs
from handoffd.links import confinement, program
from handoffd.links.beads_directory import BeadsDirectory
from handoffd.links.tracker import TrackerError
from handoffd.redaction.redact import redact
from handoffd.runtime import clock

TIMEOUT_SECONDS = 5.0
OUTPUT_MAX_BYTES = 16 << 20
_PREFIX = "handoffd-bd-"
NAMES = ("bd", "br")
# The PATH of a service is short; users install the program in these directories.
_PLACES = ("~/.local/bin", "~/go/bin", "/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")
_PASSED_ON = ("USER", "LOGNAME", "TZ", "LANG")
_ENVIRONMENT = {
    "BEADS_ACTOR": "handoffd",
    "BD_ACTOR": "handoffd",
    # No daemon, no database server and no network: it would try them in vain, and lose time.
    "BEADS_NO_DAEMON": "1",
    "BD_NO_DAEMON": "true",
    "BEADS_AUTO_START_DAEMON": "false",
    "BEADS_DOLT_AUTO_START": "0",
    "BD_DOLT_AUTO_PUSH": "false",
    "DOLT_METRICS_DISABLED": "1",  # Dolt reports its use to its makers once a day
    # No copy of the issues as a side effect.
    "BD_BACKUP_ENABLED": "false",
    "BD_EXPORT_AUTO": "false",
    "BD_NON_INTERACTIVE": "1",
    "BD_NO_PAGER": "1",
    "NO_COLOR": "1",
}
# A read imports and exports nothing, regardless of the project's own settings.
_READING = {"BD_READONLY": "true", "BD_NO_AUTO_IMPORT": "true", "BD_NO_AUTO_FLUSH": "true"}
# Embedded Dolt allows one writer at a time, so we make one call at a time.
one_at_a_time = threading.RLock()
_features_by_file: dict[tuple[str, int, int], "Features"] = {}


class BeadsError(TrackerError):
    """Beads gave no answer. `late`: too slow; `behind`: issues.jsonl is ahead of the database."""

    def __init__(
        self,
        message: str,
        *,
        missing: bool = False,
        final: bool = False,
        late: bool = False,
        behind: bool = False,
    ) -> None:
        super().__init__(message, missing=missing, final=final)
        self.behind = behind
        self.late = late


class BeadsProgram(NamedTuple):
    """The user's choice of a program: a name or a path, or nothing for bd or br.

    With `confine`, it is run only if the kernel can confine it.
    """

    command: str = ""
    confine: bool = True


class Features(NamedTuple):
    """The version and the features that a program reports."""

    version: tuple[int, ...]
    appends: bool

    @property
    def is_classic(self) -> bool:
        """True for the line with issues in SQLite: `bd` before 0.50, and `br`."""
        return self.version < (0, 50)


def find(wanted: BeadsProgram, project: str) -> str:
    """Return the path of the program; a program inside the project is never used."""
    command = wanted.command
    path = _configured_path(command) if command and "/" in os.path.expanduser(command) else ""
    path = path or _on_path((command,) if command else NAMES, project)
    return _confinable(path) if wanted.confine else path


def _configured_path(command: str) -> str:
    path = os.path.expanduser(command)
    if os.path.isabs(path) and os.access(path, os.X_OK):
        return path
    raise BeadsError(f"{command} is no program with an absolute path", missing=True)


def _on_path(names: tuple[str, ...], project: str) -> str:
    searched = (os.environ.get("PATH", ""), *map(os.path.expanduser, _PLACES))
    places = programs.search_path(":".join(searched)).split(":")
    for name in names:
        for path in (os.path.join(place, name) for place in places):
            if os.access(path, os.X_OK) and os.path.isfile(path) and not _inside(path, project):
                return path
    raise BeadsError(f"there is no {' or '.join(names)} here", missing=True)


def _inside(path: str, project: str) -> bool:
    return f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(project)}/")


def _confinable(path: str) -> str:
    """Return the program, or the binary beside it: npm installs a script that starts bd."""
    problem = confinement.problem()
    if problem:
        raise BeadsError(f"{path} is not run unconfined ([beads] confine): {problem}")
    for candidate in (path, os.path.join(os.path.dirname(os.path.realpath(path)), "bd")):
        with suppress(OSError), open(candidate, "rb") as stream:
            if stream.read(2) != b"#!":
                return candidate
    raise BeadsError(f"{path} is a script, and those are not run confined: name bd itself")


def features(path: str, *, confine: bool) -> Features:
    """Return the features of a program; it is asked once, until its file changes."""
    try:
        found = os.stat(path)
    except OSError as problem:
        raise BeadsError(f"{path}: {problem.strerror}", missing=True) from None
    key = (path, found.st_mtime_ns, found.st_size)
    with one_at_a_time:
        if key not in _features_by_file:
            with _temporary_directory() as place:
                version = _run([path, "version", "--json"], place, {}, "", confine=confine)
                usage = _run([path, "update", "--help"], place, {}, "", confine=confine)
            words = usage.output + usage.complaint
            if b"--notes" not in words:
                raise BeadsError(f"{path} does not say what it can do")
            _features_by_file[key] = Features(_version(version.output), b"--append-notes" in words)
        return _features_by_file[key]


def ask(
    path: str, directory: BeadsDirectory, arguments: list[str], *, writing: bool, confine: bool
) -> Any:
    """Run the program on a directory and return its JSON answer, without the envelope."""
    classic = features(path, confine=confine).is_classic
    data = directory.path if classic else directory.dolt
    with one_at_a_time, _temporary_directory() as place:
        variables = (_write_sqlite if classic else _write_dolt)(place, directory)
        variables |= {} if writing else _READING
        result = _run([path, *arguments, "--json"], place, variables, data, confine=confine)
    name = f"{os.path.basename(path)} {arguments[0]}"
    if not result.whole:
        raise BeadsError(f"{name} said more than {OUTPUT_MAX_BYTES >> 20} MiB")
    found = _payload(result.output)
    if found is None or (isinstance(found, dict) and "error" in found):
        raise _failure(name, result, found)
    return found


@contextmanager
def _temporary_directory() -> Iterator[str]:
    """Create a temporary directory for one call, with a HOME and a .beads in it."""
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as place:
            for name in ("home", ".beads"):
                os.mkdir(os.path.join(place, name), 0o700)
            yield os.path.realpath(place)
    except OSError as problem:
        raise BeadsError(f"no directory for Beads can be made: {problem.strerror}") from None


def remove_leftovers() -> None:
    """Remove the directories of killed calls: they are older than any running call can be."""
    for path in glob.glob(os.path.join(tempfile.gettempdir(), f"{_PREFIX}*")):
        with suppress(OSError):  # it may belong to another user
            if clock.wall() - os.lstat(path).st_mtime > 10 * TIMEOUT_SECONDS:
                shutil.rmtree(path)


def _write_sqlite(place: str, directory: BeadsDirectory) -> dict[str, str]:
    """Link the database, and issues.jsonl, which the classic line keeps in step with it."""
    os.symlink(directory.sqlite, os.path.join(place, ".beads", "beads.db"))
    with suppress(FileNotFoundError):
        times = os.lstat(directory.lines)
        link = os.path.join(place, ".beads", "issues.jsonl")
        os.symlink(directory.lines, link)
        # Beads compares the time of the link itself with the time of the database.
        os.utime(link, ns=(times.st_atime_ns, times.st_mtime_ns), follow_symlinks=False)
    return {
        "BEADS_JSONL": directory.lines
    }  # Beads replaces this file; without the variable it would replace the link


def _write_dolt(place: str, directory: BeadsDirectory) -> dict[str, str]:
    os.symlink(directory.dolt, os.path.join(place, ".beads", "embeddeddolt"))
    settings = {"backend": "dolt", "dolt_mode": "embedded", "dolt_database": directory.name}
    with open(os.path.join(place, ".beads", "metadata.json"), "w") as stream:
        json.dump({"database": "dolt", **settings}, stream)
    return {}


def _run(
    words: list[str], place: str, variables: dict[str, str], data: str, *, confine: bool
) -> program.ProgramOutput:
    """Run the program in a temporary directory; besides, it can reach only `data`."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    environment = {
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        **_ENVIRONMENT,
        **variables,
        "BEADS_DIR": os.path.join(place, ".beads"),
        "HOME": os.path.join(place, "home"),
        "TMPDIR": place,
        "PATH": place,
        "XDG_CACHE_HOME": cache,
    }
    # The classic line takes a second to compile its database engine, unless it is cached here.
    compiled = os.path.join(cache, "beads", "wasm")
    reach = confinement.Reach(words[0], (compiled,), (place, data)) if confine else None
    deadline = clock.monotonic() + TIMEOUT_SECONDS
    limit = OUTPUT_MAX_BYTES
    try:
        return program.run(words, deadline, environment, most_bytes=limit, cwd="/", reach=reach)
    except program.ProgramError as problem:
        if problem.late:
            text = f"{words[0]} gave no answer within {TIMEOUT_SECONDS:g} s"
            raise BeadsError(text, late=True) from None
        raise BeadsError(f"{words[0]} cannot be run: {problem}", missing=problem.missing) from None


def _version(output: bytes) -> tuple[int, ...]:
    found = _payload(output)
    text = found.get("version") if isinstance(found, dict) else None
    return tuple(int(part) for part in re.findall(r"\d+", str(text or ""))[:3])


def _payload(output: bytes) -> Any:
    """Return the JSON in an output, without its envelope, or None if there is none."""
    text = output.decode("utf-8", "replace").strip()
    if text == "null":  # Go writes an empty list like this
        return []
    begins = re.search(r"^[\[{]", text, re.MULTILINE)
    if not begins:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, begins.start())
    except (ValueError, RecursionError):
        return None
    is_envelope = isinstance(found, dict) and "schema_version" in found and "data" in found
    return found["data"] if is_envelope else found


def _failure(name: str, result: program.ProgramOutput, found: Any) -> BeadsError:
    """Return the error for a call without an answer, in the program's own words if possible."""
    words = redact(str(found["error"]))[0] if found else ""
    words += "\n" + result.complaint.decode("utf-8", "replace")
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    absent = any(re.search(r"(?i)no issues? found|issue \S+ not found", line) for line in lines)
    reason = next((line for line in lines if "rror" in line), lines[0] if lines else "no answer")
    behind = "out of sync with JSONL" in words or "import failed" in words
    return BeadsError(f"{name}: {reason[:300]}", final=absent, behind=behind)
