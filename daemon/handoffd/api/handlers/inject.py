"""inject: return the brief of a new session; `save_state` serves the PreCompact hook."""

from typing import Any, Literal

from pydantic import Field

from handoffd.api.method import InProject, Method, MethodReply, Send
from handoffd.api.resolve import hook_fields, hook_project, learn_root, named_project, texts_of
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.hooks.brief import aged
from handoffd.runtime import clock


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


async def handle(context: Context, params: InjectParams, _send: Send) -> MethodReply:
    hook = texts_of(hook_fields(params.hook))
    learn_root(context, hook.get("transcript_path", ""))
    if params.project:
        project = named_project(context, params)
    else:
        project = hook_project(context, params.cwd, hook, params.environment)
    if params.save_state:
        # The caller waits for 100 ms at most; the file is written afterwards.
        context.daemon.checkpoint_writer.write_now(project)
        return MethodReply({"project": project.root.path, "text": ""}, silent=True)
    if context.policy.refusal(project.id, project.root.path):
        context.daemon.brief_writer.drop(project)
        return MethodReply({"project": project.root.path, "text": ""}, silent=True)
    context.project_states.refresh(project)
    handoffs = await context.daemon.brief_writer.recent_handoffs(project)
    text = context.daemon.brief_writer.compose(
        project, context.project_states.view(project), handoffs, params.level
    )
    text = aged(text, clock.wall())
    return MethodReply({"project": project.root.path, "text": text}, silent=True)


def render(data: dict[str, Any], _style: Style) -> str:
    return str(data["text"])


METHOD = Method("inject", InjectParams, handle, render)
