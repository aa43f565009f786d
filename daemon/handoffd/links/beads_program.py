"""The program of Beads: which one is run, what it can do, and in which surroundings.

It is run in `/` with the directory named by BEADS_DIR, so that the git it starts never reads a
repository's own configuration, and with nothing of our environment but what it needs.
"""

import json
import os
import re
import threading
from typing import Any, NamedTuple

from handoffd import clock
from handoffd.links import program
from handoffd.links.beads_directory import Directory

TIMEOUT_SECONDS = 5.0
OUTPUT_MAX_BYTES = 16 << 20
NAMES = ("bd", "br")
# A service's PATH is short, and these are where people have it.
_PLACES = ("~/.local/bin", "~/go/bin", "/usr/local/bin", "/opt/homebrew/bin", "/usr/bin", "/bin")
_KEPT = ("HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_SURROUNDINGS = {
    "BEADS_ACTOR": "handoffd",
    "BD_ACTOR": "handoffd",
    # No daemon, no database server and no network: neither started nor spoken to elsewhere.
    "BEADS_NO_DAEMON": "1",
    "BD_NO_DAEMON": "true",
    "BEADS_AUTO_START_DAEMON": "false",
    "BEADS_DOLT_AUTO_START": "0",
    "BEADS_DOLT_SERVER_HOST": "127.0.0.1",
    "BD_DOLT_AUTO_PUSH": "false",
    "DOLT_METRICS_DISABLED": "1",  # Dolt tells its makers once a day that it was run
    # No program of the repository, no copy of the issues as a side effect.
    "BD_NO_HOOKS": "true",
    "BD_GIT_HOOK": "1",
    "BD_BACKUP_ENABLED": "false",
    "BD_EXPORT_AUTO": "false",
    "BD_NO_DB": "false",
    "BD_NON_INTERACTIVE": "1",
    "BD_NO_PAGER": "1",
    "PAGER": "cat",
    "NO_COLOR": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
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


class Features(NamedTuple):
    """What a program can do, as it says itself."""

    version: tuple[int, ...]
    appends: bool

    @property
    def is_classic(self) -> bool:
        """The line that keeps its issues in SQLite, before 0.50; `br` is of it, too."""
        return self.version < (0, 50)

    @property
    def can_leave_out_hooks(self) -> bool:
        return self.version >= (1, 0, 5)


def find(command: str, project: str) -> str:
    """Return the path of the program; one that lies inside the project is never taken."""
    if command and "/" in os.path.expanduser(command):
        path = os.path.expanduser(command)
        if os.path.isabs(path) and os.access(path, os.X_OK):
            return path
        raise BeadsError(f"{command} is no program with an absolute path", missing=True)
    names = (command,) if command else NAMES
    for name in names:
        for place in _places(project):
            path = os.path.join(place, name)
            if os.access(path, os.X_OK) and os.path.isfile(path) and not _inside(path, project):
                return path
    raise BeadsError(f"there is no {' or '.join(names)} here", missing=True)


def features(path: str, project: str) -> Features:
    """Return what a program can do; it is asked once, until another one takes its place."""
    try:
        found = os.stat(path)
    except OSError as problem:
        raise BeadsError(f"{path}: {problem.strerror}", missing=True) from None
    key = (path, found.st_mtime_ns, found.st_size)
    with one_at_a_time:
        if key not in _known:
            environment = _environment(project)
            version = _run([path, "version", "--json"], environment)
            usage = _run([path, "update", "--help"], environment)
            words = usage.output + usage.complaint
            if b"--notes" not in words:
                raise BeadsError(f"{path} does not say what it can do")
            _known[key] = Features(_version(version.output), b"--append-notes" in words)
        return _known[key]


def ask(path: str, directory: Directory, arguments: list[str], *, writing: bool = False) -> Any:
    """Run the program on a directory and return what it says in JSON, out of its envelope."""
    project = os.path.dirname(directory.path)
    environment = {**_environment(project), "BEADS_DIR": directory.path}
    # A project's own settings could name another database; the flag goes before them.
    database = ["--db", directory.sqlite] if features(path, project).is_classic else []
    if not writing:
        environment |= _READING
    with one_at_a_time:
        said = _run([path, *database, *arguments, "--json"], environment)
    name = f"{os.path.basename(path)} {arguments[0]}"
    if not said.whole:
        raise BeadsError(f"{name} said more than {OUTPUT_MAX_BYTES >> 20} MiB")
    found = _payload(said.output)
    if found is None or (isinstance(found, dict) and "error" in found):
        raise _failure(name, said, found)
    return found


def _run(words: list[str], environment: dict[str, str]) -> program.Said:
    deadline = clock.monotonic() + TIMEOUT_SECONDS
    try:
        return program.run(words, deadline, environment, most_bytes=OUTPUT_MAX_BYTES, cwd="/")
    except program.ProgramError as problem:
        if problem.late:
            text = f"{words[0]} gave no answer within {TIMEOUT_SECONDS:g} s"
            raise BeadsError(text, late=True) from None
        raise BeadsError(f"{words[0]} cannot be run: {problem}", missing=problem.missing) from None


def _environment(project: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "PATH": ":".join(_places(project)), **_SURROUNDINGS}


def _places(project: str) -> list[str]:
    """Return the directories in which programs are looked for: absolute, outside the project."""
    given = os.environ.get("PATH", "").split(":")
    places = dict.fromkeys(os.path.expanduser(place) for place in (*given, *_PLACES))
    return [place for place in places if os.path.isabs(place) and not _inside(place, project)]


def _inside(path: str, project: str) -> bool:
    return f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(project)}/")


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


def _failure(name: str, said: program.Said, found: Any) -> BeadsError:
    """Say why there was no answer, in the program's own words where it has some."""
    words = str(found["error"]) if found else ""
    words += "\n" + said.complaint.decode("utf-8", "replace")
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    absent = any(re.search(r"(?i)no issues? found|issue \S+ not found", line) for line in lines)
    told = next((line for line in lines if "rror" in line), lines[0] if lines else "no answer")
    behind = "out of sync with JSONL" in words or "import failed" in words
    return BeadsError(f"{name}: {told[:300]}", final=absent, behind=behind)
