"""Scores the redaction: the secrets it finds, its false alarms, and its speed.

bench/redaction.py [--examples FILE] [--lines FILE...]: the planted set always
(tests/planted_secrets.py); FILE is JSON lines, gzipped or not, with rule, kind ("positive" or
another word) and text. The exit code is 1 if a bar is missed.
"""

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from measure import Row, Table
from synthetic import Script

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import planted_secrets
from handoffd.redaction.redact import redact

SEED = 20260304
ROUNDS = 40
RECALL_LEAST = 0.99
FALSE_MOST = 1.0  # in 1,000 lines
FOUND_LEAST, RAISED_MOST = 300 / 430, 15 / 143
SPEED_LEAST = 50.0  # MB/s
SPEED_BYTES = 4_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description="Score the redaction of secrets.")
    parser.add_argument("--examples", type=Path, help="a labelled file besides")
    parser.add_argument("--lines", type=Path, nargs="*", default=[], help="files for the speed")
    parser.add_argument("--verbose", action="store_true", help="name what was missed")
    arguments = parser.parse_args()
    table = Table()
    score_planted(table, arguments.verbose)
    if arguments.examples:
        score_examples(table, arguments.examples, arguments.verbose)
    measure_speed(table, arguments.lines)
    table.print()
    return 1 if table.missed else 0


def score_planted(table: Table, verbose: bool) -> None:
    chance = random.Random(SEED)
    secrets = list(planted_secrets.plant(chance))
    masked = [(kind, secret, redact(text)[0]) for kind, secret, text in secrets]
    missed = [(kind, text) for kind, secret, text in masked if planted_secrets.left(secret, text)]
    recall = 1 - len(missed) / len(secrets)
    kinds = len({kind for kind, _, _ in secrets})
    what = f"planted: {kinds} kinds, {len(secrets)} texts: recall"
    table.add(_share(what, recall, f">= {RECALL_LEAST:.0%}", recall >= RECALL_LEAST))
    lines = list(planted_secrets.plain_lines(chance, ROUNDS))
    hits = [line for line in lines if redact(line)[1]]
    what = f"planted: false hits in {len(lines)} lines"
    table.at_most(what, 1000 * len(hits) / len(lines), FALSE_MOST, "in 1000")
    if verbose:
        _list("missed", (f"{kind}: {text}" for kind, text in missed))
        _list("raised in vain", hits)


def score_examples(table: Table, path: Path, verbose: bool) -> None:
    """Count the secrets found in a labelled file, and the alarms raised by its look-alikes.

    Labels are a rule's: a text may be positive by one rule and negative by another. Such a text is
    counted as it is labelled, and once more apart.
    """
    rows = list(read_examples(path))
    positive = [row for row in rows if row["kind"] == "positive"]
    negative = [row for row in rows if row["kind"] != "positive"]
    found = [row for row in positive if redact(row["text"])[1]]
    raised = [row for row in negative if redact(row["text"])[1]]
    both = {row["text"] for row in positive}
    share = len(found) / len(positive)
    what = f"{path.name}: found {len(found)} of {len(positive)}"
    table.add(_share(what, share, f">= {FOUND_LEAST:.0%}", share >= FOUND_LEAST))
    share = len(raised) / max(len(negative), 1)
    what = f"{path.name}: raised {len(raised)} of {len(negative)}"
    table.add(_share(what, share, f"<= {RAISED_MOST:.0%}", share <= RAISED_MOST))
    alike = [row for row in raised if row["text"] not in both]
    table.add(Row(f"{path.name}: of these not positive elsewhere in it", str(len(alike))))
    if verbose:
        missed = [row for row in positive if row not in found]
        _list("not found", (f"{row['rule']}: {row['text']}" for row in missed))
        _list("raised", (f"{row['rule']}: {redact(row['text'])[0]}" for row in alike))


def measure_speed(table: Table, paths: list[Path]) -> None:
    """Measure megabytes per second, beside json.loads() of the same lines, alternately."""
    lines = [line for path in paths for line in path.read_text(errors="replace").splitlines()]
    lines = lines or [line.decode() for line in Script("/home/kim", SEED).turns(SPEED_BYTES)]
    size = sum(map(len, lines)) / 1e6
    ours = floor = float("inf")
    for _ in range(3):
        ours = min(ours, _seconds(redact, lines))
        floor = min(floor, _seconds(json.loads, lines))
    what = f"speed over {size:.1f} MB of {'lines given' if paths else 'synthetic lines'}"
    passed = size / ours >= SPEED_LEAST
    speeds = f"{size / ours:.0f} MB/s", f"json.loads {size / floor:.0f} MB/s"
    table.add(Row(what, *speeds, ours / floor, f">= {SPEED_LEAST:g} MB/s", passed))


def _seconds(work: Callable[[str], object], lines: list[str]) -> float:
    started = time.process_time()
    for line in lines:
        work(line)
    return time.process_time() - started


def read_examples(path: Path) -> Iterator[dict]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def _share(what: str, share: float, bar: str, passed: bool) -> Row:
    return Row(what, f"{share:.2%}", bar=bar, passed=passed)


def _list(title: str, texts: Iterable[str]) -> None:
    for text in texts:
        print(f"{title}: {text[:160]!r}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
