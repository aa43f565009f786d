"""A scripted session, written as Claude Code writes its transcripts."""

import itertools
import json

from handoffd.agents.claude_code.records import parse_line
from handoffd.projects.lanes import Lane, ProjectView, compose
from handoffd.session.fold import fold
from handoffd.session.state import SessionState

ROOT = "/home/ann/shop"


class Told:
    """Collects the lines of a transcript; every step is a record some seconds after the last."""

    def __init__(self, session_id: str = "s", **envelope):
        self.session_id = session_id
        self.envelope = {"cwd": ROOT, "gitBranch": "main", "entrypoint": "cli"} | envelope
        self.lines: list[bytes] = []
        self.seconds = itertools.count(1)
        self.calls = itertools.count(1)
        self.parent: str | None = None

    def record(self, kind: str, **fields) -> "Told":
        second = next(self.seconds)
        uuid = f"u{second:04d}-0000-4000-8000-000000000000"
        time = f"2026-03-01T09:{second // 60:02d}:{second % 60:02d}.000Z"
        line = {"parentUuid": self.parent, "isSidechain": False, "sessionId": self.session_id}
        line |= self.envelope | {"type": kind, "uuid": uuid, "timestamp": time} | fields
        self.parent = uuid
        return self.raw(line)

    def raw(self, line: dict) -> "Told":
        """Append a record as it is, such as one without a uuid."""
        self.lines.append(json.dumps(line, ensure_ascii=False).encode(errors="backslashreplace"))
        return self

    # A person

    def prompt(self, text, **fields) -> "Told":
        return self.record("user", message={"role": "user", "content": text}, **fields)

    def result(self, call: str, text="", *, error: bool | None = None, **fields) -> "Told":
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        if error is not None:
            block["is_error"] = error
        return self.prompt([block], **fields)

    def command(self, name: str, arguments: str = "") -> "Told":
        """Type a slash command."""
        return self.prompt(
            f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
            f"<command-args>{arguments}</command-args>"
        )

    def shell(self, command: str, output: str = "(Bash completed with no output)") -> "Told":
        """Run a command with `!`."""
        self.prompt(f"<bash-input>{command}</bash-input>")
        return self.prompt(f"<bash-stdout>{output}</bash-stdout><bash-stderr></bash-stderr>")

    def queue(self, operation: str, content: str = "") -> "Told":
        """Type a prompt during work, or let it be taken up."""
        line = {"type": "queue-operation", "operation": operation, "sessionId": self.session_id}
        return self.raw(line | ({"content": content} if content else {}))

    # The assistant

    def say(self, text: str, **fields) -> "Told":
        return self.blocks({"type": "text", "text": text}, **fields)

    def blocks(self, *blocks: dict, **fields) -> "Told":
        return self.record(
            "assistant",
            message={"role": "assistant", "model": "claude-opus-5-5", "content": list(blocks)},
            **fields,
        )

    def use(self, name: str, **given) -> str:
        """Call a tool; returns the id of the call."""
        call = f"t{next(self.calls)}"
        self.blocks({"type": "tool_use", "id": call, "name": name, "input": given})
        return call

    def run(self, command: str, output: str = "", code: int = 0, **extra) -> "Told":
        """Run a command in the shell, as newer clients write it down."""
        call = self.use("Bash", command=command, description="Run it")
        if code:
            text = f"Exit code {code}\n{output}"
            return self.result(call, text, error=True, toolUseResult=f"Error: {text}")
        found = {"stdout": output, "stderr": "", "interrupted": False} | extra
        return self.result(call, output, error=False, toolUseResult=found)

    def edit(self, path: str, before: str = "", after: str = "x", *, error=None) -> "Told":
        given = {"file_path": f"{ROOT}/{path}", "old_string": before, "new_string": after}
        call = self.use("Edit", **given)
        return self.result(call, "done", error=error)

    def approve(self, plan: str) -> "Told":
        """Propose a plan, which the person approves."""
        call = self.use("ExitPlanMode", plan=plan)
        text = (
            f"User has approved your plan. You can now start coding.\n\n## Approved Plan:\n{plan}"
        )
        return self.result(call, text, toolUseResult={"plan": plan, "isAgent": False})

    # The client

    def compact(self, *pending: str) -> "Told":
        """Compact the conversation; the summary names what is pending."""
        self.record("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
        steps = "".join(f"   - {step}\n" for step in pending)
        return self.prompt(
            "This session is being continued from a previous conversation.\n\nSummary:\n"
            "1. Primary Request and Intent:\n   Write the totals and the taxes of the shop.\n"
            f"7. Pending Tasks:\n{steps}8. Current Work:\n   The totals were being written.\n",
            isCompactSummary=True,
        )

    # Its results

    @property
    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def folded(self) -> SessionState:
        return folded(self.data, self.session_id)

    def view(self) -> ProjectView:
        return view(self.folded())


def snapshot(story: Told, prompt: str, *, update: str = "", **entries: str | None) -> Told:
    """Write the state of the tracked files, as the client does at a prompt or a first edit."""
    backups = {
        name.replace("_py", ".py"): {"backupFileName": version} for name, version in entries.items()
    }
    return story.raw(
        {
            "type": "file-history-snapshot",
            "messageId": update or prompt,
            "snapshot": {"messageId": prompt, "trackedFileBackups": backups},
            "isSnapshotUpdate": bool(update),
        }
    )


def delta(story: Told, path: str, version: str | None) -> Told:
    return story.raw(
        {
            "type": "file-history-delta",
            "messageId": "m",
            "snapshotMessageId": story.parent,
            "trackingPath": path,
            "backup": {"backupFileName": version},
        }
    )


class Tree(Told):
    """A session whose prompts may hang on any earlier record."""

    def __init__(self, newest: bool = True):
        super().__init__()
        self.newest = newest
        self.parents: list[str | None] = []
        self.prompts: list[str] = []

    @property
    def next_uuid(self) -> str:
        """The uuid of the record that comes next."""
        written = sum(b'"timestamp"' in line for line in self.lines)
        return f"u{written + 1:04d}-0000-4000-8000-000000000000"

    def ask(self, text: str, parent: str | None = "last") -> "Tree":
        """Ask below the last record, or below another one."""
        if parent != "last":
            self.parent = parent
        self.parents.append(self.parent)
        self.prompt(text)
        self.prompts.append(self.parent or "")
        return self

    def stand(self, **entries: str | None) -> "Tree":
        snapshot(self, self.prompts[-1], **entries)
        return self

    def change(self, path: str, version: str | None, *, known: bool = False) -> "Tree":
        """Edit a file; the client keeps its content before the first edit of a turn."""
        if not known and self.newest:
            delta(self, path, version)
        self.edit(path)
        if not known and not self.newest:
            name = path.replace(".py", "_py")
            snapshot(self, self.prompts[-1], update=self.parent or "", **{name: version})
        return self

    def done(self, text: str) -> "Tree":
        self.say(text).record("system", subtype="turn_duration", durationMs=1000)
        return self


def folded(data: bytes, session_id: str = "s") -> SessionState:
    """Fold the bytes of a transcript."""
    state, offset = SessionState(session_id), 0
    for line in data.split(b"\n"):
        for record in parse_line(offset, line).records:
            fold(state, record, session_id)
        offset += len(line) + 1
    return state


def view(state: SessionState) -> ProjectView:
    """Compose the checkpoint of one session alone."""
    return compose(ROOT, [Lane(state, 0.0)], {}, None, [])
