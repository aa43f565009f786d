"""The problems that a user should know; each answer of the daemon names them."""

from collections.abc import Iterator
from dataclasses import dataclass

from handoffd.api.terminal_text import count
from handoffd.context import Context
from handoffd.fs import mounts
from handoffd.projects.project_state import ActiveProject
from handoffd.runtime import log
from handoffd.store import recovery

# The project of a warning for callers that ask about everything.
ALL_ONLY = "*"
# A user with more sessions than this may see a connection refused.
CONNECTIONS_USUAL = 64
_LEFT_ALONE = "what lies on that disk is left alone until it does"


@dataclass(frozen=True, slots=True)
class HealthWarning:
    code: str
    text: str
    project: str = ""

    def as_data(self) -> dict[str, str]:
        """Return the warning as JSON data, with its heading in docs/troubleshooting.md."""
        anchor = self.code.replace("_", "-")
        return {"code": self.code, "text": self.text, "anchor": anchor, "project": self.project}


def warnings(context: Context) -> list[HealthWarning]:
    """Return everything that is wrong with the daemon now."""
    found = [HealthWarning(code, text) for code, text in _daemon_problems(context) if text]
    http = context.daemon.http_listener
    if http.problem:
        found.append(HealthWarning("http_off", f"HTTP is not open: {http.problem}", ALL_ONLY))
    if problem := http.token_problem():
        found.append(HealthWarning("http_token", f"HTTP lets nobody in: {problem}", ALL_ONLY))
    detector = context.daemon.trigger_detector
    found += [
        HealthWarning("record_failed", f"{root}: {text}", root)
        for root, text in context.record_maker.problems.items()
    ]
    found += [
        HealthWarning("workflow_invalid", text, root) for root, text in detector.problems().items()
    ]
    found += [
        HealthWarning("beads_silent", f"{root}: {text}", root)
        for root, text in detector.silences().items()
    ]
    for active in context.project_states.active_projects.values():
        found += _project_warnings(context, active)
    return found


def _daemon_problems(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the code and the text of each problem of the daemon as a whole, empty if it is well."""
    daemon = context.daemon
    yield "config_invalid", daemon.config_problem
    yield "watch_degraded", daemon.transcript_watcher.observer.problem
    notes = recovery.notes(context.core.path)
    yield "core_damaged", daemon.core_keeper.problem or (notes[-1] if notes else "")
    yield "few_descriptors", _few_descriptors(daemon.connections_max)
    yield "state_rebuilt", daemon.state_rebuild.note
    yield "store_failed", daemon.transcript_reader.problem
    yield "log_failed", log.problem()
    for point in mounts.silent():
        yield "disk_silent", f"{point} does not answer: {_LEFT_ALONE}."
    yield "copy_failed", daemon.core_keeper.copy_problem
    if number := daemon.transcript_reader.quarantined:
        yield "quarantined", f"{count(number, 'transcript')} could not be read."
    yield "contract_failed", daemon.session_liveness.problem
    if dead := len(context.core.outbox.dead()):
        what = "1 note or mail" if dead == 1 else f"{dead} notes or mails"
        yield "letters_dead", f"{what} could not be sent; see: handoff triggers --all"


def _few_descriptors(room: int) -> str:
    if not 0 < room < CONNECTIONS_USUAL:
        return ""
    return (
        f"So few files may be open at once that {room} clients are served "
        "at a time. Raise the limit (ulimit -n, LimitNOFILE=), then: handoff restart"
    )


def _project_warnings(context: Context, active: ActiveProject) -> list[HealthWarning]:
    found, root = [], active.project.root.path
    if active.file.unreadable:
        text = f"{root}: handoff.yaml is left alone: {active.file.unreadable}."
        found.append(HealthWarning("unreadable", text, root))
    elif active.problem:
        found.append(HealthWarning("write_failed", f"{root}: {active.problem}", root))
    elif active.git.tracked and not context.config.current.checkpoint.write_tracked:
        text = f"{root}: git tracks handoff.yaml, so it is written only when you save."
        found.append(HealthWarning("tracked", text, root))
    if active.git.problem:
        text = f"{root}: what git knows is missing there: {active.git.problem}."
        found.append(HealthWarning("git_silent", text, root))
    return found
