import argparse
import sys

from handoff import service
from handoff.common.errors import EXIT_FAILED
from handoff.setup import manifest, removal
from handoff.setup.questions import add_consent, can_ask, refusal

EXAMPLE = "handoff teardown    (what would change is shown before it is asked for)"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_consent(parser)


def run(given: argparse.Namespace) -> int:
    plan = removal.make_plan()
    print(plan.report(whole=not (can_ask(given) or given.yes)), end="", flush=True)
    if given.dry_run:
        return 0
    if plan.is_empty and plan.noted.is_empty:
        print("There is nothing that `handoff setup` put in.")
        return 0
    refused = refusal(given, "teardown", "Take this out? [Y/n] ")
    if refused is not None:
        return refused
    with manifest.exclusive():
        problems = removal.apply(plan)
    sys.stderr.writelines(f"handoff: {problem}\n" for problem in problems)
    if problems:
        sys.stderr.write("The rest is done. Run it again when this is mended.\n")
        return EXIT_FAILED
    _print_closing()
    return 0


def _print_closing() -> None:
    print("Done: what `handoff setup` put in is out.\n")
    for path in manifest.backups():
        print(f"A file was changed since. What it was before setup is kept: {path}")
    if service.running() is not None:
        print("handoffd still runs, since setup did not start it. To end it: handoff down")
    print(removal.remaining_files(), end="")
