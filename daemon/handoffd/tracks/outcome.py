"""Stores the outcome of a trigger in the ledger."""

from typing import Any

from handoff.common.errors import EXIT_CHOICE_NEEDED
from handoffd.store.core import CoreStore
from handoffd.store.ledger import Firing
from handoffd.tracks.create import GATHER
from handoffd.tracks.steps import FAILED

# The receipt of a person's request.
ASKED = "asked for"
# A failure in one of the steps before the first write would happen again.
_BEFORE = tuple(action.number for action in GATHER)


def is_made(found: dict[str, Any]) -> bool:
    """Return True if a handoff was made: no choice is open, and it was not cancelled or refused."""
    refused = any(
        step["outcome"] == FAILED and step["number"] in _BEFORE for step in found["steps"]
    )
    return not (found["choice"] or found["cancelled"] or refused)


def store_outcome(core: CoreStore, firing: Firing, found: dict[str, Any]) -> None:
    """Store the outcome of a trigger; a record that failed on the way stays pending."""
    failed = [step["number"] for step in found["steps"] if step["outcome"] == FAILED]
    refused = bool(failed) and failed[0] in _BEFORE
    # The person has seen the outcome, and can repeat a request that was not begun.
    unwanted = found["cancelled"] or (bool(failed) and firing.receipt == ASKED)
    if found["exit"] == EXIT_CHOICE_NEEDED or (unwanted and not found["file"]):
        core.ledger.withdraw(firing.cause)
    elif not failed or (refused and not found["passing"]):
        kept = ("file", "track", "section", "contract")
        outcome = {name: found[name] for name in kept if found.get(name)}
        if not found["file"]:
            outcome["skipped"] = found["steps"][-1]["text"]
        core.ledger.set_outcome(firing.cause, outcome)
