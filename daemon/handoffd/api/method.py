"""Define a method: a model of its parameters, a handler, and a function that shows its result."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from handoff.common.paths import PATH_MAX
from handoff.common.plain_text import plain_json, plain_line, plain_values
from handoffd.api.caller import Caller
from handoffd.api.terminal_text import Style
from handoffd.context import Context

Send = Callable[[dict[str, Any]], None]


class Params(BaseModel):
    """The parameters of a method; an unknown parameter is an error."""

    # Built at the first call: most methods are never called, and each model takes half a megabyte.
    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=1 << 20, defer_build=True)


# A text that is no path is refused before any code looks for it.
Directory = Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=PATH_MAX)]
Path = Annotated[str, Field(pattern=r"^[^\x00]+$", max_length=PATH_MAX)]


class InProject(Params):
    """A method about one project: that of `cwd`, or `project`, which may be relative to it."""

    cwd: Directory = Field(default="/", description="the caller's directory")
    project: Path | None = Field(default=None, description="a directory of the project")


@dataclass(slots=True)
class MethodReply:
    """The result of a handler; `exit` is the exit code for a command line program."""

    data: Any
    exit: int = 0
    # The warnings that concern the caller: those of one project, or of all.
    project: str = ""
    every_warning: bool = False
    silent: bool = False
    # Called after the reply was sent, with True if the caller was still there to receive it.
    after: Callable[[bool], None] | None = None
    # Called if the result was rendered as text, which a person reads.
    printed: Callable[[], None] | None = None
    watcher: Callable[[dict[str, Any]], None] | None = None
    # The caller on this connection from now on, if it speaks MCP.
    caller: Caller | None = None


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    params: type[Params]
    handle: Callable[[Context, Any, Send], Awaitable[MethodReply]]
    render: Callable[[Any, Style], str]
    # Values that may have several lines in a text; all others are shown in one line.
    several_lines: Collection[str] = ()
    # The data is a handoff, in which a call for a person is meant as such.
    calls: bool = False


def render_reply(
    method: Method, data: Any, style: Style, warnings: Iterable[Mapping[str, str]] | None = None
) -> str:
    """Return a result as JSON with the same values, or as text of data made harmless first.

    Nothing else calls `render`, so that its additions (words, colours, our mark) are ours alone.
    """
    if style.as_json:
        known = isinstance(data, dict) and warnings is not None
        return plain_json({**data, "warnings": warnings} if known else data) + "\n"
    harmless = plain_values(data, method.several_lines, calls=method.calls)
    lines = (f"warning: {plain_line(item['text'])} [{item['anchor']}]\n" for item in warnings or ())
    return "".join([method.render(harmless, style), *lines])


def explain(name: str, problem: ValidationError) -> str:
    """Return the error in the parameters of a method, without their values."""
    first = problem.errors(include_url=False, include_input=False)[0]
    if first["type"] == "string_unicode":
        why = "the name is not UTF-8"
    else:
        relative = first["loc"] == ("cwd",) and first["type"] == "string_pattern_mismatch"
        why = "must be an absolute path" if relative else first["msg"]
    return f"{name}: {'.'.join(map(str, first['loc']))}: {why}"
