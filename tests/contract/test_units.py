"""The service files: systemd and launchd.plist(5) accept them, and they agree with the code."""

import configparser
import plistlib
import posix
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import BIN, REPOSITORY, wait_for
from handoff import service
from handoff.common import errors, paths

SERVICE = REPOSITORY / "systemd/handoffd.service"
SOCKET = REPOSITORY / "systemd/handoffd.socket"
PLIST = REPOSITORY / "launchd/dev.handoffd.plist"

ANALYZE = shutil.which("systemd-analyze")
needs_analyze = pytest.mark.skipif(
    ANALYZE is None,
    reason="systemd-analyze is missing: install systemd (Debian: apt-get install systemd)",
)

# Out of 100. The score is made for system services: about 40 points are for capabilities and
# mount namespaces, which a user service cannot use. A unit without hardening has 98.
EXPOSURE_MAX = 70

# The keys of launchd.plist(5) that we use, and the required type of each value.
LAUNCHD_KEYS = {
    "Label": str,
    "ProgramArguments": list,
    "EnvironmentVariables": dict,
    "RunAtLoad": bool,
    "KeepAlive": (bool, dict),
    "ThrottleInterval": int,
    "ProcessType": str,
    "LowPriorityIO": bool,
    "StandardErrorPath": str,
    "Umask": int,
}
LAUNCHD_KEEP_ALIVE_KEYS = {
    "SuccessfulExit": bool,
    "Crashed": bool,
    "PathState": dict,
    "OtherJobEnabled": dict,
}
LAUNCHD_PROCESS_TYPES = ("Background", "Standard", "Adaptive", "Interactive")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a HOME with the installed program, because systemd checks that it exists."""
    (tmp_path / ".local/bin").mkdir(parents=True)
    (tmp_path / ".local/bin/handoffd").symlink_to(BIN / "handoffd")
    return tmp_path


def analyze(home: Path, *words: str) -> subprocess.CompletedProcess:
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [ANALYZE, "--user", "--no-pager", *words],
        env=environment, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip


def complaints(home: Path, *units: Path) -> list[str]:
    """Return systemd's messages about our units; it also prints messages about other units."""
    done = analyze(home, "verify", *map(str, units))
    return [line for line in done.stderr.splitlines() if "handoffd" in line]


def settings(unit: Path) -> dict[str, str]:
    """Return the settings of a unit; the parser checks that none is given twice."""
    parser = configparser.RawConfigParser()
    parser.optionxform = str
    parser.read(unit)
    return {key: value for name in parser.sections() for key, value in parser[name].items()}


@needs_analyze
def test_systemd_accepts_units(home):
    """systemd has no complaint about the service and the socket as they are shipped."""
    assert complaints(home, SERVICE, SOCKET) == []


@needs_analyze
@pytest.mark.parametrize(
    ("right", "wrong"), [("WatchdogSec=60", "WatchdogSecs=60"), ("/handoffd run", "/missing run")]
)
def test_systemd_rejects_broken_unit(home, tmp_path, right, wrong):
    """The check works: a misspelt setting and a missing program are both reported."""
    broken = tmp_path / SERVICE.name
    broken.write_text(SERVICE.read_text().replace(right, wrong))

    assert complaints(home, broken)


@needs_analyze
def test_service_is_confined(home):
    """The exposure that systemd computes for the service stays below our limit."""
    if "--offline" not in analyze(home, "--help").stdout:
        pytest.skip("systemd-analyze is too old to judge a file: install systemd 250 or newer")

    done = analyze(home, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(SERVICE))

    assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_service_may_confine_programs():
    """The service allows Landlock's system calls, which are not in @system-service."""
    calls = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
    assert calls <= set(settings(SERVICE)["SystemCallFilter"].split())


def test_socket_unit_listens_where_client_looks(monkeypatch):
    """The path in the socket unit is the client's first choice."""
    # Both sides read posix.environ, which os.environ's setters do not change.
    monkeypatch.delitem(posix.environ, b"HANDOFFD_SOCKET", raising=False)
    monkeypatch.setitem(posix.environ, b"XDG_RUNTIME_DIR", b"/run/user/1")

    listens = settings(SOCKET)["ListenStream"].replace("%t", "/run/user/1")

    assert listens == paths.socket_candidates()[0]


def test_units_have_names_that_client_manages():
    """`handoff up` starts the unit or agent that these files define."""
    assert SERVICE.name == service.UNIT
    assert f"{service.LABEL}.plist" == PLIST.name
    assert plistlib.loads(PLIST.read_bytes())["Label"] == service.LABEL


def test_second_daemon_is_not_retried():
    """The exit code for `already running` is the one that ends the restarts."""
    assert settings(SERVICE)["RestartPreventExitStatus"] == str(errors.EXIT_ALREADY_RUNNING)


def test_services_take_no_modules_from_the_environment():
    """No variable of the session chooses modules for the service or the agent."""
    names = {
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONPLATLIBDIR",
        "PYTHONUSERBASE",
        "PYTHONPYCACHEPREFIX",
    }
    given = plistlib.loads(PLIST.read_bytes())["EnvironmentVariables"]

    assert names <= set(settings(SERVICE)["UnsetEnvironment"].split())
    assert dict.fromkeys(names, "") == {name: given.get(name) for name in names}


def test_plist_has_only_known_keys():
    """Every key of the agent is one of launchd.plist(5), with a value of the right type."""
    agent = plistlib.loads(PLIST.read_bytes())

    for key, value in agent.items():
        assert isinstance(value, LAUNCHD_KEYS[key]), key
        assert not (LAUNCHD_KEYS[key] is int and isinstance(value, bool)), key
    assert all(isinstance(word, str) for word in agent["ProgramArguments"])
    assert all(isinstance(value, str) for value in agent["EnvironmentVariables"].values())
    for key, value in agent["KeepAlive"].items():
        assert isinstance(value, LAUNCHD_KEEP_ALIVE_KEYS[key]), key
    assert agent["ProcessType"] in LAUNCHD_PROCESS_TYPES
    assert agent["Umask"] == 0o077


def test_launchd_does_not_throttle_the_daemon():
    """Hooks wait for it: its class is not that of background work, nor is its disk's priority."""
    agent = plistlib.loads(PLIST.read_bytes())

    assert "Standard" == agent["ProcessType"]
    assert not agent.get("LowPriorityIO")
    assert agent["StandardErrorPath"].startswith("/")


def test_plist_command_runs_daemon(sandbox):
    """The agent's command line runs the daemon, logs where the client looks, and ends with 0."""
    agent = plistlib.loads(PLIST.read_bytes())
    (sandbox.home / ".local/bin").mkdir(parents=True)
    (sandbox.home / ".local/bin/handoffd").symlink_to(BIN / "handoffd")
    sandbox.process = subprocess.Popen(
        agent["ProgramArguments"],
        env={**sandbox.environment, **agent["EnvironmentVariables"]},
        umask=agent["Umask"], stdin=subprocess.DEVNULL,
    )  # fmt: skip

    wait_for(sandbox.answers, what="the daemon answers")
    log = sandbox.state / "handoffd.log"

    assert sandbox.call("status")["pid"] == sandbox.process.pid
    assert sandbox.stop() == 0
    assert '"stopped"' in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
