"""Every input that is kept is tried again: those that once failed, and those that lead far."""

import random
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from mutate import mutated  # noqa: E402
from targets import TARGETS  # noqa: E402

FILES = [path for target in TARGETS for path in sorted((HERE / "corpus" / target).iterdir())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kept_input(path):
    """What must hold of any input holds of this one."""
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "text"])
def test_changed_inputs(target):
    """And of two hundred that are made from them."""
    kept = [path.read_bytes() for path in FILES if path.parent.name == target]
    chance = random.Random(f"{target} 1")
    for _ in range(200):
        TARGETS[target](mutated(chance.choice(kept), kept, chance))
