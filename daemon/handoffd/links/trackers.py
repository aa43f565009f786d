"""The choice of a project's issue tracker: today it is always Beads."""

from handoffd.config import Config
from handoffd.links.beads import Beads, BeadsProgram
from handoffd.links.tracker import Tracker


def tracker_at(root: str, config: Config) -> Tracker:
    """Return the tracker of the project at a root, with the user's choice of its program."""
    return Beads(root, BeadsProgram(config.beads.command, config.beads.confine))
