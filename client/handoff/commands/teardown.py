import argparse
import sys

from handoff import service
from handoff.errors import EXIT_CHOICE_NEEDED, EXIT_FAILED
from handoff.installing import manifest, removal
from handoff.installing.asking import agrees, can_ask

EXAMPLE = "handoff teardown    (what would change is shown before it is asked for)"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the changes, make none")


def run(given: argparse.Namespace) -> int:
    asks = can_ask(given)
    plan = removal.make()
    print(plan.report(whole=not (asks or given.yes)), end="", flush=True)
    if given.dry_run:
        return 0
    if plan.is_empty and plan.noted.is_empty:
        print("There is nothing that `handoff setup` put in.")
        return 0
    if not (asks or given.yes):
        sys.stderr.write("Nothing was changed. To do this, say --yes: handoff teardown --yes\n")
        return EXIT_CHOICE_NEEDED
    if asks and not agrees("Take this out? [Y/n] "):
        print("Nothing was changed.")
        return 0
    with manifest.alone():
        left = removal.apply(plan)
    sys.stderr.writelines(f"handoff: {problem}\n" for problem in left)
    if left:
        sys.stderr.write("The rest is done. Run it again when this is mended.\n")
        return EXIT_FAILED
    _say_farewell()
    return 0


def _say_farewell() -> None:
    print("Done: what `handoff setup` put in is out.\n")
    if manifest.backups():
        print(f"Backups of files that were changed since are in {manifest.backups()}")
    if service.running() is not None:
        print("handoffd still runs, since setup did not start it. To end it: handoff down")
    print(removal.left_alone(), end="")
