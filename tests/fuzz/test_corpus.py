"""Replay every kept input: inputs that once failed, and inputs that reach far into the code."""

import random
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from mutate import mutated  # noqa: E402
from targets import SECRET, TARGETS  # noqa: E402
from units import repeated  # noqa: E402

from handoff.common.plain_text import plain, plain_json  # noqa: E402
from handoffd.redaction import redact as redaction  # noqa: E402

FILES = [path for target in TARGETS for path in sorted((HERE / "corpus" / target).iterdir())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kept_input(path):
    """The target's invariants hold for this kept input."""
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "text"])
def test_changed_inputs(target):
    """The invariants hold for two hundred mutations of the kept inputs."""
    kept = [path.read_bytes() for path in FILES if path.parent.name == target]
    chance = random.Random(f"{target} 1")
    for _ in range(200):
        TARGETS[target](mutated(chance.choice(kept), kept, chance))


# Seeds that once produced a slow text.
@pytest.mark.parametrize(("make", "seed"), [(redaction.redact, 18), (plain, 2), (plain_json, 2)])
def test_no_text_of_known_words_takes_long(make, seed):
    """Hints of secrets and tags, in any mixture, are read about as fast as other words."""
    chance = random.Random(f"units {seed}")
    for text in (repeated(chance, SIZE) for _ in range(50)):
        began = time.process_time()
        make(text)
        assert time.process_time() - began < SECONDS_MAX, text[:300]


SIZE, SECONDS_MAX = 50_000, 1.0
SAID = f"Deploy it with {SECRET} today"
LEAKING = {
    "record": f'{{"type":"user","uuid":"u","sessionId":"s","cwd":"/p","timestamp":"2026-03-01T10:00:00Z","message":{{"role":"user","content":"{SAID}"}}}}',
    "yaml": f"goal: {SAID}\n",
    "handoff": f"# Handoff\n\n## Next\n\n- {SAID}\n",
}  # fmt: skip


@pytest.mark.parametrize("target", LEAKING)
def test_a_blind_redaction_is_noticed(target, monkeypatch):
    """If redaction recognised no secret any more, the planted one would be seen in the output."""
    TARGETS[target](LEAKING[target].encode())
    monkeypatch.setattr(redaction, "_find_in", lambda _text, _data: [])
    with pytest.raises(AssertionError, match="the secret came through"):
        TARGETS[target](LEAKING[target].encode())
