"""Measure every row of bench/promises.md: run the test it names, and enter the figure it reports.

`make faults`. A test reports by `record_property("figure", "...")`; one that says nothing
is entered as passed. Rows whose proof is another command (`make soak`, `make fuzz`) are entered by
that one; behind a `#` stands which of its figures is meant.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree as ET

REPOSITORY = Path(__file__).parent.parent
TABLES = Path(__file__).with_name("promises.md")
ROW = re.compile(
    r"^\| (?P<promise>.+?) \| `(?P<proof>[^`]+)` \| (?P<figure>.*?) ?\|$", re.MULTILINE
)


def proofs() -> list[str]:
    """Return the named proofs, in the order of the page."""
    return [row["proof"] for row in ROW.finditer(TABLES.read_text())]


def enter(figures: dict[str, str]) -> None:
    """Write figures into the last column, beside their proof."""

    def with_figure(row: re.Match[str]) -> str:
        figure = figures.get(row["proof"], row["figure"])
        return f"| {row['promise']} | `{row['proof']}` | {figure} |"

    TABLES.write_text(ROW.sub(with_figure, TABLES.read_text()))


def reported(results: Path) -> dict[str, str]:
    """Return the report of each test of a run, by the name that the tables have for it."""
    found: dict[str, list[str]] = {}
    for case in ET.parse(results).iter("testcase"):
        place, _, name = f"{case.get('classname')}::{case.get('name')}".partition("::")
        proof = f"{place.replace('.', '/')}.py::{name.partition('[')[0]}"
        outcome = next((c.tag for c in case if c.tag in {"failure", "error", "skipped"}), None)
        said = [p.get("value", "") for p in case.iter("property") if p.get("name") == "figure"]
        found.setdefault(proof, []).extend([f"**{outcome}**"] if outcome else said or ["passed"])
    return {proof: "; ".join(dict.fromkeys(said)) for proof, said in found.items()}


def run(named: list[str], workers: int) -> int:
    """Run the named tests, enter their figures, and return pytest's exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        results = Path(directory) / "results.xml"
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "", "-n", str(workers), "--dist",
             "worksteal", f"--junitxml={results}", *named],
            cwd=REPOSITORY, check=False,
        ).returncode  # fmt: skip
        figures = reported(results)
    enter({proof: figure for proof, figure in figures.items() if proof in named})
    took = time.monotonic() - began
    print(f"bench/promises.md: {len(figures)} of its figures measured in {took:.0f} s")
    skipped = [proof for proof, figure in figures.items() if "skipped" in figure]
    for proof in skipped:
        print(f"not measured, since something is missing here: {proof}")
    return code or bool(skipped)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only the rows whose proof has one of these words")
    parser.add_argument("-n", dest="workers", type=int, default=3, help="at a time (3)")
    options = parser.parse_args()
    named = [
        proof
        for proof in dict.fromkeys(proofs())
        if "::" in proof and (not options.words or any(w in proof for w in options.words))
    ]
    return run(named, options.workers) if named else parser.error("no row has such a proof")


if __name__ == "__main__":
    sys.exit(main())
