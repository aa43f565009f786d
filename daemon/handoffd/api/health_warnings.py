"""What is wrong, as far as a user should know it; each answer of the daemon says so."""

from dataclasses import dataclass

from handoffd.context import Context
from handoffd.fs import mounts
from handoffd.projects.project_state import ActiveProject
from handoffd.runtime import log
from handoffd.store import recovery

# The project of a warning that only those want to see who ask about everything.
ALL_ONLY = "*"
# Who has more sessions open at a time will see why the next one is refused.
CONNECTIONS_USUAL = 64
_LEFT_ALONE = "what lies on that disk is left alone until it does"


@dataclass(frozen=True, slots=True)
class HealthWarning:
    """Something a user should know; `anchor` is a heading of docs/troubleshooting.md."""

    code: str
    text: str
    anchor: str
    project: str = ""


def warnings(context: Context) -> list[HealthWarning]:
    """Return everything that is wrong with the daemon now."""
    daemon, found = context.daemon, []
    if daemon.config_problem:
        found.append(HealthWarning("config_invalid", daemon.config_problem, "config-invalid"))
    if daemon.transcript_watcher.observer.problem:
        found.append(
            HealthWarning(
                "watch_degraded",
                daemon.transcript_watcher.observer.problem,
                "watch-degraded",
            )
        )
    notes = [daemon.core_problem] if daemon.core_problem else recovery.notes(context.core.path)
    found += [HealthWarning("core_damaged", note, "core-damaged") for note in notes[-1:]]
    room = daemon.connections_max
    if 0 < room < CONNECTIONS_USUAL:
        text = (
            f"So few files may be open at once that {room} clients are served "
            "at a time. Raise the limit (ulimit -n, LimitNOFILE=), then: handoff restart"
        )
        found.append(HealthWarning("few_descriptors", text, "few-descriptors"))
    if daemon.state_rebuilt:
        found.append(HealthWarning("state_rebuilt", daemon.state_rebuilt, "state-rebuilt"))
    found += _unwritten(context)
    if daemon.transcript_reader.quarantined:
        number = daemon.transcript_reader.quarantined
        text = f"{number} transcript{'' if number == 1 else 's'} could not be read."
        found.append(HealthWarning("quarantined", text, "quarantined"))
    if daemon.http_listener.problem:
        text = f"HTTP is not open: {daemon.http_listener.problem}"
        found.append(HealthWarning("http_off", text, "http-off", ALL_ONLY))
    if problem := daemon.http_listener.token_problem():
        text = f"HTTP lets nobody in: {problem}"
        found.append(HealthWarning("http_token", text, "http-token", ALL_ONLY))
    if daemon.session_liveness.problem:
        found.append(
            HealthWarning("contract_failed", daemon.session_liveness.problem, "contract-failed")
        )
    found += [
        HealthWarning("record_failed", f"{root}: {text}", "record-failed", root)
        for root, text in context.record_maker.problems.items()
    ]
    found += _dead_letters(context)
    found += [
        HealthWarning("workflow_invalid", text, "workflow-invalid", root)
        for root, text in daemon.trigger_detector.problems().items()
    ]
    found += [
        HealthWarning("beads_silent", f"{root}: {text}", "beads-silent", root)
        for root, text in daemon.trigger_detector.silences().items()
    ]
    for active in context.project_states.active_projects.values():
        found += _project_warnings(context, active)
    return found


def _dead_letters(context: Context) -> list[HealthWarning]:
    dead = len(context.core.outbox.dead())
    if not dead:
        return []
    what = "1 note or mail" if dead == 1 else f"{dead} notes or mails"
    text = f"{what} could not be sent; see: handoff triggers --all"
    return [HealthWarning("letters_dead", text, "letters-dead")]


def _unwritten(context: Context) -> list[HealthWarning]:
    found = []
    if context.daemon.transcript_reader.problem:
        found.append(
            HealthWarning("store_failed", context.daemon.transcript_reader.problem, "store-failed")
        )
    if problem := log.problem():
        found.append(HealthWarning("log_failed", problem, "log-failed"))
    found += [
        HealthWarning("disk_silent", f"{point} does not answer: {_LEFT_ALONE}.", "disk-silent")
        for point in mounts.silent()
    ]
    if context.daemon.copy_problem:
        found.append(HealthWarning("copy_failed", context.daemon.copy_problem, "copy-failed"))
    return found


def _project_warnings(context: Context, active: ActiveProject) -> list[HealthWarning]:
    found, root = _file_warnings(context, active), active.project.root.path
    if active.git.problem:
        text = f"{root}: what git knows is missing there: {active.git.problem}."
        found.append(HealthWarning("git_silent", text, "git-silent", root))
    return found


def _file_warnings(context: Context, active: ActiveProject) -> list[HealthWarning]:
    root = active.project.root.path
    if active.file.unreadable:
        text = f"{root}: handoff.yaml is left alone: {active.file.unreadable}."
        return [HealthWarning("unreadable", text, "unreadable", root)]
    if active.problem:
        return [HealthWarning("write_failed", f"{root}: {active.problem}", "write-failed", root)]
    if active.git.tracked and not context.config.current.checkpoint.write_tracked:
        text = f"{root}: git tracks handoff.yaml, so it is written only when you save."
        return [HealthWarning("tracked", text, "tracked", root)]
    return []
