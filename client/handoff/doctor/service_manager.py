"""Check whether systemd or launchd keeps the daemon running."""

import os
import plistlib
import re
import sys

from handoff import service
from handoff.common import paths
from handoff.doctor.environment import Environment
from handoff.doctor.finding import Finding, bad, note, ok

_NO_SERVICE = "no service: handoffd will not be there after a restart of the machine"
_SETUP = "Make it one: handoff setup"
_BY_HAND = "There is no systemd here: then run handoff up; Claude Code's tools start it, too."
_AT_LOGIN = ("enabled", "enabled-runtime", "linked", "linked-runtime", "alias")


def examine(environment: Environment) -> list[Finding]:
    pid = environment.status.get("pid")
    if sys.platform == "darwin":
        return [judge_agent(f"{paths.home()}/Library/LaunchAgents/{service.LABEL}.plist")]
    unit, socket = service.unit_properties()
    return judge_unit(unit, socket, pid)


def judge_unit(unit: dict[str, str], socket: dict[str, str], pid: int | None) -> list[Finding]:
    """Judge systemd's properties of our units, and the process that answers."""
    if not unit:
        return [note(_NO_SERVICE, _BY_HAND)]
    if unit.get("LoadState") != "loaded":
        return [note(_NO_SERVICE, _SETUP)]
    found = []
    program = re.search(r"path=(\S+)", unit.get("ExecStart", ""))
    if program and not os.access(program[1], os.X_OK):
        text = f"{service.UNIT} starts {program[1]}, which is not there"
        found.append(bad(text, "Install handoffd anew, then: handoff setup"))
    if unit.get("ActiveState") == "failed":
        text = f"{service.UNIT} has failed ({unit.get('Result') or 'no reason'})"
        found.append(bad(text, "See why: handoff logs; then: handoff up"))
    elif pid is not None and unit.get("MainPID") != str(pid):
        text = f"process {pid} runs beside {service.UNIT}, and will not be started again"
        found.append(note(text, "Run: handoff restart"))
    how = "enabled" if unit.get("UnitFileState") in _AT_LOGIN else "started by its socket"
    if how != "enabled" and socket.get("UnitFileState") not in _AT_LOGIN:
        text = f"{service.UNIT} is not started when you log in"
        found.append(note(text, "Run: systemctl --user enable handoffd"))
    return found or [ok(f"systemd: {service.UNIT} is {how}, and {unit.get('ActiveState')}")]


def judge_agent(path: str) -> Finding:
    """Judge the launch agent, and the program that it names."""
    try:
        with open(path, "rb") as stream:
            words = " ".join(plistlib.load(stream).get("ProgramArguments", []))
    except (OSError, ValueError, plistlib.InvalidFileException):
        return note(_NO_SERVICE, _SETUP)
    program = re.search(r"[^\s\"']*/handoffd\b", words)
    if program and not os.access(os.path.expandvars(program[0]), os.X_OK):
        text = f"{service.LABEL} starts {program[0]}, which is not there"
        return bad(text, "Install handoffd anew, then: handoff setup")
    if not service.has_launchd_agent():
        remedy = f"Run: launchctl bootstrap gui/{os.getuid()} {path}"
        return note(f"launchd has not loaded {path}", remedy)
    return ok(f"launchd: {service.LABEL} is loaded")
