"""The checks of `handoff doctor`, one module per subject. No check changes anything."""

from handoff.doctor import (
    daemon,
    disk,
    hooks,
    integrations,
    outbox,
    retention,
    service_manager,
    transcripts,
    versions,
    watches,
)
from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding

SUBJECTS = {
    "service": service_manager.examine,
    "socket": daemon.examine,
    "versions": versions.examine,
    "hooks": hooks.examine,
    "transcripts": transcripts.examine,
    "retention": retention.examine,
    "watches": watches.examine,
    "outbox": outbox.examine,
    "disk": disk.examine,
    "settings": integrations.examine,
    "warnings": daemon.examine_warnings,
}


def examine(environment: Environment) -> dict[str, list[Finding]]:
    """Return the findings per subject, without the subjects that have none."""
    found = {subject: check(environment) for subject, check in SUBJECTS.items()}
    return {subject: findings for subject, findings in found.items() if findings}
