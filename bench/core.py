"""Measures handoffd against its floors and against other programs, and writes bench/results.md.

bench/core.py [--quick] [--only PARTS]: it runs the handoffd of the interpreter that runs it.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable

import clients
import deaths
import folding
import freshness
import growth
import latency
import leaks
import mcp
import network
import results
import saving
import scan
import standing
import worth
from measure import Table

Part = Callable[[Table, bool], None]
_WHY_INSIDE = (
    "What is missed here, and why: the fold's time is spread thin (no function takes more "
    "than an eighth of it), and `save_handoff` has three changes of names where the floor has "
    "one, and asks the kernel whether somebody still writes into what it replaces, so that no "
    "edit of a person's is lost."
)
# Inputs that do not come with this project.
GIVEN = (leaks.EXAMPLES, worth.SCORER, worth.CORPUS)


def _inside(table: Table, quick: bool) -> None:
    latency.measure(table, 100 if quick else 400)
    saving.measure(table, 50 if quick else 300)
    folding.measure(table, 3 if quick else 9)
    growth.measure(table, *((10, 60) if quick else (40, 200)))
    table.notes.append(_WHY_INSIDE)


PARTS: dict[str, Part] = {
    "freshness": lambda table, quick: freshness.measure(
        table, *(((1, 10), 3, 3) if quick else ((1, 10, 100, 500), 20, 10))
    ),
    "start": lambda table, quick: clients.measure(table, 20 if quick else 100),
    "mcp": lambda table, quick: mcp.measure(table, 10 if quick else 20),
    "deaths": lambda table, quick: deaths.measure(table, quick=quick),
    "secrets": lambda table, quick: leaks.measure(table, 8 if quick else 1),
    "scan": lambda table, quick: scan.measure(
        table, *((3, 1_000, 100) if quick else (10, 10_000, 1_000))
    ),
    "standing": lambda table, quick: standing.measure(table, 20 if quick else 600),
    "worth": lambda table, quick: worth.measure(table, *((3, 4) if quick else (12, 40))),
    "inside": _inside,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure handoffd, beside floors and peers.")
    parser.add_argument(
        "--quick", action="store_true", help="fewer and smaller runs; results.md stays as it is"
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, default: %(default)s")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; parts: {', '.join(PARTS)}")
    for given in GIVEN:  # relative to the caller's directory
        if found := os.environ.get(given):
            os.environ[given] = os.path.abspath(found)
            if not os.path.exists(found):
                parser.error(f"{given} names {found}, which is not there")
    network.leave()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="handoffd-bench-") as home:
        # A module loaded into this process must not find the user's own files either.
        os.environ.update(HOME=home, XDG_RUNTIME_DIR=home)
        for name in wanted:
            missed += _measure(name, quick=arguments.quick)
    return 1 if missed else 0


def _measure(name: str, *, quick: bool) -> int:
    """Measure a part, and keep it at once: a later one that fails loses nothing."""
    began, table = time.monotonic(), Table()
    load = os.getloadavg()[0]
    try:
        PARTS[name](table, quick)
    except Exception as problem:  # noqa: BLE001  what was measured, and what comes, is not lost
        if not isinstance(problem, RuntimeError):  # its message names the missing part
            traceback.print_exception(problem)
        print(f"{name} was not measured: {problem}", file=sys.stderr)
        return 1
    print(f"measured {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    table.print()
    if quick:
        print("Quick: the bars are those of a full run, and mean little here.")
        return 0
    results.enter(name, table, load)
    return table.missed


if __name__ == "__main__":
    sys.exit(main())
