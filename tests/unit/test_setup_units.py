"""The shipped units with an absolute path: systemd and launchd read the right values."""

import plistlib
import subprocess

import pytest

from conftest import BIN, REPOSITORY, wait_for
from handoff.common import paths
from handoff.setup import service_units

UNIT = (REPOSITORY / service_units.UNIT).read_text()
PLIST = (REPOSITORY / service_units.PLIST).read_text()
VARIABLES = {"XDG_STATE_HOME": "/home/ann/my state", "HANDOFFD_SOCKET": "/run/a & b"}


def test_the_unit_starts_the_daemon_that_was_installed():
    """The path is quoted for systemd, which expands % and $; the rest is the shipped unit."""
    text = service_units.shape_unit(UNIT, '/home/ann/100%/a "b"/handoffd', {})

    assert 'ExecStart="/home/ann/100%%/a \\"b\\"/handoffd" run' in text.splitlines()
    assert f"# {service_units.MARK}" == text.splitlines()[0]
    assert len(UNIT.splitlines()) + 1 == len(text.splitlines())


def test_the_unit_sees_what_the_shell_sees():
    """Client and daemon agree on the state directory and the socket."""
    text = service_units.shape_unit(UNIT, "/h", VARIABLES)

    assert 'Environment="XDG_STATE_HOME=/home/ann/my state"' in text.splitlines()
    assert 'Environment="HANDOFFD_SOCKET=/run/a & b"' in text.splitlines()


def test_the_agent_is_a_property_list_with_the_path():
    """The path is quoted for both XML and the shell."""
    text = service_units.shape_agent(PLIST, "/Users/a & b/handoffd", VARIABLES)
    agent = plistlib.loads(text.encode())

    assert service_units.MARK in text
    assert (
        "exec '/Users/a & b/handoffd' run --log-file '/home/ann/my state'/handoffd/handoffd.log"
    ) == agent["ProgramArguments"][2]
    assert VARIABLES.items() <= agent["EnvironmentVariables"].items()
    shipped = plistlib.loads(PLIST.encode())
    assert f"{paths.home()}/Library/Logs/dev.handoffd.err" == agent["StandardErrorPath"]
    for key in shipped.keys() - {"ProgramArguments", "EnvironmentVariables", "StandardErrorPath"}:
        assert shipped[key] == agent[key]


@pytest.mark.parametrize("own_state", [False, True])
def test_the_agent_s_command_runs_the_daemon(sandbox, own_state):
    """The agent's command runs the daemon, and logs where the client looks."""
    variables = {"XDG_STATE_HOME": f"{sandbox.home}/my state"} if own_state else {}
    state = sandbox.home / "my state/handoffd" if own_state else sandbox.state
    agent = plistlib.loads(
        service_units.shape_agent(PLIST, str(BIN / "handoffd"), variables).encode()
    )
    sandbox.process = subprocess.Popen(
        agent["ProgramArguments"],
        env={**sandbox.environment, **agent["EnvironmentVariables"]}, stdin=subprocess.DEVNULL,
    )  # fmt: skip

    wait_for(sandbox.answers, what="the daemon answers")
    wait_for((state / "handoffd.log").exists, what="the log is there")
