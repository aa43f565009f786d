"""What `handoff doctor` looks at, one module a subject. Nothing here changes anything."""

from handoff.examination import (
    daemon,
    disk,
    hooks,
    keeping,
    outbox,
    retention,
    surroundings,
    transcripts,
    versions,
    watches,
)
from handoff.examination.finding import Finding
from handoff.examination.scene import Scene

SUBJECTS = {
    "service": keeping.examine,
    "socket": daemon.examine,
    "versions": versions.examine,
    "hooks": hooks.examine,
    "transcripts": transcripts.examine,
    "retention": retention.examine,
    "watches": watches.examine,
    "outbox": outbox.examine,
    "disk": disk.examine,
    "settings": surroundings.examine,
    "warnings": daemon.examine_warnings,
}


def examine(scene: Scene) -> dict[str, list[Finding]]:
    """Return what was found of each subject of which there is something to say."""
    found = {subject: look(scene) for subject, look in SUBJECTS.items()}
    return {subject: findings for subject, findings in found.items() if findings}
