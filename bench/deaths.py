"""The rest of a session that died, a minute later, without any help."""

import os
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from heirs import PEERS, ClaudeHandoff, Keeper, Ours
from measure import Row, Table, seconds
from peers import PeerError
from scene import DEATHS, VARIABLE, Death, Plot, Scene, scenes
from world import World

WAIT_SECONDS = 60.0
# A session with work in it lives longer than its script takes.
LIFE_SECONDS = 8.0
_POLL_SECONDS = 0.05
RIGHT, NONE, LATE, NOT_PLAYED = "right", "none", "later than a minute", "not played"
_QUICK = tuple(death for death in DEATHS if death.what.startswith("kill -9"))


@dataclass
class Case:
    """A system, and a session that died in its care."""

    keeper: Keeper
    scene: Scene
    begun: float = 0.0
    died: float = 0.0
    right_after_seconds: float | None = None
    found: str = ""
    by_hand: str = ""
    judged: bool = False
    _watch: threading.Thread | None = field(default=None, repr=False)

    def begin(self) -> None:
        self.begun = time.monotonic()
        self._try(lambda: self.scene.begin(self.keeper))

    def die(self) -> None:
        time.sleep(max(self.begun + LIFE_SECONDS - time.monotonic(), 0))
        # To be fair to others the clock runs from before the blow, also where it takes its time.
        self.died = time.monotonic()
        self._try(lambda: self.scene.death.strike(self.scene, self.keeper))
        if isinstance(self.keeper, Ours) and not self.found:
            self._watch = threading.Thread(target=self._watch_files, args=(self.keeper,))
            self._watch.start()

    def _try(self, step: Callable[[], None]) -> None:
        """Continue the session; report a step that cannot be played, and lose no other case."""
        if self.found:
            return
        try:
            step()
        except Exception as problem:  # noqa: BLE001  whatever a program of others does
            traceback.print_exception(problem)
            self.found = NOT_PLAYED

    def _watch_files(self, keeper: Ours) -> None:
        """Note down when the files became right."""
        while (moment := time.monotonic()) < self.died + WAIT_SECONDS:
            if _verdict(keeper.files(self.scene), self.scene.plot) == RIGHT:
                self.right_after_seconds = moment - self.died
                return
            time.sleep(_POLL_SECONDS)

    def is_due(self) -> bool:
        return not self.judged and time.monotonic() >= self.died + WAIT_SECONDS

    def judge(self) -> None:
        """Judge the rest of the session, then end its processes."""
        self.judged = True
        if self._watch:
            self._watch.join()
        try:
            self.found = self.found or _verdict(self.keeper.texts(self.scene), self.scene.plot)
            if isinstance(self.keeper, Ours) and self.right_after_seconds is None:
                self.found = LATE if self.found == RIGHT else self.found
            if isinstance(self.keeper, ClaudeHandoff):
                self.by_hand = NOT_PLAYED
                self.by_hand = _verdict([self.keeper.by_hand(self.scene)], self.scene.plot)
        except Exception as problem:  # noqa: BLE001  the other cases are looked at all the same
            traceback.print_exception(problem)
            self.found = self.found or NOT_PLAYED
        self.scene.close()


def _verdict(texts: list[str], plot: Plot) -> str:
    """Return a verdict: RIGHT if each text has the goal, the file and the last words."""
    wanted = {"goal": plot.goal, "file": plot.file, "next step": plot.last}
    texts = [" ".join(text.split()) for text in texts]
    missing = {name for text in texts for name, words in wanted.items() if words not in text}
    if not missing:
        return RIGHT
    if not any(words in text for text in texts for words in wanted.values()):
        return NONE
    return f"partly (no {', no '.join(sorted(missing))})"


