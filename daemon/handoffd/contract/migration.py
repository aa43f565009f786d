"""Migrates every v1 directory from the contract's first encoding to the second, in place.

The plan is made from the disk alone, and each step can be repeated: a second run finishes an
interrupted first one. No file is ever replaced, and every file keeps its time.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from shlex import quote

from handoff.common.errors import EXIT_FAILED, HandoffError
from handoffd.contract.contract_format import written_path
from handoffd.contract.handoff_directory import LOCK_NAME, NOT_HANDOFFS
from handoffd.contract.path_encoding import encode, is_v1
from handoffd.fs import files

# Names the directory under way: between its rename and the link nothing else has the old name.
JOURNAL = ".handoffd-migration"
WAIT_SECONDS = 10.0
_JOURNAL_MAX_BYTES = 4096
_TRIES = 5
_NAMED_MAX = 3
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_AGAIN = "run `handoff migrate` again; nothing is lost"
_SAID = {
    "rename": ("Renamed", "Would rename", "{source} to {target}."),
    "move": ("Moved", "Would move", "{source} to {target}."),
    "drop": ("Removed", "Would remove", "{source}: {target} is the same."),
    "clean": ("Removed", "Would remove", "{source}: a leftover of ours."),
    "link": ("Linked", "Would link", "{source} to {target}."),
    "keep": ("Left", "Would leave", "{source} where it is: it is no handoff."),
}


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One step, with names relative to the directory of all handoffs."""

    action: str
    source: str
    target: str = ""


@dataclass(slots=True)
class Report:
    """The steps that were done, or would be done, and the problems."""

    base: str
    dry_run: bool
    steps: list[MigrationStep] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)

    def add_problem(self, name: str, problem: OSError | HandoffError) -> None:
        if isinstance(problem, HandoffError):
            text, remedy = problem.title, problem.hint
        else:
            text = f"{written_path(name)}: {problem.strerror}."
            path = written_path(f"{self.base}/{name}")
            mend = f"Make {path} yours and writable" if problem.errno in _REFUSED else "Mend that"
            remedy = f"{mend}, and {_AGAIN}."
        self.problems.append({"text": text, "remedy": remedy})


def run(base: str, *, dry_run: bool, as_json: bool) -> tuple[int, str]:
    """Migrate, and return the exit code with the text to print."""
    report = plan(base) if dry_run else migrate(base)
    code = EXIT_FAILED if report.problems else 0
    if as_json:
        return code, json.dumps({**asdict(report), "exit": code}, indent=2) + "\n"
    return code, _render(report)


def _render(report: Report) -> str:
    lines = [_sentence(step, dry_run=report.dry_run) for step in report.steps]
    for problem in report.problems:
        lines += [f"Not migrated: {problem['text']}", f"  -> {problem['remedy']}"]
    return "".join(f"{line}\n" for line in lines or ["Nothing to migrate."])


def _sentence(step: MigrationStep, *, dry_run: bool) -> str:
    done, planned, rest = _SAID[step.action]
    said = rest.format(source=written_path(step.source), target=written_path(step.target))
    return f"{planned if dry_run else done} {said}"


# Planning


def plan(base: str) -> Report:
    """Return the steps of a migration, and change nothing."""
    report = Report(base, dry_run=True)
    view: _View = {}
    for name in pending(base):
        try:
            report.steps += _directory_steps(base, name, view)
        except (OSError, HandoffError) as problem:
            report.add_problem(name, problem)
    return report


def pending(base: str) -> list[str]:
    """Return the names of the v1 directories, first the one whose migration was interrupted."""
    found = sorted(name for name, status in _entries(base) if stat.S_ISDIR(status.st_mode))
    begun = _read_journal(base)
    return list(dict.fromkeys([begun, *found] if begun else found))


def _entries(base: str) -> list[tuple[str, os.stat_result]]:
    """Return every entry with a v1 name."""
    try:
        names = filter(is_v1, os.listdir(base))
        found = [(name, _status(f"{base}/{name}")) for name in names]
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise HandoffError(
            f"{base} cannot be read: {problem.strerror}.",
            "Mend that, or name another place: [contract] directory.",
        ) from None
    return [(name, status) for name, status in found if status is not None]


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


