"""Systems that keep a dead session's knowledge: ours, and others as they recommend it."""

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import peers
from scene import Scene, Stage
from world import BIN, World

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from e2e.claude import Claude
from e2e.model import Turn, say, use


class Keeper(Stage):
    """A system in a HOME of its own, in which Claude Code runs."""

    name = ""
    # Programs that its installation puts on the search path.
    programs: tuple[str, ...] = ()

    def __init__(self, world: World) -> None:
        self.world = world

    def put_on_path(self, claudes: list[Claude]) -> None:
        """Let everything find the client and the system's programs by their names."""
        directory = self.world.home / ".local/bin"
        directory.mkdir(parents=True)
        (directory / "claude").symlink_to(claudes[0].program)
        for name in self.programs:
            (directory / name).symlink_to(self.program(name))
        path = f"{directory}:{claudes[0].environment['PATH']}"
        self.world.environment["PATH"] = path
        for claude in claudes:
            claude.environment["PATH"] = path

    def install(self, claude: Claude, projects: list[Path]) -> None:
        """Put its hooks and servers into the client's settings, by its own installer."""

    def texts(self, scene: Scene) -> list[str]:
        """Return the texts left of a session, each of which must be right by itself."""
        raise NotImplementedError

    def program(self, name: str) -> str:
        return str(peers.programs(self.name) / name)

    def run(self, *words: str, cwd: Path | None = None, given: str = "") -> str:
        """Run one of its programs; it must succeed."""
        done = subprocess.run(
            words, env=self.world.environment, cwd=cwd or self.world.home,
            input=given, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(
                f"{words} ended with {done.returncode}: {done.stderr or done.stdout}"
            )
        return done.stdout

    def _read(self, *patterns: str) -> list[str]:
        """Return the text of all its files in the HOME, as one."""
        found = [path for pattern in patterns for path in sorted(self.world.home.glob(pattern))]
        return ["\n".join(path.read_text() for path in found)]


class Ours(Keeper):
    """A daemon without hooks: it has the transcripts alone."""

    name = "handoffd"

    def install(self, _claude: Claude, _projects: list[Path]) -> None:
        self.world.start()

    def texts(self, scene: Scene) -> list[str]:
        return [*self.files(scene), self._told(scene)]

    def files(self, scene: Scene) -> list[str]:
        """Return handoff.yaml and, of a session that is over, the handoff that it left."""
        path = scene.claude.cwd / ".flow-guardian/handoff.yaml"
        current = path.read_text() if path.exists() else ""
        shelf = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(scene.claude.cwd))
        return [
            current,
            *(self._read(f".claude/handoffs/{shelf}/*.md") if scene.death.over else []),
        ]

    def _told(self, scene: Scene) -> str:
        """Return the text that a new session is told."""
        event = {
            "session_id": str(uuid.uuid4()), "hook_event_name": "SessionStart",
            "source": "startup", "cwd": str(scene.claude.cwd),
        }  # fmt: skip
        return self.run(
            str(BIN / "handoff"), "hook", cwd=scene.claude.cwd, given=json.dumps(event) + "\n"
        )

    @contextlib.contextmanager
    def without_power(self) -> Iterator[None]:
        if process := self.world.process:
            process.kill()
            process.wait()
        yield
        self.world.start()


class ClaudeHandoff(Keeper):
    """Hooks at the end of a session and before a compaction, which read the transcript."""

    name = "claude-handoff"
    programs = ("claude-handoff", "chf")

    def install(self, _claude: Claude, _projects: list[Path]) -> None:
        for option in ("--install-hook", "--install-brief-hook"):
            self.run(self.program("claude-handoff"), option)

    def texts(self, _scene: Scene) -> list[str]:
        return self._read(".claude/handoffs/*.md", ".claude/briefs/*.md")

    def by_hand(self, scene: Scene) -> str:
        """Return its output about the project's last session, as a person would ask for it."""
        return self.run(self.program("claude-handoff"), "-o", "-", cwd=scene.claude.cwd)


