"""The five tools by which Chat and Code share a thread, once for stdio and HTTP.

tools.json is the list that a model reads; a test compares its arguments with those here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from handoff.common.errors import HandoffError
from handoffd.threads.service import Result, ThreadService, pasted
from handoffd.threads.thread_text import mend

Client = Literal["chat", "code"]
Kind = Literal["context", "task", "progress", "question", "decision", "done"]
CLOSE = "close_handoff"
_NAME_SHOWN_MAX = 80
_PROBLEMS_MAX = 5
# Pydantic's errors, in words by which a model can correct its call.
_ERROR_TEXTS = {
    "missing": "{name} is missing",
    "extra_forbidden": "there is no argument {name!r}",
    "literal_error": "{name} must be {expected}",
    "string_type": "{name} must be a text",
    "int_type": "{name} must be a whole number",
    "int_from_float": "{name} must be a whole number",
    "greater_than_equal": "{name} must be {ge} or more",
    "model_type": "{name} must be an object",
}


def _mended(value: Any) -> Any:
    """Replace half characters (lone surrogates), which no database accepts."""
    return mend(value) if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(_mended)]
_AsClient = Client | None
_UpTo = Annotated[int | None, Field(ge=0)]


class Arguments(BaseModel):
    """The arguments of a tool; an unknown argument is an error, not a guess."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class CreateArguments(Arguments):
    title: _Text
    content: _Text
    project: _Text | None = None
    as_client: _AsClient = None


class GetArguments(Arguments):
    id: _Text
    as_client: _AsClient = None


class AddArguments(Arguments):
    id: _Text
    type: Kind
    content: _Text
    as_client: _AsClient = None


class MarkArguments(Arguments):
    id: _Text
    up_to: _UpTo = None
    as_client: _AsClient = None


class CloseArguments(Arguments):
    id: _Text
    # It makes no difference which side closes; but Code is told to name itself on every call.
    as_client: Annotated[Client | None, Field(exclude=True)] = None


@dataclass(frozen=True, slots=True)
class Tool:
    arguments: type[Arguments]
    run: Callable[[ThreadService, Any, str, str], Result]


TOOLS = {
    "create_handoff": Tool(
        CreateArguments,
        lambda threads, given, client, once: threads.create(
            given.title, given.content, given.project, client, once
        ),
    ),
    "get_handoff": Tool(
        GetArguments, lambda threads, given, client, _once: threads.get(given.id, client)
    ),
    "add_to_handoff": Tool(
        AddArguments,
        lambda threads, given, client, once: threads.add(
            given.id, given.type, given.content, client, once
        ),
    ),
    "mark_handoff_read": Tool(
        MarkArguments,
        lambda threads, given, client, once: threads.mark(given.id, client, given.up_to, once),
    ),
    CLOSE: Tool(CloseArguments, lambda threads, given, _client, _once: threads.close(given.id)),
}


def call(
    threads: ThreadService, name: str, arguments: Any, client: str, once: str = ""
) -> tuple[Result, str]:
    """Run a tool, and return its result and the side for which it was called.

    An error in the call is a HandoffError, so that a model can read it and correct the call.
    """
    tool = TOOLS.get(name)
    if tool is None:
        shown = name[:_NAME_SHOWN_MAX]
        raise HandoffError(f"There is no tool {shown!r}.", f"Tools: {', '.join(TOOLS)}")
    try:
        given = tool.arguments.model_validate({} if arguments is None else arguments)
    except ValidationError as problem:
        raise HandoffError(f"{name}: {_explain(problem)}.", _usage(tool)) from None
    client = getattr(given, "as_client", None) or client
    return tool.run(threads, given, client, once), client


def used_as_code(result: Result, client: str, arguments: Any) -> str:
    """Return the id of the thread that a call used as code, or an empty text."""
    if client != "code" or result.get("closed"):
        return ""
    return str(result["handoff"]["id"]) if "handoff" in result else pasted(arguments["id"])


def _explain(problem: ValidationError) -> str:
    found = problem.errors(include_url=False, include_input=False)
    return "; ".join(map(_error_text, found[:_PROBLEMS_MAX]))


def _error_text(problem: Any) -> str:
    name = str(problem["loc"][0])[:_NAME_SHOWN_MAX] if problem["loc"] else "arguments"
    text = _ERROR_TEXTS.get(problem["type"], "{name}: {msg}")
    return text.format(name=name, msg=problem["msg"], **problem.get("ctx", {}))


def _usage(tool: Tool) -> str:
    given = tool.arguments.model_fields
    fields = {name: field for name, field in given.items() if not field.exclude}
    needed = ", ".join(name for name, field in fields.items() if field.is_required())
    optional = ", ".join(name for name, field in fields.items() if not field.is_required())
    return f"Arguments: {needed}" + (f"; optional: {optional}" if optional else "")
