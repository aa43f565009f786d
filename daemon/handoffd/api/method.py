"""What a handler is: a model of its parameters, a function, and a way to show its result."""

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
    """The parameters of a method; what it does not know is an error."""

    # Built when first asked for: most methods never are, and each model weighs half a megabyte.
    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=1 << 20, defer_build=True)


# What is no path is refused before anybody looks for it.
Directory = Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=PATH_MAX)]
Path = Annotated[str, Field(pattern=r"^[^\x00]+$", max_length=PATH_MAX)]


class InProject(Params):
    """A method about one project: that of `cwd`, or `project`, which may be relative to it."""

    cwd: Directory = Field(default="/", description="the caller's directory")
    project: Path | None = Field(default=None, description="a directory of the project")


@dataclass(slots=True)
class MethodReply:
    """What a handler found; `exit` is what a command line program should return."""

    data: Any
    exit: int = 0
    # Whose warnings concern the caller: one project's, or those of all.
    project: str = ""
    every_warning: bool = False
    silent: bool = False
    # Done when it was sent; whether the caller was still there to get it.
    after: Callable[[bool], None] | None = None
    watcher: Callable[[dict[str, Any]], None] | None = None
    # Who the connection is from now on, where it speaks MCP.
    caller: Caller | None = None


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    params: type[Params]
    handle: Callable[[Context, Any, Send], Awaitable[MethodReply]]
    render: Callable[[Any, Style], str]
    # Values that may have several lines when they are shown; all others have one.
    several_lines: Collection[str] = ()
    # Its data is a handoff, in which a call for a person is meant as one.
    calls: bool = False


def shown(
    method: Method, data: Any, style: Style, warnings: Iterable[Mapping[str, str]] | None = None
) -> str:
    """Show a result: as JSON with the same values, or as text, of data that is made harmless first.

    Nothing else calls `render`: what it adds (words, colours, our mark) is ours alone.
    """
    if style.as_json:
        known = isinstance(data, dict) and warnings is not None
        return plain_json({**data, "warnings": warnings} if known else data) + "\n"
    harmless = plain_values(data, method.several_lines, calls=method.calls)
    told = (f"warning: {plain_line(item['text'])} [{item['anchor']}]\n" for item in warnings or ())
    return "".join([method.render(harmless, style), *told])


def explain(name: str, problem: ValidationError) -> str:
    """Say what is wrong with the parameters of a method, and never what they are."""
    first = problem.errors(include_url=False, include_input=False)[0]
    if first["type"] == "string_unicode":
        why = "the name is not UTF-8"
    else:
        relative = first["loc"] == ("cwd",) and first["type"] == "string_pattern_mismatch"
        why = "must be an absolute path" if relative else first["msg"]
    return f"{name}: {'.'.join(map(str, first['loc']))}: {why}"
