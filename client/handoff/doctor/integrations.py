"""Check the surroundings: configuration, git, handoff directories, links, another `flow`."""

import os
import shutil

from handoff import local
from handoff.common import paths, programs
from handoff.common.errors import HandoffError
from handoff.doctor.environment import Environment, working_directory
from handoff.doctor.finding import Finding, bad, note, ok


def examine(_environment: Environment) -> list[Finding]:
    found = []
    if programs.find("git") is None:
        found.append(note("git is not on PATH", "Install it to see branches and files."))
    problem = local.daemon_code().config_problem()
    config = paths.config_file()
    if problem:
        found.append(bad("the configuration is broken", " ".join(problem.splitlines())))
    else:
        found.append(ok(config if os.path.exists(config) else "default configuration"))
        found += _handoffs()
    return found + _flow()


def _handoffs() -> list[Finding]:
    """Return the problems of handoff directories, and of the linked programs."""
    code = local.daemon_code()
    try:
        said = [*code.contract_findings(), *code.link_findings(working_directory())]
    except HandoffError as problem:
        return [note(problem.title, problem.hint)]
    return [
        Finding(item["level"], item["text"], item["remedy"], int(item["level"] == "bad"))
        for item in said
    ]


def _flow() -> list[Finding]:
    """Return which program wins if two of them are called `flow`, or how to get ours."""
    order = [path for path in dict.fromkeys(os.environ.get("PATH", "").split(":")) if path]
    flows = [path for path in (f"{directory}/flow" for directory in order) if shutil.which(path)]
    ours = [path for path in flows if os.path.basename(os.path.realpath(path)) == "handoff"]
    others = [path for path in flows if path not in ours]
    if not flows:
        return [ok("there is no `flow`; to make the link: handoff setup --with flow")]
    if not ours or not others:
        return []
    first = flows[0]
    if first in ours:
        text = f"our `flow` ({first}) shadows another program: {', '.join(others)}"
        return [note(text, f"If you need the other one, remove {first}; use `handoff`.")]
    text = f"another program named `flow` ({first}) shadows ours ({ours[0]})"
    return [note(text, "Use `handoff save` and `handoff inject` instead.")]
