import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from handoff import local, service
from handoff.cli import add_json
from handoff.common import paths
from handoff.common.plain_text import plain_json
from handoff.setup.questions import add_consent, refusal

EXAMPLE = "handoff repair"

Data = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Mend core.db and state.db, if they are damaged. A daemon that starts does the same by "
        "itself. core.db is made anew of every row that can still be read, and of its hourly copy; "
        "state.db is rebuilt from the transcripts. The daemon is stopped for it, and started again "
        "if it ran. The damaged file is kept in the state directory, as core.db.damaged-TIME or "
        "state.db.damaged-TIME. Where there is no terminal to ask at, nothing is changed and the "
        "exit code is 4; --yes agrees beforehand."
    )
    add_consent(parser)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    code = local.daemon_code("repair")
    found = code.look()
    if not (found["core"] or found["state"]) or given.dry_run:
        _print(found, as_json=given.json)
        return 0
    if not given.yes:
        _print(found, as_json=given.json)
        refused = refusal(given, "repair", "Mend it? [Y/n] ")
        if refused is not None:
            return refused
    with _daemon_stopped():
        _print(code.mend(), as_json=given.json)
    return 0


@contextlib.contextmanager
def _daemon_stopped() -> Iterator[None]:
    """Keep the daemon down and its socket closed: a request would start it during the repair."""
    listening = service.is_active(service.SOCKET_UNIT)
    if listening:
        service.run_or_fail("systemctl", "--user", "stop", service.SOCKET_UNIT)
    pid = None
    try:
        pid = service.stop()
        yield
    finally:
        start = ("systemctl", "--user", "start", service.SOCKET_UNIT)
        # The socket unit comes before the daemon, which would else make a socket of its own.
        if listening and not service.succeeds(*start):
            sys.stderr.write(f"{service.SOCKET_UNIT} is not up again. Run: {' '.join(start)}\n")
        if pid is not None:
            sys.stderr.write(f"handoffd is up again (process {service.start()}).\n")


# Output


def _print(data: Data, *, as_json: bool) -> None:
    lines = [*_core_lines(data), *_state_lines(data)]
    text = "\n".join(lines or ["core.db and state.db are whole. There is nothing to mend."])
    print(plain_json(data) if as_json else text, flush=True)


def _core_lines(data: Data) -> list[str]:
    core = data["core"]
    if core is None:
        return []
    if data["done"]:
        return [core["note"]]
    rest = f"the rest comes from the copy of {core['copy_at']}"
    rest = rest if core["copy_at"] else "there is no copy for the rest"
    return [f"core.db: {core['problem']}. The rows that can be read will be saved; {rest}."]


def _state_lines(data: Data) -> list[str]:
    state = data["state"]
    if state is None:
        return []
    moved = f"is moved to {_short(state['moved_to'])}" if data["done"] else "will be moved away"
    return [f"state.db: {state['problem']}. It {moved}, and rebuilt from the transcripts."]


def _short(path: str) -> str:
    home = paths.home()
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
