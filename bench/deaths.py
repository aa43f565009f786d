"""What is left of a session that died, a minute later, when nobody touched anything."""

import os
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from keepers import PEERS, ClaudeHandoff, Keeper, Ours
from measure import Row, Table, seconds
from peers import PeerError
from scene import DEATHS, VARIABLE, Death, Plot, Scene, scenes
from world import World

WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
RIGHT, NONE = "right", "none"
_QUICK = tuple(death for death in DEATHS if death.what.startswith("kill -9"))


@dataclass
class Case:
    """A system, and a session that died in its care."""

    keeper: Keeper
    death: Death
    scene: Scene
    died: float = 0.0
    right_after_seconds: float | None = None
    found: str = ""
    by_hand: str = ""
    judged: bool = False
    _watch: threading.Thread | None = field(default=None, repr=False)

    def play(self) -> None:
        try:
            self.death.strike(self.scene, self.keeper)
        except AssertionError as problem:
            self.found = f"not played: {str(problem).splitlines()[0]}"
        self.died = time.monotonic()
        if isinstance(self.keeper, Ours) and not self.found:
            self._watch = threading.Thread(target=self._watch_files, args=(self.keeper,))
            self._watch.start()

    def _watch_files(self, keeper: Ours) -> None:
        """Note down when the files became right."""
        while (moment := time.monotonic()) < self.died + WAIT_SECONDS:
            if _verdict(keeper.files(self.scene), self.scene.plot) == RIGHT:
                self.right_after_seconds = moment - self.died
                return
            time.sleep(_POLL_SECONDS)

    def is_due(self) -> bool:
        return time.monotonic() >= self.died + WAIT_SECONDS

    def judge(self) -> None:
        """Look at what is left, then end what still runs."""
        if self._watch:
            self._watch.join()
        plot = self.scene.plot
        if not self.found:
            self.found = _verdict(self.keeper.texts(self.scene), plot)
            if isinstance(self.keeper, ClaudeHandoff):
                self.by_hand = _verdict([self.keeper.by_hand(self.scene)], plot)
        self.scene.close()
        self.judged = True


def _verdict(texts: list[str], plot: Plot) -> str:
    """Tell whether each of the texts has the goal, the file and what came last."""
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
        table.add(Row("deaths", "not measured", f"{VARIABLE} names no Claude Code"))
        return
    deaths, kinds = (_QUICK, (Ours, ClaudeHandoff)) if quick else (DEATHS, (Ours, *PEERS))
    cases: list[Case] = []
    with ExitStack() as stack:
        for kind in kinds:
            _play(kind(stack.enter_context(World())), deaths, cases, table)
        for case in cases:
            time.sleep(max(case.died + WAIT_SECONDS - time.monotonic(), 0))
            _judge_due(cases)
    _report(table, deaths, cases)


def _play(keeper: Keeper, deaths: tuple[Death, ...], cases: list[Case], table: Table) -> None:
    """Play a session for each death, one after the other; the minutes of waiting overlap."""
    played = scenes(keeper.world, deaths)
    projects = [scene.claude.cwd for scene in played.values()]
    try:
        keeper.install(next(iter(played.values())).claude, projects)
    except (PeerError, RuntimeError, AssertionError) as problem:
        table.notes.append(f"{keeper.name} could not be installed: {problem}")
        return
    for death, scene in played.items():
        case = Case(keeper, death, scene)
        case.play()
        cases.append(case)
        _judge_due(cases)


def _judge_due(cases: list[Case]) -> None:
    for case in cases:
        if case.is_due() and not case.judged:
            case.judge()


def _report(table: Table, deaths: tuple[Death, ...], cases: list[Case]) -> None:
    for death in deaths:
        ours, *others = [case for case in cases if case.death == death]
        told = ", ".join(f"{case.keeper.name}: {case.found}" for case in others)
        table.add(Row(death.what, _figure(ours), told, None, RIGHT, ours.found == RIGHT))
    if hands := [case for case in cases if case.by_hand]:
        told = _by_hand(hands)
        table.add(Row("claude-handoff, run by hand after the death", "nobody runs anything", told))
    table.notes.extend(" ".join(note.split()) for note in _NOTES.split("\n\n"))


def _figure(case: Case) -> str:
    if case.found != RIGHT or case.right_after_seconds is None:
        return case.found
    return f"{RIGHT} ({seconds(case.right_after_seconds)} after)"


def _by_hand(cases: list[Case]) -> str:
    wrong = [f"{case.death.what}: {case.by_hand}" for case in cases if case.by_hand != RIGHT]
    return "; ".join([f"right after {len(cases) - len(wrong)} of {len(cases)}", *wrong])


_NOTES = """\
Each system has a HOME of its own with the real Claude Code in it, and is installed as its documents
say; ours is a daemon without any hooks. The same session is played for each, from a script: a goal,
a red test, a new file, a green test, a next step. A minute after its end the goal, the file and the
next step are looked for, word for word. Ours must have them in handoff.yaml, in what a new session
is told and, where the session is over, in the handoff that it left, each by itself; the seconds are
those until the files were right. Of the others, all they wrote counts as one.

claude-handoff writes by hooks, at the end of a session and before a compaction; asked by hand, it
needs none of them. ai-handoff has the model asked at the end of a turn, and this model does as it
is asked. daimon-briefing has a model write at the end of a session: a script that knows the answer
stands for it, and its hook, whose plugin comes from the network, is written here with the same
command. handoff-mcp has what the model writes of its own accord, which this one does not.
claude-code-log keeps transcripts readable and has no handoff, hence no column.
"""
