"""The handoffs a caller means: those of its project, wherever its sessions worked."""

import asyncio
import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

from handoffd.api.method import InProject
from handoffd.api.resolve import directory_of
from handoffd.context import Context
from handoffd.contract import handoff_directory
from handoffd.contract.handoff_directory import Handoff, HandoffScope
from handoffd.contract.presentation import listed
from handoffd.projects.registry import Project
from handoffd.runtime import clock

LISTED_MAX = 100


def place_of(project: Project, params: InProject) -> HandoffScope:
    return HandoffScope(os.path.realpath(directory_of(params)), project.root.path)


async def handoffs_of(
    context: Context, project: Project, params: InProject, most: int = LISTED_MAX
) -> list[Handoff]:
    """Return the handoffs of a project, the newest first."""
    place = place_of(project, params)
    return await asyncio.to_thread(
        lambda: list(islice(handoff_directory.handoffs(context.contract_writer.base, place), most))
    )


def describe(context: Context, found: Sequence[Handoff]) -> list[dict[str, Any]]:
    marks = context.core.read_marks([handoff.path for handoff in found])
    return listed(found, marks, clock.wall())
