"""The daemon as a service of the user: by systemd, by launchd, or as a background process."""

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from xml.sax.saxutils import escape

from handoff import service
from handoff.common import paths
from handoff.setup import locations
from handoff.setup.foreign_files import Draft
from handoff.setup.manifest import Manifest
from handoff.setup.plan import SetupAction, SetupPlan

MARK = "Written by `handoff setup`; `handoff teardown` removes it."
UNIT = "systemd/handoffd.service"
PLIST = "launchd/dev.handoffd.plist"
LAUNCHD_STATE = '"$HOME"/.local/state'
# A service does not see these variables of your shell, and client and daemon must agree on them.
SHARED_VARIABLES = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HANDOFFD_SOCKET")


def plan_service(plan: SetupPlan) -> None:
    kind = manager()
    if kind == "background":
        _plan_background(plan)
        return
    path = unit_file(kind)
    draft = plan.draft(path, "service")
    if draft.before is not None and MARK.encode() not in draft.before:
        plan.remarks.append(f"{path} is not setup's, and stays as it is.")
    else:
        with open(
            locations.shipped_file(UNIT if kind == "systemd" else PLIST), encoding="utf-8"
        ) as text:
            shape = shape_unit if kind == "systemd" else shape_agent
            draft.text = shape(text.read(), locations.path_in_text("handoffd"), _shared())
    if draft.is_changed or not _is_installed(kind):
        plan.last_undo = _make_restore(kind)
        plan.actions.append(_start_action(kind, draft))


def manager() -> str:
    """Return the service manager of this machine, or `background` if there is none."""
    if sys.platform == "darwin":
        return "launchd"
    answers = service.succeeds("systemctl", "--user", "show", "--property=Version")
    return "systemd" if answers else "background"


def unit_file(kind: str) -> str:
    if kind == "launchd":
        return f"{paths.home()}/Library/LaunchAgents/{service.LABEL}.plist"
    configuration = os.path.dirname(os.path.dirname(paths.config_file()))
    return f"{configuration}/systemd/user/{service.UNIT}"


def shape_unit(shipped: str, daemon: str, variables: dict[str, str]) -> str:
    """Return the unit with the daemon's own path, and with variables that it would not see."""
    lines = [f"ExecStart={_quoted(daemon)} run"]
    lines += [f"Environment={_quoted(f'{name}={text}')}" for name, text in variables.items()]
    text = re.sub(r"(?m)^ExecStart=.*$", lambda _: "\n".join(lines), shipped)
    return f"# {MARK}\n{text}"


def _quoted(text: str) -> str:
    """Quote a word for systemd, which expands % and has escapes inside quotes."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"'


def shape_agent(shipped: str, daemon: str, variables: dict[str, str]) -> str:
    """Return the agent with the daemon's own path, and with variables that it would not see."""
    state = variables.get("XDG_STATE_HOME")
    log = f"{shlex.quote(state) if state else LAUNCHD_STATE}/handoffd/handoffd.log"
    command = escape(f"exec {shlex.quote(daemon)} run --log-file {log}")
    text = re.sub("<string>exec .*</string>", lambda _: f"<string>{command}</string>", shipped)
    errors = f"<string>{escape(agent_errors())}</string>"
    text = re.sub("<string>/dev/null</string>", lambda _: errors, text)
    more = "".join(
        f"        <key>{name}</key>\n        <string>{escape(value)}</string>\n"
        for name, value in variables.items()
    )
    text = text.replace("        <key>PATH</key>\n", f"{more}        <key>PATH</key>\n")
    return text.replace('<plist version="1.0">', f'<!-- {MARK} -->\n<plist version="1.0">', 1)


def agent_errors() -> str:
    """Return the file for what fails before the log is open; launchd creates no directory."""
    return f"{paths.home()}/Library/Logs/{service.LABEL}.err"


def _shared() -> dict[str, str]:
    return {name: paths.variable(name) for name in SHARED_VARIABLES if paths.variable(name)}


def _is_installed(kind: str) -> bool:
    if kind == "launchd":
        return service.has_launchd_agent() and service.running() is not None
    return _is_enabled(kind) and service.is_active(service.UNIT)


def _is_enabled(kind: str) -> bool:
    return kind == "systemd" and service.succeeds(
        "systemctl", "--user", "is-enabled", "--quiet", service.UNIT
    )


def _start_action(kind: str, draft: Draft) -> SetupAction:
    """Return the action that starts the service; it ends a daemon in the background first."""

    def start() -> None:
        service.stop()
        if kind == "launchd":
            service.succeeds("launchctl", "bootout", f"gui/{os.getuid()}/{service.LABEL}")
            service.run_or_fail("launchctl", "bootstrap", f"gui/{os.getuid()}", draft.path)
        else:
            service.run_or_fail("systemctl", "--user", "daemon-reload")
            service.run_or_fail("systemctl", "--user", "enable", service.UNIT)
        service.start()

    def note(noted: Manifest) -> None:
        if MARK in draft.text:
            noted.service = kind

    title = f"start the service, now and at every login: {_start_command(kind)}"
    return SetupAction(title, start, lambda: stop(kind), note)


def _start_command(kind: str) -> str:
    if kind == "launchd":
        return f"launchctl bootstrap gui/{os.getuid()} {service.LABEL}.plist"
    return f"systemctl --user enable --now {service.UNIT}"


def stop(kind: str) -> None:
    """End the daemon, and keep the service manager from starting it again."""
    if kind == "systemd":
        service.succeeds("systemctl", "--user", "disable", "--now", service.UNIT)
    elif kind == "launchd":
        service.succeeds("launchctl", "bootout", f"gui/{os.getuid()}/{service.LABEL}")
    service.stop()


def reload_units(kind: str) -> None:
    """Let systemd read its unit anew: it is gone, or has its old content again."""
    if kind == "systemd":
        service.succeeds("systemctl", "--user", "daemon-reload")


def _make_restore(kind: str) -> Callable[[], None]:
    was_running, was_enabled = service.running() is not None, _is_enabled(kind)

    def restore() -> None:
        reload_units(kind)
        if was_enabled:
            service.succeeds("systemctl", "--user", "enable", service.UNIT)
        if was_running:
            service.start()

    return restore


def _plan_background(plan: SetupPlan) -> None:
    if service.running() is not None:
        return

    def start() -> None:
        service.start()

    def note(noted: Manifest) -> None:
        noted.service = "background"

    title = "start handoffd in the background: handoff up"
    plan.actions.append(SetupAction(title, start, lambda: stop("background"), note))
    plan.remarks.append(
        "There is no systemd for your user here: handoffd runs in the background, and does not "
        "survive a restart of the machine. Start it then with: handoff up"
    )


def reload_configuration() -> None:
    """Let a running daemon read its configuration anew."""
    pid = service.running()
    if pid is not None:
        os.kill(pid, signal.SIGHUP)
