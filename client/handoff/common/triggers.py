"""The names of the triggers, the most important first. Both sides use them."""

PRE_FINISH = "pre-finish"
EPIC_END = "epic-end"
EPIC_START = "epic-start"
DESIGN_END = "design-end"
IDLE = "idle"
MANUAL = "manual"

TRIGGERS = (PRE_FINISH, EPIC_END, EPIC_START, DESIGN_END, IDLE, MANUAL)
# The track record of these triggers names an epic of Beads.
EPIC_TRIGGERS = (EPIC_START, EPIC_END)
