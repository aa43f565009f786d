"""The published figures of the benchmarks are the measured ones."""

import re
import subprocess
import sys

import pytest

from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "bench"))
import results


def read(name: str) -> str:
    return (REPOSITORY / name).read_text()


def test_comparison_shows_the_measured_rows():
    """The table in docs/comparison.md is made from bench/results.md, without a missing row."""
    marked = re.search(r"(?s)<!-- bench -->\n(.*?)<!-- /bench -->", read("docs/comparison.md"))

    assert results.comparison() == marked[1]
    assert len(results.COMPARED) == len(marked[1].splitlines()) - 2 > 5


@pytest.mark.parametrize("part", results.TITLES)
def test_every_part_has_figures(part):
    """Each part of the benchmark has a section with rows, its date and its machine."""
    section = read("bench/results.md").partition(f"## {results.TITLES[part]}\n")[2]

    assert results.rows(part)
    assert [] == [row.what for row in results.rows(part) if row.figure.startswith("not measured")]
    assert re.search(r"Measured on \d{4}-\d\d-\d\d with handoffd", section.partition("\n## ")[0])


def test_every_part_is_run():
    """`make bench` runs exactly the parts that have a section in results.md."""
    keys = set(re.findall(r'(?m)^    "(\w+)": ', read("bench/core.py")))

    assert set(results.TITLES) == keys


def test_every_part_loads():
    """The benchmark starts with all its parts, and refuses an unknown part."""
    words = [sys.executable, str(REPOSITORY / "bench/core.py")]
    shown = subprocess.run([*words, "--help"], capture_output=True, text=True, check=True)
    refused = subprocess.run(
        [*words, "--only", "nonsense"], capture_output=True, text=True, check=False
    )

    assert [] == [part for part in results.TITLES if part not in shown.stdout]
    assert (2, True) == (refused.returncode, "freshness" in refused.stderr)
