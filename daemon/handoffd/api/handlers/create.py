"""create: make a track record in nine steps; each step is reported when it is taken."""

from handoffd.api.method import Method, MethodReply, Send
from handoffd.api.resolve import meant_session, named_project
from handoffd.api.track_results import CreateParams, progress, render_created, request_from
from handoffd.context import Context


async def handle(context: Context, params: CreateParams, send: Send) -> MethodReply:
    project = named_project(context, params, create=True)
    project.root.require()
    state = meant_session(context, project, params.session, params.track)
    request = request_from(params, params.if_parallel)
    data = await context.record_requests.create(project, state, request, progress(send))
    return MethodReply(data, exit=data["exit"], project=project.root.path)


METHOD = Method("create", CreateParams, handle, render_created)
