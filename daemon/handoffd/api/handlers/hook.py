"""hook: what a hook of Claude Code says, and what its session is told."""

from typing import Any

from pydantic import Field

from handoffd.api.method import Method, Params, Reply, Send
from handoffd.api.resolve import hook_fields, hook_project, learn_root
from handoffd.api.text import Style
from handoffd.parts import Parts


class HookParams(Params):
    cwd: str = Field(default="/", description="the caller's directory", pattern=r"^/[^\x00]*$")
    hook: str = Field(default="", description="the JSON that Claude Code gave the hook")
    environment: dict[str, str] = Field(
        default={},
        description="CLAUDE_PROJECT_DIR, CLAUDE_CODE_SESSION_ID, CLAUDE_CODE_ENTRYPOINT"
        " and CLAUDE_PLUGIN_ROOT",
    )


async def handle(parts: Parts, params: HookParams, _send: Send) -> Reply:
    hook = hook_fields(params.hook)
    learn_root(parts, hook.get("transcript_path", ""))
    project = hook_project(parts, params.cwd, hook, params.environment)
    text = ""
    if hook.get("hook_event_name") == "SessionStart":
        parts.board.refresh(project)
        text = parts.board.brief(project, parts.board.view(project))
    return Reply({"text": text}, silent=True)


def render(data: dict[str, Any], _style: Style) -> str:
    return str(data["text"])


METHOD = Method("hook", HookParams, handle, render)
