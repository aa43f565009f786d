"""Transcripts that look like Claude Code's: invented text, the real shapes and sizes.

Most of the bytes are tool results, which the editor writes twice; the median line has 1 KB and
a line in a hundred more than 30 KB.
"""

import json
import random
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from invented_words import WORDS

_DRAW = random.Random(20)  # the same text in every run
_TEXT = " ".join(_DRAW.choice(WORDS) + "." * (_DRAW.random() < 0.07) for _ in range(60_000))


def timestamp(ago_seconds: float = 0.0) -> str:
    moment = datetime.fromtimestamp(time.time() - ago_seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Script:
    """Writes the records of one session."""

    def __init__(
        self, cwd: str, seed: int = 0, ago_seconds: float = 0.0, entrypoint: str = "cli"
    ) -> None:
        self._random = random.Random(seed)
        self.id = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        self.cwd = cwd
        self.ago_seconds = ago_seconds
        self.entrypoint = entrypoint
        # Of a sub-agent's, the session it works for.
        self.session_id = self.id
        self._parent: str | None = None

    def agent(self) -> "Script":
        """Return the script of a sub-agent of this session."""
        found = Script(self.cwd, self._random.getrandbits(64), entrypoint=self.entrypoint)
        found.session_id = self.id
        return found

    def _line(self, kind: str, **fields) -> bytes:
        record_id = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        record = {
            "parentUuid": self._parent,
            "isSidechain": self.session_id != self.id,
            **fields,
            "type": kind,
            "uuid": record_id,
            "timestamp": timestamp(self.ago_seconds),
            "userType": "external",
            "entrypoint": self.entrypoint,
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": "2.1.325",
            "gitBranch": "main",
        }
        self._parent = record_id
        return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"

    def words(self, characters: int) -> str:
        """Return so much text, in lines as short as those of code, each from another place."""
        parts = []
        while characters > 0:
            start = self._random.randrange(len(_TEXT) - 400)
            parts.append(_TEXT[start : start + min(characters, 8 + start % 70)])
            characters -= len(parts[-1]) + 1
        return "\n".join(parts)

    def _assistant(self, block: dict) -> bytes:
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": 1187,
            "cache_read_input_tokens": 48211,
            "output_tokens": 212,
            "service_tier": "standard",
        }
        message = {
            "model": "claude-opus-4-5",
            "id": "msg_" + self._parent_id(),
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return self._line("assistant", message=message, requestId="req_" + self._parent_id())

    def _parent_id(self) -> str:
        return (self._parent or "0" * 24).replace("-", "")[:24]

    def prompt(self, text: str) -> bytes:
        return self._line(
            "user", message={"role": "user", "content": text}, permissionMode="default"
        )

    def say(self, text: str) -> bytes:
        return self._assistant({"type": "text", "text": text})

    def compaction(self) -> bytes:
        told = {"trigger": "auto", "preTokens": 150_000}
        text = "Conversation compacted"
        return self._line("system", subtype="compact_boundary", content=text, compactMetadata=told)

    def edit(self, path: str) -> Iterator[bytes]:
        """Yield a call that edits a file, and its result."""
        return self._tool(path, 0.0)

    def tool(self) -> Iterator[bytes]:
        """Yield a call of any tool, and its result; a few are very large."""
        return self._tool(f"{self.cwd}/source/part{self._random.randrange(60)}.py")

    def _tool(self, path: str, choice: float | None = None) -> Iterator[bytes]:
        size = int(self._random.lognormvariate(7.0, 1.4))
        call = "toolu_" + self._parent_id()
        choice = self._random.random() if choice is None else choice
        given = {"command": self.words(60), "description": self.words(30)}
        block = {"type": "tool_use", "id": call, "name": "Bash", "input": given}
        result = {"stdout": self.words(size), "stderr": "", "interrupted": False, "isImage": False}
        shown = result["stdout"]
        if choice < 0.25:
            old, new = self.words(size // 3), self.words(size // 3)
            given = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
            block |= {"name": "Edit", "input": given}
            patch = [{"oldStart": 8, "oldLines": 7, "newStart": 8, "newLines": 9, "lines": [new]}]
            shown = f"The file {path} has been updated."
            result = {"filePath": path, "oldString": old, "newString": new}
            result |= {"originalFile": self.words(3 * size), "structuredPatch": patch}
        elif choice < 0.5:
            block |= {"name": "Read", "input": {"file_path": path}}
            found = {"filePath": path, "content": shown, "numLines": 80, "startLine": 1}
            result = {"type": "text", "file": found}
        yield self._assistant(block)
        answer = {"tool_use_id": call, "type": "tool_result", "content": shown}
        message = {"role": "user", "content": [answer]}
        yield self._line("user", message=message, toolUseResult=result)

    def metadata(self) -> bytes:
        record = {"type": "last-prompt", "lastPrompt": self.words(120), "sessionId": self.id}
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"

    def turns(self, size_bytes: int) -> Iterator[bytes]:
        """Yield whole records until there are so many bytes."""
        written = 0
        while written < size_bytes:
            turn = [self.prompt("Find out why " + self.words(180))]
            for _ in range(self._random.randrange(4, 14)):
                if self._random.random() < 0.4:
                    turn.append(self.say(self.words(int(self._random.lognormvariate(5.5, 0.8)))))
                turn += self.tool()
            turn += [self.say("Done: " + self.words(300)), self.metadata()]
            for line in turn:
                written += len(line)
                yield line
                if written >= size_bytes:
                    return