# The future content of each v2 directory: the names in it, and the present path of each file.
_View = dict[str, dict[str, str]]


def _directory_steps(base: str, old: str, view: _View) -> list[MigrationStep]:
    """Return the steps for one directory."""
    new = encode(old)
    there = view[new] if new in view else _contents(base, new)
    if _status(f"{base}/{old}") is None:
        return [] if there is None else [MigrationStep("link", old, new)]
    if os.path.islink(f"{base}/{old}"):
        return []
    names = sorted(os.listdir(f"{base}/{old}"))
    if there is None:
        view[new] = {name: f"{old}/{name}" for name in names}
        steps = [MigrationStep("clean", f"{old}/{name}") for name in names if _is_ours(name)]
        return [*steps, MigrationStep("rename", old, new), MigrationStep("link", old, new)]
    view[new] = there
    steps = [_file_step(base, f"{old}/{name}", new, there) for name in names]
    if not any(step.action == "keep" for step in steps):
        steps.append(MigrationStep("link", old, new))
    return steps


def _contents(base: str, new: str) -> dict[str, str] | None:
    status = _status(f"{base}/{new}")
    if status is None:
        return None
    if not stat.S_ISDIR(status.st_mode):
        path = written_path(f"{base}/{new}")
        raise HandoffError(
            f"{path} is a symlink or no directory; nothing was moved there.",
            f"Move it aside, and {_AGAIN}.",
        )
    return {name: f"{new}/{name}" for name in os.listdir(f"{base}/{new}")}


def _is_ours(name: str) -> bool:
    return name == LOCK_NAME or name.endswith(files.TEMPORARY_SUFFIX)


def _file_step(base: str, source: str, new: str, there: dict[str, str]) -> MigrationStep:
    """Return the step for one file: move it, under a longer name if needed, drop it or keep it."""
    name = os.path.basename(source)
    if _is_ours(name):
        return MigrationStep("clean", source)
    status = _status(f"{base}/{source}")
    is_file = status is not None and stat.S_ISREG(status.st_mode)
    if not is_file or not name.endswith(".md") or name.startswith("."):
        return MigrationStep("keep", source)
    for candidate in _candidate_names(name):
        if candidate not in there:
            there[candidate] = source
            return MigrationStep("move", source, f"{new}/{candidate}")
        if _is_copy(base, source, there[candidate]):
            return MigrationStep("drop", source, f"{new}/{candidate}")
    return MigrationStep("keep", source)


def _candidate_names(name: str) -> Iterator[str]:
    """Yield a name, then longer ones. An index has no longer one: it would look like a handoff."""
    yield name
    if name.lower() in NOT_HANDOFFS:
        return
    stem = name.removesuffix(".md")
    number = 1
    while True:
        number += 1
        yield f"{stem}-{number}.md"


def _is_copy(base: str, one: str, two: str) -> bool:
    (first, name), (second, other) = os.path.split(one), os.path.split(two)
    try:
        with files.directory(base, first) as source, files.directory(base, second) as target:
            return files.is_copy(source, name, target, other)
    except (FileNotFoundError, HandoffError):
        return False


# Carrying out


def migrate(base: str) -> Report:
    """Migrate every v1 directory. A failure is reported, and the others go on."""
    report = Report(base, dry_run=False)
    if not pending(base):
        return report
    try:
        with (
            files.directory(base) as handle,
            files.locked(handle, LOCK_NAME, WAIT_SECONDS),
        ):
            for name in pending(base):
                try:
                    _migrate_one(base, handle, name, report.steps)
                except (OSError, HandoffError) as problem:
                    report.add_problem(name, problem)
                    if _status(f"{base}/{name}") is None:
                        # Only the journal has its name, and the next directory would replace it.
                        break
    except OSError as problem:
        raise HandoffError(
            f"Cannot change {base}: {problem.strerror}.", f"Make it writable, and {_AGAIN}."
        ) from None
    return report


