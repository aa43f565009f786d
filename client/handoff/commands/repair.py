import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from handoff import local, paths, service
from handoff.cli import add_json
from handoff.installing.asking import add_consent, refusal

EXAMPLE = "handoff repair        (what can be saved is shown before it is asked for)"
# What the tables of core.db hold, for a person; all others are kept for us alone.
_NAMES = {
    "handoffs": "threads",
    "handoff_entries": "entries of threads",
    "settings": "values that you set",
    "pauses": "pauses",
    "projects": "projects",
    "triggers": "triggers that fired",
    "outbox": "notes and mails to send",
    "contracts": "handoffs that we wrote",
    "checkpoints": "handoff.yaml as we wrote it",
    "read_marks": "handoffs that were read",
}
_OTHER = "marks of our own"

Data = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Mend core.db and state.db, from all that can still be read of them. What can be saved is "
        "shown first, then asked for. The daemon is stopped for it, and started again if it ran. "
        "The damaged file is kept beside the new one, in the state directory, as "
        "core.db.replaced-TIME or state.db.damaged-TIME. Where a choice is needed and there is no "
        "terminal to ask at, nothing is changed and the exit code is 4; --yes agrees beforehand."
    )
    add_consent(parser)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    code = local.daemon_code()
    found = code.look_at_stores()
    if not (found["core"] or found["state"]) or given.dry_run:
        _print(found, as_json=given.json)
        return 0
    if not given.yes:
        _print(found, as_json=given.json)
        refused = refusal(given, "repair", "Mend it? [Y/n] ")
        if refused is not None:
            return refused
    with _daemon_aside():
        _print(code.mend_stores(), as_json=given.json)
    return 0


@contextlib.contextmanager
def _daemon_aside() -> Iterator[None]:
    """Keep the daemon down, and its socket closed: a question would start it under the repair."""
    listening = service.is_active(service.SOCKET_UNIT)
    if listening:
        service.manage("systemctl", "--user", "stop", service.SOCKET_UNIT)
    pid = None
    try:
        pid = service.stop()
        yield
    finally:
        start = ("systemctl", "--user", "start", service.SOCKET_UNIT)
        # Before the daemon, which would else make a socket of its own.
        if listening and not service.succeeds(*start):
            sys.stderr.write(f"{service.SOCKET_UNIT} is not up again. Run: {' '.join(start)}\n")
        if pid is not None:
            sys.stderr.write(f"handoffd is up again (process {service.start()}).\n")


# Words


def _print(data: Data, *, as_json: bool) -> None:
    if as_json:
        text = json.dumps(data, ensure_ascii=False, indent=2)
    else:
        lines = [*_core_lines(data), *_state_lines(data)]
        text = "\n".join(lines or ["core.db and state.db are whole. There is nothing to mend."])
    print(text, flush=True)


def _core_lines(data: Data) -> list[str]:
    core = data["core"]
    if core is None:
        return []
    lines = [f"core.db: {core['problem']}."]
    if "tables" in core:
        done = "were" if data["done"] else "can be"
        kinds = _by_kind(core["tables"])
        lines[0] += f" {_number(kinds, 'read', 'copied')} of its rows {done} saved; {_loss(core)}."
        width = max(map(len, kinds), default=0)
        lines += [f"  {name:{width}}  {_fate(kind)}" for name, kind in kinds.items()]
        lines += _log_lines(core.get("log"))
        if core["all_paused"]:
            lines.append("What was paused is not known any more, so everything is paused.")
            lines.append("Go on with: handoff unpause")
    if core["kept"]:
        kept = _short(core["kept"])
        lines.append(f"It is mended. The damaged file is kept at {kept}; remove it when you like.")
    return lines


def _by_kind(tables: dict[str, Data]) -> dict[str, Data]:
    """Add up what a person cares for together; of what was not there nothing is said."""
    kinds: dict[str, Data] = {}
    for name, found in tables.items():
        kind = kinds.setdefault(_NAMES.get(name, _OTHER), {"read": 0, "copied": 0, "lost": 0})
        for key in kind:
            kind[key] += found[key] or 0
    return {name: kind for name, kind in kinds.items() if any(kind.values())}


def _number(kinds: dict[str, Data], *keys: str) -> int:
    return sum(kind[key] for kind in kinds.values() for key in keys)


def _loss(core: Data) -> str:
    """Say what is lost: how much of it only where that can be known."""
    lost = _number(_by_kind(core["tables"]), "lost")
    log = core.get("log") or {}
    whole = "nothing is lost"
    if log.get("older_pages") or log.get("unknown_page"):
        whole = "of what was written last, some may be lost"
    told = f"{lost} {'is' if lost == 1 else 'are'} lost" if lost else whole
    if all(found["lost"] is not None for found in core["tables"].values()):
        return told
    told = f"{told} for certain, and" if lost else ""
    if core["copy_at"]:
        since = f"since the daily copy was made ({core['copy_at']})"
        return f"{told} what was new {since} and cannot be read is lost, if there was any".strip()
    return f"{told} nobody can tell how much is lost: there is no daily copy".strip()


def _log_lines(log: Data | None) -> list[str]:
    """Say what could be had of the log, which holds what was written last."""
    if not log or not log["damaged"]:
        return []
    told = f"Of its log {log['taken']} parts could be read, {len(log['damaged'])} not"
    if log["older_pages"] or log["unknown_page"]:
        return [f"{told}: of what was written last, some is as it was before, or is lost."]
    return [f"{told}; nothing is lost by that, since what they held was written again later."]


def _fate(kind: Data) -> str:
    told = {"read": "from the file itself", "copied": "from the daily copy", "lost": "lost"}
    return ", ".join(f"{kind[key]} {words}" for key, words in told.items() if kind[key])


def _state_lines(data: Data) -> list[str]:
    state = data["state"]
    if state is None:
        return []
    moved = f"is moved to {_short(state['moved_to'])}" if data["done"] else "will be moved away"
    return [f"state.db: {state['problem']}. It {moved}, and rebuilt from the transcripts."]


def _short(path: str) -> str:
    home = paths.home()
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
