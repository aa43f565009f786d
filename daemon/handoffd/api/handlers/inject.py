"""inject: what a new session is told; and the PreCompact hook's `save_state`."""

from typing import Any, Literal

from pydantic import Field

from handoffd.api.method import InProject, Method, Reply, Send
from handoffd.api.resolve import hook_fields, hook_project, learn_root, named_project, texts_of
from handoffd.api.text import Style
from handoffd.parts import Parts


class InjectParams(InProject):
    level: Literal["L0", "L1", "L2", "L3"] = Field(
        default="L1",
        description="L0 one line, L1 five files, L2 all files and lists, L3 everything",
    )
    save_state: bool = Field(default=False, description="write the checkpoint, say nothing")
    hook: str = Field(default="", description="the JSON that Claude Code gave the hook")
    environment: dict[str, str] = Field(
        default={}, description="CLAUDE_PROJECT_DIR and CLAUDE_CODE_SESSION_ID"
    )


async def handle(parts: Parts, params: InjectParams, _send: Send) -> Reply:
    hook = texts_of(hook_fields(params.hook))
    learn_root(parts, hook.get("transcript_path", ""))
    if params.project:
        project = named_project(parts, params)
    else:
        project = hook_project(parts, params.cwd, hook, params.environment)
    if params.save_state:
        # The caller has 100 ms; the writing goes on without it.
        parts.scribe.write_now(project)
        return Reply({"project": project.root.path, "text": ""}, silent=True)
    if parts.gate.refusal(project.id, project.root.path):
        parts.scribe.drop_briefs(project)
        return Reply({"project": project.root.path, "text": ""}, silent=True)
    parts.board.refresh(project)
    newest = await parts.board.newest_handoff(project)
    text = parts.board.brief(project, parts.board.view(project), newest, params.level)
    return Reply({"project": project.root.path, "text": text}, silent=True)


def render(data: dict[str, Any], _style: Style) -> str:
    return str(data["text"])


METHOD = Method("inject", InjectParams, handle, render)
