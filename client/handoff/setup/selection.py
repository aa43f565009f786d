"""The choice of the parts to put in, and the plan for them."""

from collections.abc import Sequence

from handoff.common.errors import HandoffError
from handoff.setup import claude_entries, parts, plugin
from handoff.setup.plan import SetupPlan

# The parts that are put in only on request, each with its question.
OPTIONAL = {
    "statusline": "Show goal, last handoff and unread entries in Claude Code's status line?",
    "flow": "Make the link `flow`, for `flow save` and `flow inject`?",
}
DEFAULT = ("service", "hooks", "mcp", "desktop", "commands")
IN_PLUGIN = ("hooks", "mcp")


def choose(wanted: Sequence[str], unwanted: Sequence[str]) -> list[str]:
    """Return the chosen parts in their order; the plugin brings hooks and MCP along."""
    both = sorted(set(wanted) & set(unwanted))
    if both:
        raise HandoffError(f"--with and --without {both[0]}: which?")
    chosen = {*DEFAULT, *wanted} - set(unwanted)
    if "plugin" in chosen:
        chosen -= set(IN_PLUGIN)
    return [part for part in parts.PLANNERS if part in chosen]


def make_plan(chosen: Sequence[str], write: str | None, public_url: str | None = None) -> SetupPlan:
    """Examine everything, and return the plan."""
    plan = SetupPlan(public_url=public_url)
    by_plugin = plugin.is_enabled()
    if by_plugin and set(chosen) & set(IN_PLUGIN):
        plan.remarks.append(
            f"Hooks and MCP come with the plugin {claude_entries.PLUGIN}, which is enabled: "
            "they are left out, so that nothing fires twice."
        )
    for part in chosen:
        if not (by_plugin and part in IN_PLUGIN):
            parts.PLANNERS[part](plan)
    if by_plugin or "plugin" in chosen:
        parts.leave_to_plugin(plan)
    parts.plan_configuration(plan, write)
    plan.remarks = list(dict.fromkeys(plan.remarks))
    return plan


def is_missing(part: str) -> bool:
    """Return True if a part would change anything."""
    plan = SetupPlan()
    try:
        parts.PLANNERS[part](plan)
    except HandoffError:
        return True
    return not plan.is_empty


def problems(plan: SetupPlan) -> list[HandoffError]:
    """Return the problems of the changed files, each with its remedies."""
    return [
        HandoffError(draft.problem.title, parts.remedy(draft.problem.hint, draft.part))
        for draft in plan.changes
        if draft.problem
    ]
