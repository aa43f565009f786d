"""hook: handle a hook of a client, and return the text for its session."""

from typing import Any

from pydantic import Field

from handoffd.agents.agent import is_absolute
from handoffd.agents.registry import agent_of
from handoffd.api.method import Directory, Method, MethodReply, Params, Send
from handoffd.api.resolve import hook_fields, hook_project, learn_root, texts_of
from handoffd.api.terminal_text import Style
from handoffd.context import Context
from handoffd.hooks.session_hooks import HookEvent


class HookParams(Params):
    cwd: Directory = Field(default="/", description="the caller's directory")
    hook: str = Field(default="", description="the JSON that Claude Code gave the hook")
    environment: dict[str, str] = Field(
        default={},
        description="CLAUDE_PROJECT_DIR, CLAUDE_CODE_SESSION_ID, CLAUDE_CODE_ENTRYPOINT"
        " and CLAUDE_PLUGIN_ROOT",
    )


async def handle(context: Context, params: HookParams, _send: Send) -> MethodReply:
    fields = hook_fields(params.hook)
    texts = texts_of(fields)
    transcript = texts.get("transcript_path", "")
    if is_absolute(transcript):
        learn_root(context, transcript)
        context.daemon.transcript_watcher.hint(transcript)
    environment, agent = params.environment, agent_of(transcript)
    heard = HookEvent(
        texts.get("hook_event_name", ""),
        texts.get("session_id") or environment.get(agent.session_variable, ""),
        hook_project(context, params.cwd, texts, environment),
        fields,
        agent,
        agent.is_headless(environment),
    )
    told = await context.daemon.session_hooks.answer(heard)
    plugin_root = environment.get(agent.plugin_variable, "")
    return MethodReply(
        {"text": told.text},
        silent=True,
        after=lambda delivered: context.daemon.session_hooks.remember(
            heard, told, plugin_root, delivered=delivered
        ),
    )


def render(data: dict[str, Any], _style: Style) -> str:
    return str(data["text"])


METHOD = Method("hook", HookParams, handle, render)
