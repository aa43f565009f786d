"""Transcripts by the megabyte: most of it tool results, written twice as in real ones."""

import json
import random
import uuid
from pathlib import Path

from conftest import Session, timestamp
from invented_words import WORDS

MEGABYTE = 1 << 20
_CHANCE = random.Random(26)
_USAGE = {"input_tokens": 4, "cache_read_input_tokens": 48211, "output_tokens": 212}


def text(size: int) -> str:
    """Return so many characters, in lines as short as those of code."""
    words = (_CHANCE.choice(WORDS) + ("\n" if n % 11 == 0 else " ") for n in range(size // 5))
    return "".join(words)[:size]


def block(cwd: str, size_bytes: int, ago_seconds: float = 0.0) -> bytes:
    """Return records of a session at work, so many bytes of them."""
    session = Session(Path("/tmp"), cwd, "bulk")
    at = {"timestamp": timestamp(ago_seconds)}
    results = [text(int(_CHANCE.lognormvariate(7.2, 1.4))) for _ in range(200)]
    found, size = [session.line("user", message={"content": "Rework the parser"}, **at)], 0
    while size < size_bytes:
        call, shown = uuid.UUID(int=_CHANCE.getrandbits(128)).hex, _CHANCE.choice(results)
        path = f"{cwd}/part{_CHANCE.randrange(60)}.py"
        use = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": path}}
        result = {"type": "tool_result", "tool_use_id": call, "content": shown}
        again = {"type": "text", "file": {"filePath": path, "content": shown}}
        said = {"type": "text", "text": text(250)}
        found += [
            session.line("assistant", message={"content": [use], "usage": _USAGE}, **at),
            session.line("user", message={"content": [result]}, toolUseResult=again, **at),
            session.line("assistant", message={"content": [said], "usage": _USAGE}, **at),
        ]
        size += sum(map(len, found[-3:]))
    return b"".join(found)


def hook(project: Path, session_id: str) -> dict:
    """Return the parameters of a prompt's hook."""
    fields = {"hook_event_name": "UserPromptSubmit", "session_id": session_id, "cwd": str(project)}
    return {"cwd": str(project), "hook": json.dumps(fields)}
