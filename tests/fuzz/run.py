"""Fuzz for some seconds, from a seed that is printed: `make fuzz SECONDS=20 SEED=1 TARGET=yaml`.

Inputs are made from those in corpus/ and from the scenes of tests/golden. A failing input is
written to corpus/, and every `make test` replays it from then on. `--record` puts the counts into
the table of bench/promises.md.
"""

import argparse
import hashlib
import random
import signal
import sys
import time
import traceback
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

HERE = Path(__file__).parent
for _place in (HERE.parent.parent / "bench", HERE.parent / "golden", HERE.parent, HERE):
    sys.path.insert(0, str(_place))

import near  # noqa: E402
import promises  # noqa: E402
import slow  # noqa: E402
from mutate import mutated  # noqa: E402
from targets import TARGETS  # noqa: E402

from scenes import SCENES  # noqa: E402

CORPUS = HERE / "corpus"
HANG_SECONDS = 30


@dataclass
class Tally:
    inputs: int = 0
    sketches: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


def seeds(target: str, chance: random.Random) -> list[bytes]:
    found = [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]
    if target == "record":
        found += [b"\n".join(scene().lines) for scene in SCENES.values()]
    if target == "text":
        found += [
            bytes([way]) + f"\0{pump}\0!".encode()
            for way in range(len(slow.WAYS))
            for pump in near.PUMPS
        ]
        found += [
            bytes([chance.randrange(len(slow.WAYS))]) + unit.encode("utf-8", "replace")
            for pattern in near.patterns()
            for unit in near.attacks(pattern, chance)
        ]
    return found


def inputs(target: str, chance: random.Random, pool: list[bytes]) -> Iterator[bytes]:
    """Yield the seeds unchanged, then mutations of the seeds and of inputs with new results."""
    yield from list(pool)
    while True:
        yield mutated(chance.choice(pool), pool, chance)


def fuzz(target: str, seconds: float, seed: int) -> Tally:
    chance = random.Random(f"{target} {seed}")
    tally, sketches = Tally(), set[Hashable]()
    pool = seeds(target, chance)
    began = time.monotonic()
    for data in inputs(target, chance, pool):
        if time.monotonic() - began > seconds:
            break
        tally.inputs += 1
        try:
            sketch = _within_limits(target, data)
        except Exception as problem:  # noqa: BLE001  whatever it is, it is what we look for
            if where := _new(target, data, problem, tally):
                print(f"{target}: {where}\n{traceback.format_exc(limit=-3)}", flush=True)
            continue
        if sketch not in sketches:
            sketches.add(sketch)
            pool.append(data)
    tally.sketches, tally.seconds = len(sketches), time.monotonic() - began
    return tally


def _within_limits(target: str, data: bytes) -> Hashable:
    signal.alarm(HANG_SECONDS)
    try:
        return TARGETS[target](data)
    finally:
        signal.alarm(0)


def _hung(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"no end within {HANG_SECONDS} s")


def _new(target: str, data: bytes, problem: Exception, tally: Tally) -> str:
    """Write the first input that fails at a given place to the corpus; return its path."""
    last = traceback.extract_tb(problem.__traceback__)[-1]
    what = f"{type(problem).__name__} {last.filename}:{last.lineno}"
    if what in tally.failures:
        return ""
    tally.failures.append(what)
    path = CORPUS / target / f"found-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return str(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--target", choices=list(TARGETS), action="append")
    parser.add_argument(
        "--record", action="store_true", help="note the counts in bench/promises.md"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _hung)
    chosen = options.target or list(TARGETS)
    figures, failed = {}, False
    for target in chosen:
        tally = fuzz(target, options.seconds / len(chosen), options.seed)
        count = f"{tally.inputs:,} inputs in {tally.seconds:.0f} s, {len(tally.failures)} failed"
        print(f"{target:8} {count}, {tally.sketches} outcomes, seed {options.seed}", flush=True)
        figures[f"make fuzz TARGET={target}"] = count
        failed |= bool(tally.failures)
    if options.record:
        promises.enter(figures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