def measure(table: Table, *, quick: bool) -> None:
    if not os.environ.get(VARIABLE):
        raise RuntimeError(f"{VARIABLE} names no Claude Code; .ci/mcp installs one and says where")
    deaths, kinds = (_QUICK, (Ours, ClaudeHandoff)) if quick else (DEATHS, (Ours, *PEERS))
    cases: list[Case] = []
    with ExitStack() as stack:
        for kind in kinds:
            keeper = kind(stack.enter_context(World()))
            mine = [Case(keeper, scene) for scene in scenes(keeper.world, deaths)]
            for case in mine:
                stack.callback(case.scene.close)  # also where a step fails
            if _install(keeper, mine, table):
                _play(mine, cases)
        for case in cases:
            time.sleep(max(case.died + WAIT_SECONDS - time.monotonic(), 0))
            _judge_due(cases)
    _report(table, deaths, cases)


def _install(keeper: Keeper, cases: list[Case], table: Table) -> bool:
    claudes = [case.scene.claude for case in cases]
    try:
        keeper.put_on_path(claudes)
        keeper.install(claudes[0], [claude.cwd for claude in claudes])
    except (PeerError, RuntimeError, AssertionError) as problem:
        if isinstance(keeper, Ours):
            raise
        traceback.print_exception(problem)
        table.add(Row(keeper.name, "not measured: it could not be installed", passed=False))
        return False
    return True


def _play(mine: list[Case], cases: list[Case]) -> None:
    """Let the sessions begin, then die; the minutes in which they are left alone overlap.

    The first takes our daemon with it, so it dies before the others are there.
    """
    for group in (mine[:1], mine[1:]):
        for case in group:
            case.begin()
            _judge_due(cases)
        for case in group:
            case.die()
        cases.extend(group)


def _judge_due(cases: list[Case]) -> None:
    for case in cases:
        if case.is_due():
            case.judge()


def _report(table: Table, deaths: tuple[Death, ...], cases: list[Case]) -> None:
    for death in deaths:
        played = [case for case in cases if case.scene.death == death]
        (ours,) = [case for case in played if isinstance(case.keeper, Ours)]
        others = [case for case in played if case is not ours]
        told = ", ".join(f"{case.keeper.name}: {case.found}" for case in others)
        table.add(Row(death.what, _figure(ours), told, None, RIGHT, ours.found == RIGHT))
    if hands := [case for case in cases if case.by_hand]:
        told = _by_hand(hands)
        table.add(Row("claude-handoff, run by hand after the death", "nobody runs anything", told))
    table.notes.extend(" ".join(note.split()) for note in _NOTES.split("\n\n"))


def _figure(case: Case) -> str:
    if case.found != RIGHT or case.right_after_seconds is None:
        return case.found
    if case.right_after_seconds < _POLL_SECONDS:
        return f"{RIGHT} (at once)"
    return f"{RIGHT} ({seconds(case.right_after_seconds)} after)"


def _by_hand(cases: list[Case]) -> str:
    wrong = [f"{case.scene.death.what}: {case.by_hand}" for case in cases if case.by_hand != RIGHT]
    return "; ".join([f"right after {len(cases) - len(wrong)} of {len(cases)}", *wrong])


_NOTES = """\
Each system has a HOME of its own with the real Claude Code in it, and is installed as its documents
say; ours is a daemon without any hooks. The same session is played for each, from a script: a goal,
a question, a red test, a new file, a green test, a next step. A minute after its end the goal, the
file and the next step are looked for, word for word. Ours must have them in handoff.yaml, in what a
new session is told and, where the session is over, in the handoff that it left, each by itself; the
seconds are those until the files were right. Of the others, all that they wrote counts as one.

claude-handoff writes by hooks, at the end of a session and before a compaction; by hand it needs
none of them. Of a long turn it keeps the beginning; this one is short. ai-handoff has the model
asked at the end of a turn, and this model does as it is asked. daimon-briefing has a model write at
the end of a session: a script that knows the answer stands for it, and its hook, whose plugin comes
from the network, is written here with the same command. handoff-mcp has what the model writes of
its own accord, which this one does not. claude-code-log keeps transcripts readable and has no
handoff, hence no column.
"""
