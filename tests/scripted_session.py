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

    # Its results

    @property
    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def folded(self) -> SessionState:
        return folded(self.data, self.session_id)

    def view(self) -> ProjectView:
        return view(self.folded())


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
