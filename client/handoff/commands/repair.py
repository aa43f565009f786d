import argparse
import sys

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
    pid = service.stop()
    try:
        print(code.mend_stores(style)[1], end="", flush=True)
    finally:
        if pid is not None:
            sys.stderr.write(f"handoffd is up again (process {service.start()}).\n")
    return 0
