"""The fields of handoff.yaml, and which of them are lists, settable or in the brief. Pure."""

from typing import NamedTuple


class Field(NamedTuple):
    """A field: its name, and how it is treated."""

    name: str
    # A list of texts: shown one item per line, and left out of the file if it is empty.
    is_list: bool = False
    # An edit by a person is recognised and stands.
    settable: bool = False
    # A person may set it to nothing.
    clearable: bool = False
    # A brief of ordinary length has this list.
    in_brief: bool = False
    # `handoffd replay --trace` shows how its value came about.
    traced: bool = True


TABLE = (
    Field("goal", settable=True),
    Field("status", settable=True),
    Field("now", settable=True),
    Field("hypothesis", settable=True, clearable=True),
    Field("outcome", settable=True, clearable=True),
    Field("files"),
    Field("branch"),
    Field("timestamp", traced=False),
    Field("session_id", traced=False),
    Field("next", is_list=True, in_brief=True),
    Field("questions", is_list=True, in_brief=True),
    Field("dead_ends", is_list=True, in_brief=True),
    Field("rules", is_list=True, in_brief=True),
    Field("decisions", is_list=True, in_brief=True),
    Field("tests", is_list=True, in_brief=True),
)
FIELDS = tuple(field.name for field in TABLE if not field.is_list)
LISTS = tuple(field.name for field in TABLE if field.is_list)
LISTS_IN_BRIEF = tuple(field.name for field in TABLE if field.is_list and field.in_brief)
SETTABLE = tuple(field.name for field in TABLE if field.settable)
CLEARABLE = tuple(field.name for field in TABLE if field.clearable)
# A goal that was replaced stands beside the fields.
PREVIOUS_GOAL = "previous_goal"
OURS = frozenset((*FIELDS, *LISTS, PREVIOUS_GOAL))

STATUSES = ("in_progress", "completed", "blocked")
NOT_STATED = "(not stated yet)"
DEFAULT_NOW = "Working on project"
