"""hook: what a hook of Claude Code says, and what its session is told."""

from typing import Any

from pydantic import Field

from handoffd.api.method import Directory, Method, Params, Reply, Send
from handoffd.api.resolve import hook_fields, hook_project, learn_root, texts_of
from handoffd.api.text import Style
from handoffd.parts import Parts
from handoffd.transcript.records import is_absolute
from handoffd.usher import Heard

HEADLESS = "sdk"


class HookParams(Params):
    cwd: Directory = Field(default="/", description="the caller's directory")
    hook: str = Field(default="", description="the JSON that Claude Code gave the hook")
    environment: dict[str, str] = Field(
        default={},
        description="CLAUDE_PROJECT_DIR, CLAUDE_CODE_SESSION_ID, CLAUDE_CODE_ENTRYPOINT"
        " and CLAUDE_PLUGIN_ROOT",
    )


async def handle(parts: Parts, params: HookParams, _send: Send) -> Reply:
    fields = hook_fields(params.hook)
    texts = texts_of(fields)
    transcript = texts.get("transcript_path", "")
    if is_absolute(transcript):
        learn_root(parts, transcript)
        parts.lookout.hint(transcript)
    environment = params.environment
    heard = Heard(
        texts.get("hook_event_name", ""),
        texts.get("session_id") or environment.get("CLAUDE_CODE_SESSION_ID", ""),
        hook_project(parts, params.cwd, texts, environment),
        fields,
        environment.get("CLAUDE_CODE_ENTRYPOINT", "").startswith(HEADLESS),
    )
    told = await parts.usher.answer(heard)
    plugin_root = environment.get("CLAUDE_PLUGIN_ROOT", "")
    return Reply(
        {"text": told.text},
        silent=True,
        after=lambda delivered: parts.usher.remember(heard, told, plugin_root, delivered=delivered),
    )


def render(data: dict[str, Any], _style: Style) -> str:
    return str(data["text"])


METHOD = Method("hook", HookParams, handle, render)
