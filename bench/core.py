"""Measures handoffd against its floors and prints one table of ratios.

bench/core.py [--quick] [--only ROWS]: it runs the handoffd of the interpreter that runs it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable

import clients
import folding
import growth
import idle
import latency
import mcp
import saving
from measure import Table

Part = Callable[[Table, bool], None]

PARTS: dict[str, Part] = {
    "client": lambda table, quick: clients.measure(table, 20 if quick else 100),
    "latency": lambda table, quick: latency.measure(table, 100 if quick else 400),
    "mcp": lambda table, quick: mcp.measure(table, 10 if quick else 20),
    "save": lambda table, quick: saving.measure(table, 50 if quick else 300),
    "idle": lambda table, _quick: idle.measure(table),
    "fold": lambda table, quick: folding.measure(table, 3 if quick else 9),
    "growth": lambda table, quick: growth.measure(table, *((10, 60) if quick else (40, 200))),
    "backfill": lambda table, quick: growth.measure_backfill(
        table, *((10, 20) if quick else (20, 100))
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure handoffd and print ratios.")
    parser.add_argument("--quick", action="store_true", help="fewer runs, smaller first read")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, default: %(default)s")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    table = Table()
    with tempfile.TemporaryDirectory(prefix="handoffd-bench-") as home:
        # What is loaded into this process must not find the user's own files either.
        os.environ.update(HOME=home, XDG_RUNTIME_DIR=home)
        for name in wanted:
            started = time.monotonic()
            PARTS[name](table, arguments.quick)
            took = time.monotonic() - started
            print(f"measured {name} in {took:.0f} s", file=sys.stderr, flush=True)
    table.print()
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
