"""The worth of a token that a new session is told, ours beside claude-handoff's.

Scripted sessions have known answers (stories.py); real ones are scored by a script that is given.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import peers
from keepers import wait_for_handoffs
from measure import Row, Table
from peers import PeerError
from stories import SCENES, Facts, Scene, hook_event
from world import BIN, PYTHON, World

PEER = "claude-handoff"
# A token is taken for four characters, as claude-handoff does.
TOKEN_CHARACTERS = 4
DENSITY_LEAST = 10.0
LIMIT_SECONDS = 120.0
# The environment names the parts that are not in this project.
SCORER, CORPUS = "HANDOFFD_BENCH_FIDELITY", "HANDOFFD_BENCH_CORPUS"
_ADAPTER = Path(__file__).with_name("digest.py")
_LEFT = "**Handoff of "
_SCORES = ("goal", "now", "next", "files_f1")


@dataclass
class Told:
    """The text that a new session is told in each scene, and the known answers that are in it."""

    name: str
    texts: list[str] = field(default_factory=list)
    found: list[dict[str, float]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    def hear(self, text: str, facts: Facts) -> None:
        """Look for each answer: a field counts by the share of its answers that are there."""
        said = _folded(text)
        shares: dict[str, list[float]] = {}
        for name, phrases in facts:
            at = [place for phrase in phrases if (place := said.find(_folded(phrase))) >= 0]
            shares.setdefault(name, []).append(float(bool(at)))
            self.positions += [min(at)] if at else []
        self.texts.append(text)
        self.found.append({name: statistics.fmean(share) for name, share in shares.items()})

    @property
    def fields(self) -> float:
        return sum(sum(found.values()) for found in self.found)

    @property
    def tokens(self) -> float:
        return sum(map(len, self.texts)) / TOKEN_CHARACTERS

    @property
    def density(self) -> float:
        """Fields per 1,000 tokens."""
        return 1000 * self.fields / max(self.tokens, 1)

    def share(self, name: str) -> float:
        return statistics.fmean(found[name] for found in self.found if name in found)

    @property
    def reach(self) -> float:
        """Tokens until an answer appears, on average over those that do."""
        return statistics.fmean(self.positions or [0]) / TOKEN_CHARACTERS


def _folded(text: str) -> str:
    return re.sub(r"[\s`*]+", " ", text).casefold()


def measure(table: Table, scenes: int, cases: int) -> None:
    """Measure so many scripted scenes, and so many real sessions where they are given."""
    with World() as world:
        try:
            program = str(peers.programs(PEER) / PEER)
        except PeerError as problem:
            table.add(Row(f"worth against {PEER}", f"not measured: {problem}", passed=False))
            return
        _report(table, *_tell(world, program, scenes))
        _score_real(table, program, cases, world.environment)


# Scripted sessions


def _tell(world: World, program: str, scenes: int) -> tuple[list[Facts], dict[str, Told]]:
    """Play the scenes, then let each program tell a new session of them."""
    played = [_play(world, branch, number) for number, branch in enumerate([*SCENES][:scenes])]
    world.start().settle()
    wait_for_handoffs(world, len(played))
    told = {name: Told(name) for name in ("ours", "digest", "fitted", "brief")}
    for project, path, facts in played:
        for name, text in _texts(world, program, project, path):
            told[name].hear(text, facts)
    return [facts for _, _, facts in played], told


def _play(world: World, branch: str, number: int) -> tuple[Path, Path, Facts]:
    project = world.project(SCENES[branch].__name__, git=True)
    world.git(project, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    scene = Scene(str(project), branch, number)
    facts = [*SCENES[branch](scene), ("branch", (branch,))]
    path = world.transcript(scene)
    path.write_bytes(b"".join(scene.lines))
    return project, path, facts


def _texts(world: World, program: str, project: Path, path: Path) -> Iterator[tuple[str, str]]:
    new = str(uuid.uuid4())
    start = hook_event("SessionStart", str(project), new, str(path.with_name(f"{new}.jsonl")))
    ours = _run(world, project, [str(BIN / "handoff"), "hook"], start)
    yield "ours", ours
    whole = [program, str(path), "-o", "-"]
    yield "digest", _run(world, project, whole)
    budget = str(len(ours) // TOKEN_CHARACTERS)
    yield "fitted", _run(world, project, [*whole, "--fit", budget])
    _run(world, project, [program, "--brief"])
    yield "brief", _run(world, project, [program, "--brief-hook-stdin"], start)


def _run(world: World, directory: Path, words: list[str], given: bytes = b"") -> str:
    done = subprocess.run(
        words, input=given, env=world.environment, cwd=directory, timeout=LIMIT_SECONDS,
        capture_output=True, check=True,
    )  # fmt: skip
    return done.stdout.decode()


def _report(table: Table, facts: list[Facts], told: dict[str, Told]) -> None:
    ours, digest, fitted, brief = told.values()
    fields = sum(len({name for name, _ in each}) for each in facts)
    for other, what in (
        (digest, f"{PEER}'s digest"),
        (fitted, f"{PEER}'s digest, --fit to our size"),
        (brief, f"{PEER}'s brief at SessionStart, without a model"),
    ):
        where = f"{len(facts)} scripted sessions, {fields} fields: {what}"
        _compare(table, where, ours, other, fields)
        ratio = ours.density / max(other.density, 1e-9)
        bar = f">= {DENSITY_LEAST:g}x" if other is digest else ""
        kept = ratio >= DENSITY_LEAST if bar else None
        row = f"fields in 1,000 tokens, beside {what}"
        table.add(Row(row, f"{ours.density:.3g}", f"{other.density:.3g}", ratio, bar, kept))
        row = f"tokens until an answer appears, beside {what}"
        ratio = other.reach / max(ours.reach, 1)
        table.add(Row(row, f"{ours.reach:.0f}", f"{other.reach:.0f}", ratio))
    _report_same_budget(table, ours, digest, facts, fields)
    _note(table, ours, digest, fitted)


def _compare(table: Table, where: str, ours: Told, other: Told, fields: int) -> None:
    bar, kept = ">= theirs", ours.fields >= other.fields
    figures = _amount(ours, fields), _amount(other, fields)
    table.add(Row(where, *figures, ours.fields / max(other.fields, 1e-9), bar, kept))


def _amount(told: Told, fields: int) -> str:
    each = told.tokens / len(told.texts)
    return f"{told.fields:.1f} fields, {told.fields / fields:.0%}, in {each:.0f} tokens each"


def _report_same_budget(
    table: Table, ours: Told, digest: Told, facts: list[Facts], fields: int
) -> None:
    """Compare with as much of the digest as ours is long, from where it knows most."""
    ends = Told("ends")
    for text, whole, known in zip(ours.texts, digest.texts, facts, strict=True):
        half = len(text) // 2
        ends.hear(f"{whole[:half]}\n{whole[-half:]}", known)
    where = f"the same tokens: beginning and end of {PEER}'s digest, cut to our length"
    _compare(table, where, ours, ends, fields)


def _note(table: Table, ours: Told, digest: Told, fitted: Told) -> None:
    names = dict.fromkeys(name for found in ours.found for name in found)
    shares = (f"{name} {ours.share(name):.0%}/{digest.share(name):.0%}" for name in names)
    table.notes.append(
        "An answer is found if its exact words are in what is told; a token is taken for four "
        f"characters. Found by ours and by the digest: {', '.join(shares)}."
    )
    table.notes.append(
        "Ours is what `handoff hook` tells a new session. claude-handoff writes its digest for a "
        "person to paste; at SessionStart it tells its brief, which has titles and files. --fit "
        "never goes below 2,000 characters of conversation and leaves out nothing "
        f"else, so it is {fitted.tokens / ours.tokens:.1f} times as long as ours."
    )


# Real sessions


def _score_real(table: Table, program: str, cases: int, environment: dict[str, str]) -> None:
    scorer, corpus = os.environ.get(SCORER), os.environ.get(CORPUS)
    if not scorer or not corpus:
        table.notes.append(
            f"Real sessions are scored where {SCORER} and {CORPUS} name a script and transcripts."
        )
        return
    with tempfile.TemporaryDirectory(prefix="handoffd-bench-", dir="/var/tmp") as place:
        directory = _unpacked(Path(corpus), Path(place))
        given = [sys.executable, scorer, "--corpus", str(directory), "--limit", str(cases)]
        ours = f"{BIN}/handoffd replay --json {{}}"
        theirs = f"{PYTHON} {_ADAPTER} {program} {{}}"
        _report_real(table, *(_score(given, words, environment) for words in (ours, theirs)))


def _unpacked(corpus: Path, place: Path) -> Path:
    if corpus.is_dir():
        return corpus
    with tarfile.open(corpus) as archive:
        archive.extractall(place, filter="data")
    return place


def _score(given: list[str], command: str, environment: dict[str, str]) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        words = [*given, "--words", "--command", command, "--json", out.name]
        subprocess.run(words, env=environment, capture_output=True, check=True)
        return json.loads(Path(out.name).read_text())


def _report_real(table: Table, ours: dict, theirs: dict) -> None:
    means = [statistics.fmean(found["mean"][name] for name in _SCORES) for found in (ours, theirs)]
    what = f"{len(ours['rows'])} compactions of real sessions: agreement with the summary, by words"
    bar, kept = ">= theirs", means[0] >= means[1]
    ratio = means[0] / max(means[1], 1e-9)
    table.add(Row(what, f"{means[0]:.3f}", f"{means[1]:.3f}", ratio, bar, kept))
    for name in _SCORES:
        one, other = ours["mean"][name], theirs["mean"][name]
        row = f"of it {name.replace('_f1', ', F1')}"
        table.add(Row(row, f"{one:.3f}", f"{other:.3f}", one / max(other, 1e-9)))
    table.notes.append(
        "Of real sessions the reference is the summary that Claude Code itself wrote when it "
        "compacted. claude-handoff has no goal, now and next: taken for them are the first "
        "request, what the assistant said last, and the last request with its last sentences."
    )
