"""resume: what was left of a track, what moved since, and what comes next, in nine steps."""

from pydantic import Field

from handoffd.api.method import Method, Reply, Send
from handoffd.api.resolve import meant_session, named_project
from handoffd.api.tracks import SessionParams, progress, render_resumed
from handoffd.parts import Parts
from handoffd.workflow.resumption import Wanted


class ResumeParams(SessionParams):
    target: str = Field(default="", description="a record's path, or a track", max_length=4096)
    implement: bool = Field(default=False, description="make an epic-start record, too")


async def handle(parts: Parts, params: ResumeParams, send: Send) -> Reply:
    project = named_project(parts, params, create=True)
    state = meant_session(parts, project, params.session, params.target)
    wanted = Wanted(params.target, params.implement, bool(params.session))
    data = await parts.recorder.resume(project, state, wanted, progress(send))
    return Reply(data, exit=data["exit"], project=project.root.path)


METHOD = Method("resume", ResumeParams, handle, render_resumed, ("analysis",))
