"""epic-start and epic-end: an epic is started or closed. They fire once per change.

Beads tells it of the epic, or of all its tasks; conductor/tracks.md tells it of the track; and
`/conductor-implement` is a start. A track without an epic starts and ends by its mark alone.
"""

from collections.abc import Sequence

from handoff.common.triggers import EPIC_END, EPIC_START
from handoffd.store.ledger import Ledger
from handoffd.tracks.conductor_directory import Track
from handoffd.tracks.tracks_file import BEGUN, DONE
from handoffd.tracks.work_context import named_track
from handoffd.triggers.conductor_commands import is_command

OPEN, STARTED, CLOSED = "open", "in_progress", "closed"
# The kinds of sightings: of an epic, and of a track that has none.
EPIC, TRACK = "epic", "work"
# Added if the tasks or the track say so, and the epic itself does not.
_BY_TRACK = " by its track"


def is_start(command: str) -> bool:
    names = ("implement", "implement-parallel")
    return any(is_command(command, name) for name in names)


def status(own: str, *, tasks_done: bool, box: str) -> str:
    """Return the status of an epic: by itself, by its tasks, and by the mark of its track."""
    if own == CLOSED:
        return CLOSED
    if tasks_done or box == DONE:
        return CLOSED + _BY_TRACK
    if own == STARTED:
        return STARTED
    return STARTED + _BY_TRACK if box == BEGUN else OPEN


def status_of_track(track: Track) -> str:
    """Return the status of a track without an epic."""
    return {DONE: CLOSED, BEGUN: STARTED}.get(track.mark.box, OPEN)


def is_by_track(seen: str) -> bool:
    return seen.endswith(_BY_TRACK)


def plain(seen: str) -> str:
    """Return a status without its source."""
    return seen.removesuffix(_BY_TRACK)


def name(before: str, now: str, *, just_closed: bool) -> str | None:
    """Return the trigger of a change of status.

    An epic that is already closed when it is first seen gives none, unless it was closed just now.
    """
    if plain(before) == plain(now):
        return None
    if plain(now) == STARTED:
        return EPIC_START
    if plain(now) == CLOSED and (before or just_closed):
        return EPIC_END
    return None


def cause(trigger: str, project_id: str, epic_id: str, changes: int) -> str:
    """Return one cause per change: an epic that is reopened and closed again ends twice."""
    return f"{trigger}:{project_id}:{epic_id}:{changes}"


def start_cause(ledger: Ledger, scope: str, epic_id: str, track_id: str) -> str:
    """Return the cause of a start that is announced: that of the next change of the status.

    So the change itself does not fire again when it is seen.
    """
    last = ledger.sighting(scope, EPIC if epic_id else TRACK, epic_id or track_id)
    number = last.changes if plain(last.status) == STARTED else last.changes + 1
    return cause(EPIC_START, scope, epic_id or track_id, number)


def implemented_track(tracks: Sequence[Track], words: str, *, just_now: bool) -> Track | None:
    """Return the track that `/conductor-implement` means.

    It is named by its id or by its description in tracks.md. Without a name it is the first in
    tracks.md that is not done; tracks.md tells that only shortly after the command.
    """
    by_id = {track.id: track for track in tracks}
    if named := named_track(words, by_id):
        return by_id[named]
    said = " ".join(words.split()).casefold()
    if said:
        titled = [track for track in tracks if said == track.mark.title.casefold()]
        titled = titled or [track for track in tracks if said in track.mark.title.casefold()]
        return titled[0] if len(titled) == 1 else None
    listed = [track for track in tracks if track.mark.box and track.is_active]
    if listed and just_now:
        return min(listed, key=lambda track: track.mark.position)
    active = [track for track in tracks if track.is_active]
    return active[0] if len(active) == 1 else None