def _migrate_one(base: str, handle: int, old: str, done: list[MigrationStep]) -> None:
    for _ in range(_TRIES):
        steps = _directory_steps(base, old, {})
        kept = [step for step in steps if step.action == "keep"]
        if all(_do_step(base, handle, step, done) for step in steps if step not in kept):
            done += kept
            if _read_journal(base) == old:
                files.remove(handle, JOURNAL)
            return
    raise HandoffError(f"{written_path(old)} keeps changing under us.", f"Wait, and {_AGAIN}.")


def _do_step(base: str, handle: int, step: MigrationStep, done: list[MigrationStep]) -> bool:
    """Do one step. Return False if the disk has changed since the plan was made."""
    if step.action == "rename":
        _write_journal(handle, step.source)
        fits = files.move_directory(handle, step.source, step.target)
    elif step.action == "link":
        _write_journal(handle, step.source)
        fits = files.remove_directory(handle, step.source)
        fits = fits and files.link_once(handle, step.source, step.target)
    else:
        fits = _do_file_step(base, step)
    if fits:
        done.append(step)
    return fits


def _do_file_step(base: str, step: MigrationStep) -> bool:
    directory, name = os.path.split(step.source)
    if step.action == "clean":
        with files.directory(base, directory) as source:
            files.remove(source, name)
        return True
    new, other = os.path.split(step.target)
    with (
        files.directory(base, directory) as source,
        files.directory(base, new) as target,
        files.locked(target, LOCK_NAME, WAIT_SECONDS),
    ):
        act = files.move if step.action == "move" else files.drop_copy
        return act(source, name, target, other)


def _write_journal(handle: int, old: str) -> None:
    files.write(handle, JOURNAL, os.fsencode(old))


def _read_journal(base: str) -> str:
    """Return the directory at which a migration was interrupted, if any."""
    try:
        with files.directory(base) as handle:
            found = files.read(handle, JOURNAL, _JOURNAL_MAX_BYTES)
    except (OSError, HandoffError):
        return ""
    name = os.fsdecode(found[0]) if found else ""
    return name if is_v1(name) and "\0" not in name else ""


# Findings for `handoff doctor`


def findings(base: str) -> list[dict[str, str]]:
    """Return the directories to migrate, and whether the links for old readers are right."""
    found: list[dict[str, str]] = []
    report = plan(base)
    acting = {step.source.split("/")[0] for step in report.steps if step.action != "keep"}
    idle = {step.source.split("/")[0] for step in report.steps} - acting
    if acting:
        text = f"handoff directories with names of the contract's first version: {_names(acting)}"
        _add(found, "note", text, "Run: handoff migrate")
    if idle:
        text = f"first-version directories that hold no handoffs, but other things: {_names(idle)}"
        _add(found, "note", text, f"Look through them in {base}; when empty: handoff migrate")
    for problem in report.problems:
        _add(found, "note", problem["text"], problem["remedy"])
    return found + _link_findings(base)


def _link_findings(base: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    links = sorted(name for name, status in _entries(base) if stat.S_ISLNK(status.st_mode))
    wrong = [name for name in links if not _is_right_link(base, name)]
    if len(links) > len(wrong):
        text = f"links for readers with the contract's first encoding: {len(links) - len(wrong)}"
        _add(found, "ok", text, "")
    for name in wrong:
        path, new = quote(f"{base}/{name}"), encode(name)
        remedy = f"Remove it: rm {path}"
        if os.path.isdir(f"{base}/{new}"):
            remedy = f"Make it anew: ln -sfn -- {new} {path}"
        text = f"the link {written_path(name)} does not lead to {new}"
        _add(found, "note", text, written_path(remedy))
    return found


def _is_right_link(base: str, name: str) -> bool:
    right = f"{base}/{encode(name)}"
    return os.path.isdir(right) and os.path.realpath(f"{base}/{name}") == right


def _names(names: set[str]) -> str:
    shown = sorted(map(written_path, names))
    more = f" and {len(shown) - _NAMED_MAX} more" if len(shown) > _NAMED_MAX else ""
    return ", ".join(shown[:_NAMED_MAX]) + more


def _add(found: list[dict[str, str]], level: str, text: str, remedy: str) -> None:
    found.append({"level": level, "text": text, "remedy": remedy})
