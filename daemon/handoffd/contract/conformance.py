"""Checks a directory of handoffs against the contract, point by point. Changes nothing."""

import codecs
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from handoff.common.errors import EXIT_FAILED, HandoffError
from handoffd.contract.contract_format import escalation_reasons, parse, written_path
from handoffd.contract.handoff_directory import READ_MAX_BYTES, is_handoff
from handoffd.contract.path_encoding import encode, is_v1
from handoffd.fs import files
from handoffd.session.text import MASK, keep

METADATA_LINES = 5
REASON_MAX = 120
_TITLE = re.compile(r"# Handoff — \d{4}-\d{2}-\d{2}")
_SECTION = re.compile(r"(?m)^#{2,3}[ \t]+\S")
# An escalation that `grep` does not find: other spaces, underscores, a line break.
_NEARLY = re.compile(r"(?i)human[\s_*-]{1,3}review[\s_*-]{1,3}needed")


@dataclass(frozen=True, slots=True)
class Break:
    """A violation and its file; "" is the directory itself."""

    file: str
    text: str


@dataclass(slots=True)
class Point:
    """A stable point of the contract."""

    name: str
    breaks: list[Break]
    says: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Checked:
    """The result of the check of one project's directory."""

    directory: str
    handoffs: int
    points: list[Point]

    @property
    def holds(self) -> bool:
        return not any(point.breaks for point in self.points)


@dataclass(frozen=True, slots=True)
class _File:
    """One handoff, as far as it could be read."""

    name: str
    mtime_ns: int
    text: str = ""
    problem: str = ""
    is_utf8: bool = True

    @property
    def order(self) -> tuple[int, str, str]:
        return self.mtime_ns, parse(self.text).date, self.name


def run(directory: str, *, as_json: bool) -> tuple[int, str]:
    """Check, and return the exit code with the text to print."""
    found = [check(path) for path in projects(os.path.realpath(directory))]
    code = 0 if all(checked.holds for checked in found) else EXIT_FAILED
    if as_json:
        data = [{**asdict(checked), "holds": checked.holds} for checked in found]
        return code, json.dumps({"directories": data, "exit": code}, indent=2) + "\n"
    holding = sum(checked.holds for checked in found)
    total = [f"{holding} of {len(found)} directories hold."] if len(found) > 1 else []
    lines = [line for checked in found for line in _lines(checked)]
    return code, "".join(f"{line}\n" for line in [*lines, *total])


def projects(directory: str) -> list[str]:
    """Return the directory itself, or its project directories if it holds those of all projects."""
    names = _listed(directory)
    below = [
        f"{directory}/{name}"
        for name in names
        if name.startswith("-") and _kind(f"{directory}/{name}") == stat.S_IFDIR
    ]
    is_one = os.path.basename(directory).startswith("-")
    return [directory] if is_one or not below else below


def check(directory: str) -> Checked:
    """Check one project's directory."""
    visible = [name for name in _listed(directory) if not name.startswith(".")]
    regular = [name for name in visible if _kind(f"{directory}/{name}") == stat.S_IFREG]
    found = [_read(directory, name) for name in regular if is_handoff(name)]
    readable = [file for file in found if not file.problem]
    points = [
        Point("location", [*_name_breaks(directory), *_cwd_breaks(directory, readable)]),
        _discovery(directory, visible, regular, found),
        Point("metadata", [broken for file in readable for broken in _metadata_breaks(file)]),
        _escalation(readable),
        Point("format", [broken for file in found for broken in _format_breaks(file)]),
    ]
    return Checked(directory, len(found), points)


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError as problem:
        raise HandoffError(
            f"{written_path(directory)} cannot be read: {problem.strerror}.",
            "Name a directory of handoffs, such as ~/.claude/handoffs.",
        ) from None


def _kind(path: str) -> int:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def _read(directory: str, name: str) -> _File:
    try:
        with files.directory(directory) as handle:
            found = files.read(handle, name, READ_MAX_BYTES, cut=True)
    except OSError as problem:
        return _File(name, _mtime(f"{directory}/{name}"), problem=problem.strerror or "unreadable")
    except HandoffError as problem:
        return _File(name, 0, problem=problem.title)
    if found is None:
        return _File(name, 0, problem="it is gone")
    data, status = found
    text = data.decode("utf-8", "replace")
    return _File(name, status.st_mtime_ns, text, is_utf8=_is_utf8(data))


