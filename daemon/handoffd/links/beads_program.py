"""The program of Beads: which one is run, what it can do, and in which surroundings.

A repository is not trusted, and its .beads may hold hooks, settings, routes, variables and a
database with triggers and events, which Dolt runs when issues are only listed. So the program
gets a .beads of ours for each call, with the project's database in it and none of its settings,
a HOME of ours and nothing of our environment but what it needs. The kernel confines it, and all
that it starts, to that database: they write no other file and have no network.
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
from handoffd.redaction.redact import redact
from handoffd.runtime import clock

TIMEOUT_SECONDS = 5.0
OUTPUT_MAX_BYTES = 16 << 20
_PREFIX = "handoffd-bd-"
NAMES = ("bd", "br")
# A service's PATH is short, and these are where people have it.
_PLACES = ("~/.local/bin", "~/go/bin", "/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")
_KEPT = ("USER", "LOGNAME", "TZ", "LANG")
_SURROUNDINGS = {
    "BEADS_ACTOR": "handoffd",
    "BD_ACTOR": "handoffd",
    # No daemon, no database server and no network: it would try in vain, and take its time.
    "BEADS_NO_DAEMON": "1",
    "BD_NO_DAEMON": "true",
    "BEADS_AUTO_START_DAEMON": "false",
    "BEADS_DOLT_AUTO_START": "0",
    "BD_DOLT_AUTO_PUSH": "false",
    "DOLT_METRICS_DISABLED": "1",  # Dolt tells its makers once a day that it was run
    # No copy of the issues as a side effect.
    "BD_BACKUP_ENABLED": "false",
    "BD_EXPORT_AUTO": "false",
    "BD_NON_INTERACTIVE": "1",
    "BD_NO_PAGER": "1",
    "NO_COLOR": "1",
}
# Reading imports and exports nothing, whatever a project's own settings are.
_READING = {"BD_READONLY": "true", "BD_NO_AUTO_IMPORT": "true", "BD_NO_AUTO_FLUSH": "true"}
# Embedded Dolt has one writer at a time, and so have we.
one_at_a_time = threading.RLock()
_known: dict[tuple[str, int, int], "Features"] = {}


class BeadsError(Exception):
    """Beads gave no answer; the message says why.

    `missing` tells that there is no program or no database at all, `final` that asking again
    is of no use, `late` that it took too long, `behind` that the file has more than the database.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: bool = False,
        final: bool = False,
        late: bool = False,
        behind: bool = False,
    ) -> None:
        super().__init__(message)
        self.behind = behind
        self.missing = missing
        self.final = final
        self.late = late


class BeadsProgram(NamedTuple):
    """The user's choice: a name or a path, empty for bd or br, and how it is run.

    With `confine` it is run where the kernel can confine it, and else not at all.
    """

    command: str = ""
    confine: bool = True


class Features(NamedTuple):
    """What a program can do, as it says itself."""

    version: tuple[int, ...]
    appends: bool

    @property
    def is_classic(self) -> bool:
        """The line that keeps its issues in SQLite, before 0.50; `br` is of it, too."""
        return self.version < (0, 50)


def find(wanted: BeadsProgram, project: str) -> str:
    """Return the path of the program; one that lies inside a project is never taken."""
    command = wanted.command
    path = _named(command) if command and "/" in os.path.expanduser(command) else ""
    path = path or _on_path((command,) if command else NAMES, project)
    return _confinable(path) if wanted.confine else path


def _named(command: str) -> str:
    path = os.path.expanduser(command)
    if os.path.isabs(path) and os.access(path, os.X_OK):
        return path
    raise BeadsError(f"{command} is no program with an absolute path", missing=True)


def _on_path(names: tuple[str, ...], project: str) -> str:
    given = (os.environ.get("PATH", ""), *map(os.path.expanduser, _PLACES))
    places = programs.search_path(":".join(given)).split(":")
    for name in names:
        for path in (os.path.join(place, name) for place in places):
            if os.access(path, os.X_OK) and os.path.isfile(path) and not _inside(path, project):
                return path
    raise BeadsError(f"there is no {' or '.join(names)} here", missing=True)


def _inside(path: str, project: str) -> bool:
    return f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(project)}/")


def _confinable(path: str) -> str:
    """Return the program, or the one behind it: npm puts a script in front of bd, beside it."""
    problem = confinement.problem()
    if problem:
        raise BeadsError(f"{path} is not run unconfined ([beads] confine): {problem}")
    for candidate in (path, os.path.join(os.path.dirname(os.path.realpath(path)), "bd")):
        with suppress(OSError), open(candidate, "rb") as stream:
            if stream.read(2) != b"#!":
                return candidate
    raise BeadsError(f"{path} is a script, and those are not run confined: name bd itself")