class AiHandoff(Keeper):
    """A tool for the model, and a hook at the end of a turn that asks the model to use it.

    This model does as it is asked.
    """

    name = "ai-handoff"
    programs = ("handoff",)
    allowed = "Bash,mcp__handoff"

    def install(self, claude: Claude, _projects: list[Path]) -> None:
        where = f"CLAUDE_CONFIG_DIR={claude.config}"
        self.run("env", where, self.program("handoff"), "setup", "--yes", "--client", "claude")

    def epilogue(self, scene: Scene) -> list[Turn]:
        plot = scene.plot
        saving = use(
            "mcp__handoff__memory_save", project_path=str(scene.claude.cwd), agent="claude-code",
            summary=f"{plot.goal}. {plot.done}", next_actions=plot.last,
        )  # fmt: skip
        return [saving, say("It is saved.")]

    def texts(self, scene: Scene) -> list[str]:
        path = scene.claude.cwd / ".handoff/context.md"
        return [path.read_text() if path.exists() else ""]


class Daimon(Keeper):
    """A hook at the end of a session, from which a model writes a checkpoint.

    Its plugin is fetched from the network; the hook that it brings runs this command. The model is
    scripted, too: it knows all facts at once.
    """

    name = "daimon-briefing"
    programs = ("daimon",)

    def install(self, claude: Claude, _projects: list[Path]) -> None:
        model = self.world.home / "model.py"
        model.write_text(_DISTILLER)
        daimon = self.program("daimon")
        words = ("--backend", "command", "--command", f"{sys.executable} {model}")
        self.run(daimon, "configure", *words)
        hook = self.world.home / "session_end.py"
        hook.write_text(_SESSION_END)
        ending = {"type": "command", "command": f"{sys.executable} {hook} {daimon}", "timeout": 10}
        with claude.changing("settings.json") as settings:
            settings["hooks"] = {"SessionEnd": [{"hooks": [ending]}]}

    def texts(self, scene: Scene) -> list[str]:
        return [self.run(self.program("daimon"), "brief", cwd=scene.claude.cwd)]


class HandoffMcp(Keeper):
    """Tools for the model, and words that ask it to use them; nothing reminds it later."""

    name = "handoff-mcp"
    programs = ("handoff-mcp",)

    def install(self, claude: Claude, projects: list[Path]) -> None:
        claude.does("mcp", "add", "--scope", "user", "handoff", "--", self.program("handoff-mcp"))
        for project in projects:
            self.run(self.program("handoff-init"), "--dir", str(project))

    def texts(self, _scene: Scene) -> list[str]:
        return self._read(".handoff-mcp/vault/**/*.md")


PEERS = (ClaudeHandoff, AiHandoff, Daimon, HandoffMcp)


# Goes on in the background, as the client waits for no model when it ends.
_SESSION_END = """\
import json, subprocess, sys
event = json.load(sys.stdin)
subprocess.Popen(
    [sys.argv[1], "serialize", event["transcript_path"], "--project", event["cwd"]],
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    start_new_session=True,
)
"""
# Answers with the sentences that matter, found in the transcript that it is given.
_DISTILLER = """\
import json, re, sys
given = sys.stdin.read()
def item(pattern):
    found = re.findall(pattern, given)
    return {"text": found[-1] if found else "", "trust": "inferred", "quote": "", "importance": 8}
print(json.dumps({
    "session_id": "scripted",
    "working_context": {
        "active_topic": item(r"Round the tax of the invoices to \\w+ per line"),
        "open_questions": [item(r"Next, I'll round the shipping to \\w+ in the same way\\.")],
        "recent_decisions": [item(r"The tax is rounded per line in \\w+\\.py")],
    },
    "epistemic_snapshot": {"strong_beliefs": [], "uncertainties": [], "contradictions_flagged": []},
    "worker_queue": [],
}))
"""
