"""The commands about track records without a daemon: the same steps, from what is on disk."""

from collections.abc import Callable
from typing import Any

from handoffd.api.handlers import auto, create, resume, trigger, triggers
from handoffd.api.method import InProject, Method, shown
from handoffd.api.resolve import directory_of
from handoffd.api.terminal_text import Style
from handoffd.api.track_results import CreateParams, described, request_from
from handoffd.config import Config
from handoffd.contract.composition import Surroundings, account
from handoffd.contract.contract_writer import ask_git
from handoffd.offline.contract import leave, transcript_state
from handoffd.offline.method import open_core, read_params
from handoffd.projects.project_root import find_root
from handoffd.projects.registry import Project
from handoffd.runtime import clock
from handoffd.runtime.directories import make_state_dir
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing
from handoffd.tracks.auto_mode import decide
from handoffd.tracks.create import create as make
from handoffd.tracks.create import preview
from handoffd.tracks.create_state import CreateRequest
from handoffd.tracks.outcome import is_made, settle
from handoffd.tracks.record_maker import links_of
from handoffd.tracks.resume import resume as take_up
from handoffd.tracks.resume_state import ResumeRequest
from handoffd.tracks.steps import Step, Tell
from handoffd.tracks.work_context import HandedOffSession, WorkContext
from handoffd.triggers.record_requests import RECORDED, asked, implemented, implementing

Told = Callable[[dict[str, Any]], None]


def run(
    command: str, params: dict[str, Any], style: dict[str, Any], config: Config, told: Told
) -> tuple[dict[str, Any], str]:
    """Do what the daemon would, and show it as it would."""
    method, act = _COMMANDS[command]
    given = read_params(method, params)
    with open_core() as core:
        here = _Here(core, config, given, lambda step: told(described(step)))
        data = act(here, given)
    return data, shown(method, data, Style.model_validate(style))


class _Here:
    """A project and its session, as the disk shows them."""

    def __init__(self, core: CoreStore, config: Config, params: InProject, tell: Tell) -> None:
        self.core, self.config, self.tell = core, config, tell
        root = find_root(directory_of(params))
        root.require()
        self.project = Project(core.project_id(root.path, clock.iso()) or "", root)
        session: str = getattr(params, "session", "")
        found = transcript_state(session, config) if session else None
        self.state: SessionState | None = found or (SessionState(session) if session else None)

    @property
    def ports(self) -> WorkContext:
        root, state = self.project.root.path, self.state
        told = None
        if state and state.records:
            facts = ask_git(root)
            around = Surroundings(clock.day(), facts.uncommitted, facts.unpushed)
            told = account(state, root, around)
        session = HandedOffSession(state, told is not None, told)
        links = links_of(self.config, make_state_dir())
        return WorkContext(root, self.project.id, self.core, links, session)

    def make(self, request: CreateRequest, firing: Firing) -> dict[str, Any]:
        """Make a record, leave the contract, and enter what came of it."""
        found = make(self.ports, request, self.tell, firing.cause)
        found["contract"] = ""
        if is_made(found) and self.state:
            root = self.project.root.path
            found["contract"] = leave(self.core, self.project.id, root, self.state, self.config)
        settle(self.core, firing, found)
        return found


def _create(here: _Here, params: CreateParams) -> dict[str, Any]:
    return _made(here, request_from(params, params.if_parallel))


def _made(here: _Here, request: CreateRequest) -> dict[str, Any]:
    firing = asked(here.project.id, here.state, request)
    here.core.ledger.fire(firing)
    return here.make(request, firing)


def _resume(here: _Here, params: resume.ResumeParams) -> dict[str, Any]:
    wanted = ResumeRequest(params.target, params.implement, bool(params.session))
    found = take_up(here.ports, wanted, here.tell)
    if wanted.implement and found["track"] and not found["choice"]:
        firing, request = implementing(here.core, here.project.id, here.state, found)
        if here.core.ledger.fire(firing):
            found["handoff"] = here.make(request, firing)
        else:
            found["handoff_skipped"] = RECORDED
    return implemented(found)


def _auto(here: _Here, params: auto.AutoParams) -> dict[str, Any]:
    mode, why = decide(here.ports, in_session=bool(params.session), unwritten=params.slash)
    if mode == "resume":
        return {
            **take_up(here.ports, ResumeRequest(params.track, framed=True), here.tell),
            "why": why,
        }
    return {**_create(here, params), "why": why}


def _trigger(here: _Here, params: trigger.TriggerParams) -> dict[str, Any]:
    request = request_from(params, "include")
    if params.dry_run:
        return preview(here.ports, request, _nobody)
    return _made(here, request)


def _nobody(_step: Step) -> None:
    return


def _triggers(here: _Here, params: triggers.TriggersParams) -> dict[str, Any]:
    triggers.tidy(here.core, params)
    project_id = None if params.all else here.project.id
    return triggers.listed(here.core, project_id, params.limit)


_COMMANDS: dict[str, tuple[Method, Callable[[_Here, Any], dict[str, Any]]]] = {
    "create": (create.METHOD, _create),
    "resume": (resume.METHOD, _resume),
    "auto": (auto.METHOD, _auto),
    "trigger": (trigger.METHOD, _trigger),
    "triggers": (triggers.METHOD, _triggers),
}