def features(path: str, *, confine: bool) -> Features:
    """Return what a program can do; it is asked once, until another one takes its place."""
    try:
        found = os.stat(path)
    except OSError as problem:
        raise BeadsError(f"{path}: {problem.strerror}", missing=True) from None
    key = (path, found.st_mtime_ns, found.st_size)
    with one_at_a_time:
        if key not in _known:
            with _place() as place:
                version = _run([path, "version", "--json"], place, {}, "", confine=confine)
                usage = _run([path, "update", "--help"], place, {}, "", confine=confine)
            words = usage.output + usage.complaint
            if b"--notes" not in words:
                raise BeadsError(f"{path} does not say what it can do")
            _known[key] = Features(_version(version.output), b"--append-notes" in words)
        return _known[key]


def ask(
    path: str, directory: BeadsDirectory, arguments: list[str], *, writing: bool, confine: bool
) -> Any:
    """Run the program on a directory and return what it says in JSON, out of its envelope."""
    classic = features(path, confine=confine).is_classic
    data = directory.path if classic else directory.dolt
    with one_at_a_time, _place() as place:
        given = (_write_sqlite if classic else _write_dolt)(place, directory)
        given |= {} if writing else _READING
        said = _run([path, *arguments, "--json"], place, given, data, confine=confine)
    name = f"{os.path.basename(path)} {arguments[0]}"
    if not said.whole:
        raise BeadsError(f"{name} said more than {OUTPUT_MAX_BYTES >> 20} MiB")
    found = _payload(said.output)
    if found is None or (isinstance(found, dict) and "error" in found):
        raise _failure(name, said, found)
    return found


@contextmanager
def _place() -> Iterator[str]:
    """Make a directory of ours for one call, with a HOME and a .beads in it."""
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as place:
            for name in ("home", ".beads"):
                os.mkdir(os.path.join(place, name), 0o700)
            yield os.path.realpath(place)
    except OSError as problem:
        raise BeadsError(f"no directory for Beads can be made: {problem.strerror}") from None


def remove_leftovers() -> None:
    """Remove the directories of calls that were killed: those are older than any call."""
    for path in glob.glob(os.path.join(tempfile.gettempdir(), f"{_PREFIX}*")):
        with suppress(OSError):  # it may be another user's
            if clock.wall() - os.lstat(path).st_mtime > 10 * TIMEOUT_SECONDS:
                shutil.rmtree(path)


def _write_sqlite(place: str, directory: BeadsDirectory) -> dict[str, str]:
    """Link the database, and the file that the classic line keeps in step with it."""
    os.symlink(directory.sqlite, os.path.join(place, ".beads", "beads.db"))
    with suppress(FileNotFoundError):
        times = os.lstat(directory.lines)
        link = os.path.join(place, ".beads", "issues.jsonl")
        os.symlink(directory.lines, link)
        # Whether the file is newer than the database is seen by the time of the link itself.
        os.utime(link, ns=(times.st_atime_ns, times.st_mtime_ns), follow_symlinks=False)
    return {"BEADS_JSONL": directory.lines}  # it replaces the file, and would replace the link


def _write_dolt(place: str, directory: BeadsDirectory) -> dict[str, str]:
    os.symlink(directory.dolt, os.path.join(place, ".beads", "embeddeddolt"))
    settings = {"backend": "dolt", "dolt_mode": "embedded", "dolt_database": directory.name}
    with open(os.path.join(place, ".beads", "metadata.json"), "w") as stream:
        json.dump({"database": "dolt", **settings}, stream)
    return {}


def _run(
    words: list[str], place: str, given: dict[str, str], data: str, *, confine: bool
) -> program.ProgramOutput:
    """Run the program in a place of ours; of all else it reaches the data that it is given."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    environment = {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        **_SURROUNDINGS,
        **given,
        "BEADS_DIR": os.path.join(place, ".beads"),
        "HOME": os.path.join(place, "home"),
        "TMPDIR": place,
        "PATH": place,
        "XDG_CACHE_HOME": cache,
    }
    # The classic line compiles its database engine for a second unless it finds it there.
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
    """Return the JSON in an output, bare or in its envelope; None where there is none."""
    text = output.decode("utf-8", "replace").strip()
    if text == "null":  # Go's way to write a list of nothing
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


def _failure(name: str, said: program.ProgramOutput, found: Any) -> BeadsError:
    """Say why there was no answer, in the program's own words where it has some."""
    words = redact(str(found["error"]))[0] if found else ""
    words += "\n" + said.complaint.decode("utf-8", "replace")
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    absent = any(re.search(r"(?i)no issues? found|issue \S+ not found", line) for line in lines)
    told = next((line for line in lines if "rror" in line), lines[0] if lines else "no answer")
    behind = "out of sync with JSONL" in words or "import failed" in words
    return BeadsError(f"{name}: {told[:300]}", final=absent, behind=behind)
