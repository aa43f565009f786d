"""resume: show the last record of a track, the changes since and the next work, in nine steps."""

from pydantic import Field

from handoffd.api.method import Method, MethodReply, Send
from handoffd.api.resolve import meant_session, named_project
from handoffd.api.track_results import SessionParams, progress, render_resumed
from handoffd.context import Context
from handoffd.tracks.resume_state import ResumeRequest


class ResumeParams(SessionParams):
    target: str = Field(default="", description="a record's path, or a track", max_length=4096)
    implement: bool = Field(default=False, description="make an epic-start record, too")


async def handle(context: Context, params: ResumeParams, send: Send) -> MethodReply:
    project = named_project(context, params, create=True)
    state = meant_session(context, project, params.session, params.target)
    wanted = ResumeRequest(params.target, params.implement, bool(params.session))
    data = await context.record_requests.resume(project, state, wanted, progress(send))
    return MethodReply(data, exit=data["exit"], project=project.root.path)


METHOD = Method("resume", ResumeParams, handle, render_resumed, ("analysis",))
