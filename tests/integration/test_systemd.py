"""The shipped units under a real `systemd --user`: it starts, restarts and ends the daemon.

The manager runs in namespaces of its own (systemd_user.sh) for a user id without an account, with
the tested environment's programs linked into ~/.local/bin, where the unit looks for them.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

import damaged_stores
from conftest import BIN, REPOSITORY, Session, wait_for
from handoff.common.errors import EXIT_ALREADY_RUNNING, EXIT_NOT_RUNNING

SCRIPT = Path(__file__).with_name("systemd_user.sh")
SERVICE = "handoffd.service"
SOCKET = "handoffd.socket"
# In a range that systemd's table of user ids leaves unused: no other process should have it.
USER = 61000
PROGRAMS = ("/lib/systemd/systemd", "systemctl", "unshare", "nsenter", "setpriv", "bash")


def obstacle() -> str:
    """Return the reason why this machine cannot run a manager, as far as it is visible untried."""
    if sys.platform != "linux":
        return "is about systemd, which only Linux has"
    if os.geteuid() != 0:
        return "makes namespaces and runs as another user, which only root may do: run the tests as root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(missing)} missing: install systemd, util-linux and bash" if missing else ""


def give_up(reason: str) -> NoReturn:
    """Skip if the machine forbids a user manager; any other reason is a failure."""
    forbidden = ("unable", "not permitted", "denied")
    conclude = pytest.skip if any(word in reason for word in forbidden) else pytest.fail
    conclude(f"no user manager of systemd can be started here (a container forbids it): {reason}")


pytestmark = pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "runs here")


class Manager:
    """A user manager, and that user's shell."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.home = directory / "home"
        self.units = self.home / ".config/systemd/user"
        self.log = self.home / "daemon.log"
        self.runtime = f"/run/user/{USER}"
        self.entered = 0

    def start(self) -> subprocess.Popen:
        """Start the manager; it lives until its standard input is closed."""
        self.furnish()
        prefixes = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
        process = subprocess.Popen(
            [SCRIPT, str(USER), self.home, *sorted(prefixes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        said = process.stdout.readline().strip()
        if not said.startswith("ready "):
            process.stdin.close()
            give_up(said or process.stderr.read().strip())
        self.entered = int(said.removeprefix("ready "))
        return process

    def furnish(self) -> None:
        """Install the programs and the units as they are shipped."""
        programs = self.home / ".local/bin"
        programs.mkdir(parents=True)
        for name in ("handoff", "handoffd"):
            (programs / name).symlink_to(BIN / name)
        self.units.mkdir(parents=True)
        for name in (SERVICE, SOCKET):
            shutil.copy(REPOSITORY / "systemd" / name, self.units)
        self.own()

    def own(self) -> None:
        """Give the user the files that we made as root."""
        for path in (self.directory, *self.directory.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)

    def clear(self) -> None:
        """Bring everything to the state after installation."""
        self.systemctl("disable", "--now", "--quiet", SOCKET)
        self.systemctl("stop", SERVICE)
        shutil.rmtree(self.units / f"{SERVICE}.d", ignore_errors=True)
        # There is no journal in these namespaces.
        self.configure("log", f"StandardError=append:{self.log}")
        # The count of starts, which the unit limits, begins anew as well.
        self.systemctl("reset-failed", SERVICE, SOCKET)
        self.log.unlink(missing_ok=True)

    def configure(self, name: str, *settings: str) -> None:
        directory = self.units / f"{SERVICE}.d"
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.conf").write_text("\n".join(("[Service]", *settings, "")))
        self.systemctl("daemon-reload", check=True)

    # The user's shell

    def command(self, *words: str) -> list[str]:
        return [
            "nsenter", "--target", str(self.entered), "--mount", "--pid",
            "setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups",
            "env", "-i", "-C", str(self.home), f"HOME={self.home}", "LANG=C.UTF-8",
            f"XDG_RUNTIME_DIR={self.runtime}",
            f"PATH={self.home}/.local/bin:/usr/local/bin:/usr/bin:/bin",
            *words,
        ]  # fmt: skip

    def run(self, *words: str, check: bool = False) -> subprocess.CompletedProcess:
        done = subprocess.run(
            self.command(*words),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{words}: {done.stderr}\n{self.story()}"
        return done

    def story(self) -> str:
        return self.log.read_text() if self.log.exists() else "(the daemon wrote no log)"

    def systemctl(self, *words: str, check: bool = False) -> str:
        return self.run("systemctl", "--user", *words, check=check).stdout.strip()

    def show(self, name: str) -> str:
        return self.systemctl("show", "--value", f"--property={name}", SERVICE, check=True)

    def main_pid(self) -> int:
        return int(self.show("MainPID"))

    def is_active(self) -> bool:
        return self.systemctl("is-active", SERVICE) == "active"

    def handoff(self, *words: str) -> str:
        return self.run("handoff", *words, check=True).stdout

    def answering_pid(self) -> int:
        """Ask once, and return the process that answers."""
        return json.loads(self.handoff("status", "--json"))["pid"]

    def signal(self, name: str, pid: int) -> bool:
        return self.run("sh", "-c", f"kill -{name} {pid}").returncode == 0

    def kill(self) -> int:
        """Kill the daemon, wait until it is gone, and return the process it was."""
        pid = self.main_pid()
        assert self.signal("KILL", pid)
        wait_for(lambda: not self.signal("0", pid), what="the killed daemon is gone")
        return pid

    def successor(self, pid: int) -> int:
        """Wait until another process is the active daemon, and return it."""

        def found() -> int:
            other = self.main_pid()
            return other if other not in (0, pid) and self.is_active() else 0

        return wait_for(found, what=f"a daemon after {pid}")

    def socket_inode(self) -> int:
        """Return the identity of the socket file, or 0 where there is none."""
        path = Path(f"/proc/{self.entered}/root{self.runtime}/handoffd/handoffd.sock")
        return path.stat().st_ino if path.is_socket() else 0


@pytest.fixture(scope="module")
def manager() -> Iterator[Manager]:
    """One manager for all tests of this module."""
    # Other users cannot reach paths below pytest's own directory.
    with tempfile.TemporaryDirectory(prefix="ho-", dir="/tmp") as name:
        os.chmod(name, 0o755)
        try:
            os.chown(name, USER, USER)
        except OSError as problem:
            pytest.skip(f"a file cannot be given to user {USER} here: {problem.strerror}")
        found = Manager(Path(name))
        process = found.start()
        try:
            if found.run(str(BIN / "python"), "-c", "").returncode != 0:
                pytest.skip(
                    f"{BIN}/python cannot be run by another user: clone to where others may read"
                )
            yield found
        finally:
            process.stdin.close()
            process.wait(90)


@pytest.fixture
def unit(manager: Manager) -> Manager:
    """The service is installed and does not run."""
    manager.clear()
    return manager


@pytest.fixture
def activated(unit: Manager) -> Manager:
    """The socket is enabled and listens, the service does not run."""
    unit.systemctl("enable", "--now", "--quiet", SOCKET, check=True)
    assert not unit.is_active()
    return unit


def test_start_returns_when_daemon_answers(unit):
    """`systemctl start` returns only when a client gets an answer, from the process it names."""
    unit.systemctl("start", SERVICE, check=True)

    assert unit.answering_pid() == unit.main_pid()
    assert unit.is_active()


def test_killed_daemon_is_replaced(unit):
    """After kill -9 another process answers on the same socket path."""
    unit.systemctl("start", SERVICE, check=True)
    killed = unit.kill()

    replacement = unit.successor(killed)

    assert unit.answering_pid() == replacement
    assert unit.show("NRestarts") == "1"


def test_hung_daemon_is_replaced(unit):
    """A daemon that lives reports to the watchdog; one that is stopped is ended and replaced."""
    unit.configure("watchdog", "WatchdogSec=2")
    unit.systemctl("start", SERVICE, check=True)
    pid, first = unit.main_pid(), unit.show("WatchdogTimestampMonotonic")
    wait_for(lambda: unit.show("WatchdogTimestampMonotonic") != first, what="a report")

    assert unit.signal("STOP", pid)
    replacement = unit.successor(pid)

    assert unit.answering_pid() == replacement


def test_stop_is_clean(unit):
    """`systemctl stop` lets the daemon end by itself, with 0, and it takes its socket with it."""
    unit.systemctl("start", SERVICE, check=True)
    assert unit.socket_inode()

    unit.systemctl("stop", SERVICE, check=True)

    assert unit.systemctl("is-active", SERVICE) == "inactive"
    assert unit.show("Result") == "success"
    assert '"stopped"' in unit.story()
    assert not unit.socket_inode()
    assert unit.run("handoff", "status").returncode == EXIT_NOT_RUNNING


def test_reload_keeps_process(unit):
    """`systemctl reload` makes the same process read its configuration again."""
    unit.systemctl("start", SERVICE, check=True)
    pid = unit.main_pid()

    unit.systemctl("reload", SERVICE, check=True)
    wait_for(lambda: "config_reloaded" in unit.story(), what="the configuration is read")

    assert unit.answering_pid() == pid


def test_confined_daemon_does_its_work(unit):
    """Under seccomp it still reads transcripts, runs git, and writes to a project outside HOME."""
    project = unit.directory / "elsewhere/shop"
    project.mkdir(parents=True)
    session = Session(unit.home / ".claude/projects/shop", str(project))
    session.prompt("Add a discount code field to the checkout page")
    session.edit(f"{project}/src/checkout.py")
    unit.own()
    unit.run("git", "init", "--quiet", "--initial-branch=trunk", str(project), check=True)

    unit.systemctl("start", SERVICE, check=True)
    checkpoint = project / ".flow-guardian/handoff.yaml"
    wait_for(lambda: checkpoint.exists() and "src/checkout.py" in checkpoint.read_text())
    process = unit.run("cat", f"/proc/{unit.main_pid()}/status", check=True).stdout.split()

    assert "branch: trunk" in checkpoint.read_text()
    assert checkpoint.stat().st_mode & 0o777 == 0o600
    assert process[process.index("NoNewPrivs:") + 1] == "1"
    assert process[process.index("Seccomp:") + 1] == "2"


def test_client_manages_unit(unit):
    """`handoff up`, `restart` and `down` start, replace and end the process of the unit."""
    unit.handoff("up")
    first = unit.main_pid()
    assert unit.answering_pid() == first

    unit.handoff("restart")
    second = unit.main_pid()
    assert unit.answering_pid() == second
    assert second not in (0, first)

    unit.handoff("down")
    assert unit.main_pid() == 0
    assert unit.systemctl("is-active", SERVICE) == "inactive"


@pytest.fixture
def other_pid(unit: Manager) -> Iterator[int]:
    """The process of a daemon that the user started by hand."""
    process = subprocess.Popen(unit.command("handoffd", "run"), stderr=subprocess.DEVNULL)
    # If it never answers, it ends with the manager's namespace.
    wait_for(lambda: unit.run("handoff", "status").returncode == 0, what="the other answers")
    pid = unit.answering_pid()
    yield pid
    unit.signal("KILL", pid)
    process.wait(90)


def test_second_daemon_is_not_retried(unit, other_pid):
    """If a daemon runs outside of the unit, the unit fails once and leaves it alone."""
    unit.systemctl("start", SERVICE)

    assert unit.systemctl("is-active", SERVICE) == "failed"
    assert unit.show("ExecMainStatus") == str(EXIT_ALREADY_RUNNING)
    assert unit.show("NRestarts") == "0"
    assert unit.answering_pid() == other_pid


def test_crash_loop_ends(unit):
    """A daemon that dies again and again is started four times, not for ever."""
    unit.configure("quick", "RestartSec=10ms")
    unit.systemctl("start", SERVICE, check=True)
    for _ in range(3):
        unit.successor(unit.kill())
    unit.kill()

    wait_for(lambda: unit.systemctl("is-active", SERVICE) == "failed", what="the unit gives up")
    assert unit.story().count('"started"') == 4


def test_connection_starts_daemon(activated):
    """With the socket unit a client's first question starts the daemon, which answers it."""
    inode = activated.socket_inode()

    pid = activated.answering_pid()

    assert pid == activated.main_pid()
    assert activated.socket_inode() == inode


def test_activated_socket_survives_kill(activated):
    """With the socket unit a question asked right after kill -9 is answered by the successor."""
    activated.answering_pid()
    inode = activated.socket_inode()

    killed = activated.kill()

    assert activated.answering_pid() not in (0, killed)
    assert activated.socket_inode() == inode


def test_activated_socket_survives_stop(activated):
    """With the socket unit the socket outlives the service, and a question starts it again."""
    stopped = activated.answering_pid()
    inode = activated.socket_inode()

    activated.systemctl("stop", SERVICE, check=True)

    assert activated.systemctl("is-active", SERVICE) == "inactive"
    assert activated.socket_inode() == inode
    assert activated.answering_pid() not in (0, stopped)


def test_client_manages_activated_unit(activated):
    """With the socket unit `handoff restart` replaces the process and `handoff down` ends it."""
    first = activated.answering_pid()

    activated.handoff("restart")
    second = activated.main_pid()
    assert second not in (0, first)

    activated.handoff("down")
    assert activated.main_pid() == 0
    assert activated.socket_inode()


def test_repair_of_activated_unit(activated):
    """A request during a repair does not start the daemon; later socket and daemon are back."""
    first = activated.answering_pid()
    activated.systemctl("stop", SERVICE, check=True)
    # A client asks when the daemon has just ended; if the socket listens, that starts it again.
    asking = "timeout 2 %h/.local/bin/handoff status; echo $$? >>%h/asked"
    activated.configure("ask", f"ExecStopPost=/bin/sh -c '{asking}'")
    second = activated.answering_pid()
    activated.run("kill", "-STOP", str(second), check=True)  # or it would mend by itself
    (core,) = activated.home.rglob("core.db")
    damaged_stores.garbage(core)
    damaged_stores.log(core)  # which would hold all of a small file

    done = activated.run("handoff", "repair", "--yes", check=True)

    third = activated.main_pid()
    assert 3 == len({first, second, third} - {0})
    assert f"handoffd is up again (process {third}).\n" == done.stderr
    assert f"{EXIT_NOT_RUNNING}\n" == (activated.home / "asked").read_text()
    assert "active" == activated.systemctl("is-active", SOCKET)
    assert third == activated.answering_pid()


def examined(unit: Manager) -> list[tuple[str, str, str]]:
    """Return doctor's findings about the service: level, text and remedy."""
    done = unit.run("handoff", "doctor", "--json")
    return [
        (finding["level"], finding["text"], finding["remedy"])
        for finding in json.loads(done.stdout)["findings"]
        if finding["subject"] == "service"
    ]


def test_doctor_knows_the_unit(unit):
    """Each state has its remedy: only installed, enabled, and beside a process of its own."""
    unit.systemctl("disable", "--quiet", SERVICE)
    unit.systemctl("start", SERVICE, check=True)
    ((level, text, remedy),) = examined(unit)
    unit.run("sh", "-c", remedy.removeprefix("Run: "), check=True)
    enabled = examined(unit)
    unit.systemctl("stop", SERVICE, check=True)
    beside = unit.run("sh", "-c", "setsid handoffd run >/dev/null 2>&1 & sleep 0.1; echo $!")
    wait_for(lambda: unit.run("handoff", "status").returncode == 0, what="it answers")
    other = examined(unit)
    unit.run("sh", "-c", other[0][2].removeprefix("Run: "), check=True)
    after = examined(unit)
    unit.systemctl("disable", "--quiet", SERVICE)

    assert ("note", f"{SERVICE} is not started when you log in") == (level, text)
    assert [("ok", f"systemd: {SERVICE} is enabled, and active", "")] == enabled
    assert ("note", f"process {beside.stdout.strip()} runs beside {SERVICE}") == (
        other[0][0],
        other[0][1].partition(",")[0],
    )
    assert enabled == after


def test_doctor_knows_a_unit_whose_program_is_gone(unit):
    """A unit whose program is missing is bad, and the program is named; so is a failed unit."""
    unit.systemctl("enable", "--quiet", SERVICE)
    unit.configure("gone", "ExecStart=", "ExecStart=/nowhere/handoffd run")
    unit.run("systemctl", "--user", "start", SERVICE)
    wait_for(lambda: unit.show("ActiveState") == "failed", what="it has failed")
    found = examined(unit)
    unit.systemctl("disable", "--quiet", SERVICE)

    assert ["bad", "bad"] == [level for level, _, _ in found]
    assert f"{SERVICE} starts /nowhere/handoffd, which is not there" == found[0][1]
    assert f"{SERVICE} has failed" in found[1][1]


def test_doctor_knows_activation(activated):
    """If the socket is enabled, the service need not be."""
    assert [("ok", f"systemd: {SERVICE} is started by its socket, and active", "")] == examined(
        activated
    )


# `handoff setup` and `handoff teardown`


@pytest.fixture
def bare(unit: Manager) -> Iterator[Manager]:
    """A user without a unit, and without anything of Claude Code."""
    shutil.rmtree(unit.home / ".config")
    unit.systemctl("daemon-reload", check=True)
    yield unit
    unit.run("handoff", "down")
    unit.systemctl("disable", "--now", "--quiet", SERVICE)
    for name in (".config", ".claude", ".local/state"):
        shutil.rmtree(unit.home / name, ignore_errors=True)
    (unit.home / ".claude.json").unlink(missing_ok=True)
    unit.units.mkdir(parents=True)
    for name in (SERVICE, SOCKET):
        shutil.copy(REPOSITORY / "systemd" / name, unit.units)
    unit.own()
    unit.systemctl("daemon-reload", check=True)


def is_enabled(manager: Manager) -> bool:
    return manager.systemctl("is-enabled", SERVICE) == "enabled"


def test_setup_installs_and_starts_the_service(bare):
    """In an empty HOME setup installs, enables and starts the unit; teardown removes it."""
    said = bare.handoff("setup", "--yes")

    assert f"* new file: {bare.units / SERVICE}" in said
    assert "systemctl --user enable --now handoffd.service" in said
    assert f'ExecStart="{bare.home}/.local/bin/handoffd" run' in (bare.units / SERVICE).read_text()
    assert is_enabled(bare)
    assert bare.answering_pid() == bare.main_pid()
    assert "Everything is in place.\n" == bare.handoff("setup", "--yes")

    bare.handoff("teardown", "--yes")

    assert not (bare.home / ".config").exists()
    assert not is_enabled(bare)
    assert bare.main_pid() == 0
    assert bare.run("systemctl", "--user", "cat", SERVICE).returncode != 0
    assert bare.run("handoff", "status").returncode == EXIT_NOT_RUNNING


def test_setup_replaces_a_daemon_in_the_background(bare):
    """A daemon that `handoff up` started makes way for the service."""
    bare.handoff("up")
    before = bare.answering_pid()

    bare.handoff("setup", "--yes")

    assert bare.answering_pid() == bare.main_pid() != before
    assert not bare.signal("0", before)


def test_setup_follows_the_program(bare):
    """From another directory, with a space and a % in its name, the unit is written anew."""
    bare.handoff("setup", "--yes")
    first = bare.answering_pid()
    place = bare.home / "my %h tools"
    place.mkdir()
    for name in ("handoff", "handoffd"):
        (bare.home / ".local/bin" / name).rename(place / name)
    try:
        words = ("env", f"PATH={place}:/usr/bin:/bin", "handoff", "setup", "--yes")
        bare.run(*words, check=True)

        assert str(place / "handoffd") in bare.show("ExecStart")
        assert bare.main_pid() not in (0, first)
        assert "Everything is in place.\n" == bare.run(*words, check=True).stdout
        bare.run("env", f"PATH={place}:/usr/bin:/bin", "handoff", "teardown", "--yes", check=True)
        assert not (bare.home / ".config").exists()
    finally:
        for name in ("handoff", "handoffd"):
            (place / name).rename(bare.home / ".local/bin" / name)


def test_setup_leaves_a_unit_of_the_user_s(bare):
    """A unit of the user's is enabled and started as it is, and teardown leaves it."""
    bare.units.mkdir(parents=True)
    shutil.copy(REPOSITORY / "systemd" / SERVICE, bare.units)
    bare.own()
    bare.systemctl("daemon-reload", check=True)

    said = bare.handoff("setup", "--yes")

    assert f"{bare.units / SERVICE} is not setup's, and stays as it is" in said
    assert is_enabled(bare)
    assert bare.answering_pid() == bare.main_pid()
    bare.handoff("teardown", "--yes")
    assert (REPOSITORY / "systemd" / SERVICE).read_text() == (bare.units / SERVICE).read_text()
    assert bare.answering_pid() == bare.main_pid()


def test_setup_that_cannot_start_the_service_is_undone(bare):
    """If the service cannot start, unit, hooks and all the rest are removed. That is reported."""
    (bare.home / ".local/state/handoffd/handoffd.lock").unlink(missing_ok=True)
    (bare.home / ".local/state/handoffd/handoffd.lock").mkdir(parents=True)
    bare.own()

    done = bare.run("handoff", "setup", "--yes")

    assert done.returncode == 1
    assert "What was done before that was undone; nothing has changed." in done.stderr
    assert not (bare.home / ".config").exists()
    assert not (bare.home / ".claude").exists()
    assert not is_enabled(bare)


def test_teardown_knows_its_unit_without_notes(bare):
    """Teardown recognises its unit after the state directory was deleted."""
    bare.handoff("setup", "--yes")
    bare.systemctl("stop", SERVICE, check=True)
    shutil.rmtree(bare.home / ".local/state/handoffd")

    bare.handoff("teardown", "--yes")

    assert not (bare.units / SERVICE).exists()
    assert not is_enabled(bare)
