"""create: a track record in nine steps; each is told as it is taken."""

from handoffd.api.method import Method, Reply, Send
from handoffd.api.resolve import meant_session, named_project
from handoffd.api.tracks import CreateParams, progress, render_created, request_from
from handoffd.parts import Parts


async def handle(parts: Parts, params: CreateParams, send: Send) -> Reply:
    project = named_project(parts, params, create=True)
    project.root.require()
    state = meant_session(parts, project, params.session, params.track)
    request = request_from(params, params.if_parallel)
    data = await parts.recorder.create(project, state, request, progress(send))
    return Reply(data, exit=data["exit"], project=project.root.path)


METHOD = Method("create", CreateParams, handle, render_created)
