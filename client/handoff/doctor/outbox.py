"""Check for notes and mails that were not sent."""

from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, bad, note, ok


def examine(environment: Environment) -> list[Finding]:
    letters = environment.status.get("letters")
    if not letters:
        return []
    found = [
        bad(
            f"{letter['kind']} to {letter['to']} was given up: {letter['problem']}",
            "Mend that, then: handoff triggers --retry (or, to forget it: handoff triggers --drop)",
        )
        for letter in letters["given_up"]
    ]
    if letters["waiting"]:
        text = f"{letters['waiting']} to be sent"
        found.append(note(text, "See why: handoff triggers --all; now: handoff triggers --retry"))
    return found or [ok("nothing waits to be sent")]
