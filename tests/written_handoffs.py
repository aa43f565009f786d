"""Handoffs that sessions wrote in a sandbox, and a session that writes one."""

from conftest import timestamp, wait_for

AGO = 120.0
PURPOSE = "Round tax per line in the invoice module"


def handoff_directory(sandbox, project):
    """Return the handoff directory of a project, as the contract defines it."""
    encoded = "".join(c if c.isascii() and (c.isalnum() or c == "-") else "-" for c in str(project))
    return sandbox.home / ".claude/handoffs" / encoded


def handoffs(sandbox, project):
    directory = handoff_directory(sandbox, project)
    return sorted(directory.glob("*.md")) if directory.is_dir() else []


def text(sandbox, project):
    found = handoffs(sandbox, project)
    return found[0].read_text() if found else ""


def work(sandbox, project, ago=AGO, session_id=None, file="src/tax.py", **envelope):
    """Write a session that did some work, some time ago."""
    session = sandbox.session(project, session_id, **envelope)
    session.prompt(PURPOSE, timestamp=timestamp(ago))
    session.edit(f"{project}/{file}", timestamp=timestamp(ago - 1))
    session.say(
        "Tax is now rounded per line. Next, I'll do shipping.", timestamp=timestamp(ago - 2)
    )
    return session


def known(sandbox, session):
    """Wait until a daemon, if there is one, has read a session."""
    if sandbox.process is not None:
        wait_for(
            lambda: any(
                item["session_id"] == session.id for item in sandbox.call("sessions")["sessions"]
            )
        )
