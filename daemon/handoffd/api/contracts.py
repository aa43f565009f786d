"""The handoffs a caller means: those of its project, wherever its sessions worked."""

import asyncio
import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

from handoffd import clock
from handoffd.api.method import InProject
from handoffd.api.resolve import directory_of
from handoffd.handoffs import shelf
from handoffd.handoffs.opening import listed
from handoffd.handoffs.shelf import Handoff, Place
from handoffd.parts import Parts
from handoffd.projects import Project

LISTED_MAX = 100


def place_of(project: Project, params: InProject) -> Place:
    return Place(os.path.realpath(directory_of(params)), project.root.path)


async def handoffs_of(
    parts: Parts, project: Project, params: InProject, most: int = LISTED_MAX
) -> list[Handoff]:
    """Return the handoffs of a project, the newest first."""
    place = place_of(project, params)
    return await asyncio.to_thread(
        lambda: list(islice(shelf.handoffs(parts.archivist.base, place), most))
    )


def describe(parts: Parts, found: Sequence[Handoff]) -> list[dict[str, Any]]:
    marks = parts.core.read_marks([handoff.path for handoff in found])
    return listed(found, marks, clock.wall())
