import argparse
import contextlib
import sys
from collections.abc import Iterator

from handoff import fast, local, service
from handoff.cli import add_json
from handoff.installing.asking import add_consent, refusal

EXAMPLE = "handoff repair        (what can be saved is shown before it is asked for)"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_consent(parser)
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    code, style = local.daemon_code(), fast.rendering(given.json)
    found, text = code.look_at_stores(style)
    if not (found["core"] or found["state"]) or given.dry_run:
        print(text, end="")
        return 0
    if not given.yes:
        print(text, end="", flush=True)
        refused = refusal(given, "repair", "Mend it? [Y/n] ")
        if refused is not None:
            return refused
    with _daemon_aside():
        print(code.mend_stores(style)[1], end="", flush=True)
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