def _is_utf8(data: bytes) -> bool:
    # The limit may have cut the last character in two.
    is_whole = len(data) < READ_MAX_BYTES
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, is_whole)
    except UnicodeDecodeError:
        return False
    return True


def _mtime(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


# The points


def _name_breaks(directory: str) -> list[Break]:
    name = os.path.basename(directory)
    if is_v1(name):
        text = "the directory has the name of the contract's first version: run `handoff migrate`"
        return [Break("", text)]
    if not name.startswith("-") or encode(name) != name:
        return [Break("", "the directory's name encodes no path")]
    return []


def _cwd_breaks(directory: str, found: list[_File]) -> list[Break]:
    name = os.path.basename(directory)
    stated = [(file.name, parse(file.text).cwd) for file in found]
    return [
        Break(file, f"`cwd: {keep(cwd, REASON_MAX)}` belongs to {_names_of(cwd)[-1]}")
        for file, cwd in stated
        if cwd and MASK not in cwd and name not in _names_of(cwd)
    ]


def _names_of(cwd: str) -> list[str]:
    """Return the names a `cwd:` line may stand for: control characters are written as escapes."""
    names = [encode(cwd)]
    if "\\" in cwd:
        try:
            names.append(encode(json.loads(f'"{cwd}"')))
        except ValueError:
            return names
    return names


def _discovery(directory: str, visible: list[str], regular: list[str], found: list[_File]) -> Point:
    breaks = [
        Break(name, "visible, but no `.md` file") for name in regular if not name.endswith(".md")
    ]
    breaks += [Break(name, "no regular file") for name in visible if name not in regular]
    breaks += [Break(name, "a name that is no line") for name in visible if not name.isprintable()]
    if not found:
        return Point("discovery", breaks, ["no handoff"])
    newest = max(found, key=lambda file: file.order)
    says = [f"the newest is {written_path(newest.name)}"]
    tied = sum(file.mtime_ns == newest.mtime_ns for file in found)
    if tied > 1:
        says.append(f"{tied} have its time: the later date wins, then the name")
    indexes = [name for name in regular if name.endswith(".md") and not is_handoff(name)]
    breaks += [
        Break(name, "no handoff, but newer: `ls -t` finds it first")
        for name in indexes
        if _mtime(f"{directory}/{name}") > newest.mtime_ns
    ]
    return Point("discovery", breaks, says)


def _metadata_breaks(file: _File) -> Iterator[Break]:
    head = [line.rstrip("\r") for line in file.text.split("\n", METADATA_LINES)[:METADATA_LINES]]
    where = f"in the first {METADATA_LINES} lines"
    if not any(_TITLE.match(line) for line in head):
        yield Break(file.name, f"no `# Handoff — YYYY-MM-DD` {where}")
    if not any(line.startswith("session_id:") for line in head):
        yield Break(file.name, f"no `session_id:` {where}")
    purposes = [line[8:].strip() for line in head if line.startswith("purpose:")]
    if not any(purposes):
        yield Break(file.name, "`purpose:` is blank" if purposes else f"no `purpose:` {where}")


def _escalation(found: list[_File]) -> Point:
    point = Point("escalation", [])
    for file in found:
        reasons = escalation_reasons(file.text)
        if reasons:
            said = "; ".join(filter(None, reasons))
            text = f"{written_path(file.name)} calls for a person"
            point.says.append(f"{text}: {keep(said, REASON_MAX)}" if said else text)
        elif _NEARLY.search(file.text):
            text = "calls for a person in a way that `grep` does not find"
            point.breaks.append(Break(file.name, text))
    return point


def _format_breaks(file: _File) -> Iterator[Break]:
    if file.problem:
        yield Break(file.name, f"cannot be read: {file.problem}")
    elif not file.text.strip():
        yield Break(file.name, "empty")
    else:
        if not file.is_utf8:
            yield Break(file.name, "not UTF-8")
        if "\0" in file.text:
            yield Break(file.name, "holds NUL bytes")
        if not _SECTION.search(file.text.replace("\r", "\n")):
            yield Break(file.name, "no section (`## …`)")


def _lines(checked: Checked) -> Iterator[str]:
    yield f"{written_path(checked.directory)} (handoffs: {checked.handoffs})"
    for point in checked.points:
        mark = "BAD " if point.breaks else "ok  "
        said = ", ".join(point.says)
        yield f"  {mark} {point.name}{f': {said}' if said else ''}"
        for broken in point.breaks:
            where = f"{written_path(broken.file)}: " if broken.file else ""
            yield f"         {where}{broken.text}"
