"""The daemon as a process: one instance, orderly ends, configuration, sockets."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from conftest import allowed, wait_for
from proc import children


@pytest.mark.quick
def test_second_instance_leaves(live):
    """A second daemon of the same user ends with code 7 and names the first."""
    second = subprocess.run(
        [sys.executable, "-P", "-m", "handoffd", "run"],
        env=live.environment, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip

    assert 7 == second.returncode
    assert f"process {live.process.pid}" in second.stderr
    assert live.answers()


@pytest.mark.quick
def test_sigterm_ends_in_order(live):
    """SIGTERM ends the daemon within 2 s, with code 0, the last words written, the socket gone."""
    project = live.project()
    session = live.session(project)
    session.prompt("The work before the end")
    wait_for(lambda: "The work before the end" in live.yaml(project))
    session.say("The very last words.")
    wait_for(lambda: "The very last words." in live.document(project)["now"])
    started = time.monotonic()
    code = live.stop()

    assert 0 == code
    assert time.monotonic() - started < allowed(2)
    assert "The very last words." in live.yaml(project)
    assert not os.path.exists(live.socket_path)


@pytest.mark.quick
def test_stale_socket_is_replaced(live):
    """After kill -9 the socket file is still there; the next daemon takes its place."""
    live.kill()
    assert os.path.exists(live.socket_path)
    live.start()

    assert live.answers()


def test_socket_of_another_program_is_left_alone(sandbox):
    """A socket that another program serves is neither removed nor taken."""
    os.makedirs(os.path.dirname(sandbox.socket_path), mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(sandbox.socket_path)
        other.listen()
        process = sandbox.spawn()

        assert 1 == process.wait(90)
        assert "in use by something else" in sandbox.log.read_text()
        assert os.path.exists(sandbox.socket_path)


def test_successors_socket_is_not_removed(live):
    """A daemon that ends removes its own socket only, not a successor's on the same path."""
    os.unlink(live.socket_path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(live.socket_path)
        live.stop()

        assert os.path.exists(live.socket_path)


@pytest.mark.quick
def test_modes(live):
    """Socket, databases and directories are for this user alone."""
    directory = os.path.dirname(live.socket_path)

    assert 0o700 == os.stat(directory).st_mode & 0o777
    assert 0o600 == os.stat(live.socket_path).st_mode & 0o777
    assert 0o700 == live.state.stat().st_mode & 0o777
    modes = set()
    for path in live.state.iterdir():
        with contextlib.suppress(FileNotFoundError):  # one that is there for a moment
            modes |= {stat.S_IMODE(path.stat().st_mode)} if path.is_file() else set()
    assert {0o600} == modes


@pytest.mark.quick
def test_reload(live, record_property):
    """SIGHUP loads a new configuration; a broken one is reported and the old one stays.

    Nothing is lost.
    """
    project = live.project()
    session = live.session(project)
    config = live.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[projects]\nexclude = ["*/hidden"]\n')
    live.process.send_signal(signal.SIGHUP)
    hidden = live.project("hidden")
    wait_for(lambda: live.show(hidden)["refused"] == "excluded")
    config.write_text("[projects]\nexcluded = []\n")
    for number in range(50):
        session.prompt(f"Request {number} while it reads its configuration")
        live.process.send_signal(signal.SIGHUP)

    wait_for(lambda: "config_invalid" in json.dumps(live.request("status")["result"]))
    warning = live.request("status")["result"]["warnings"][0]["text"]
    assert str(config) in warning
    assert "`projects.excluded`" in warning
    assert "excluded" == live.show(hidden)["refused"]
    wait_for(lambda: live.show(project)["lanes"][0]["records"] == 50)
    read = live.show(project)["lanes"][0]["records"]
    record_property(
        "figure", f"{number + 1} broken reloads: the old one in force, {read} of 50 records read"
    )


def test_further_config_directories(sandbox):
    """A Claude config directory named in the configuration is followed too."""
    other = sandbox.home / "other-claude"
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[claude]\nconfig_dirs = ["~/other-claude"]\n')
    sandbox.start()
    project = sandbox.project()
    session = sandbox.session(project)
    session.path = other / "projects/-x" / session.path.name
    session.path.parent.mkdir(parents=True)
    session.prompt("From another config directory")

    wait_for(lambda: sandbox.document(project)["goal"] == "From another config directory")


@pytest.mark.quick
def test_broken_configuration_stops_the_start(sandbox):
    """A broken configuration at the start is an error that names file, key and remedy."""
    config = sandbox.home / ".config/handoffd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[checkpoint]\nwrite = "everywhere"\n')

    assert 1 == sandbox.spawn().wait(90)
    said = sandbox.log.read_text()
    assert str(config) in said
    assert "`checkpoint.write`" in said
    assert "should be 'marked' or 'none'" in said


@pytest.mark.quick
def test_notifies_its_service_manager(sandbox):
    """READY, WATCHDOG and STOPPING reach the socket that NOTIFY_SOCKET names."""
    path = str(sandbox.runtime / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(90)
        sandbox.environment |= {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"}
        sandbox.start()
        first = {manager.recv(100) for _ in range(3)}
        sandbox.stop()
        last = b""
        while last != b"STOPPING=1":
            last = manager.recv(100)

    assert {b"READY=1", b"WATCHDOG=1"} == first


@pytest.mark.quick
def test_activated_socket(sandbox):
    """A socket that the service manager opened is used, and left where it is at the end."""
    directory = sandbox.runtime / "handoffd"
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sandbox.socket_path)
        listener.listen()

        program = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid());"
            "os.execv(sys.executable, [sys.executable, '-P', '-m', 'handoffd', 'run'])"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(listener.fileno())],
            env={**sandbox.environment, "LISTEN_FDS": "1"}, pass_fds=(listener.fileno(),),
        )  # fmt: skip
        try:
            wait_for(sandbox.answers)
        finally:
            process.terminate()
            process.wait(90)

    assert os.path.exists(sandbox.socket_path)


def test_deleted_socket_is_bound_again(sandbox, record_property):
    """A deleted socket is there again after the next housekeeping, and its time is kept young."""
    sandbox.environment |= {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "400000"}
    sandbox.start()
    os.unlink(sandbox.socket_path)
    began = time.monotonic()
    wait_for(lambda: os.path.exists(sandbox.socket_path) and sandbox.answers())
    seconds = time.monotonic() - began
    # A cleaner of old files must not take the socket for an old file.
    os.utime(sandbox.socket_path, (1, 1))
    wait_for(lambda: os.stat(sandbox.socket_path).st_mtime > 1)
    told = f"there again after {seconds:.1f} s (looks every 0.2 s here, every 30 s as a rule)"
    record_property("figure", told)


@pytest.mark.quick
def test_broken_requests(live):
    """Data that is no request gets an error that says so, never a crash."""

    def exchange(data: bytes) -> dict:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(90)
            connection.connect(live.socket_path)
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(data)
            with connection.makefile("rb") as stream:
                return json.loads(stream.readline())

    assert -32700 == exchange(b"garbage\n")["error"]["code"]
    assert -32600 == exchange(b"[]\n")["error"]["code"]
    assert -32600 == exchange(b'{"id":{},"method":"status"}\n')["error"]["code"]
    assert -32601 == exchange(b'{"id":1,"method":"nothing"}\n')["error"]["code"]
    assert -32602 == exchange(b'{"id":1,"method":"show","params":{"x":1}}\n')["error"]["code"]
    assert -32602 == exchange(b'{"id":1,"method":"show","params":{"cwd":"a"}}\n')["error"]["code"]
    assert -32602 == exchange(b'{"id":1,"method":"show","params":[]}\n')["error"]["code"]
    assert live.answers()


@pytest.mark.quick
def test_protocol_mismatch(live):
    """A client of another protocol gets one line that names both, with exit code 6."""
    error = live.request("show", protocol=99)["error"]

    assert 6 == error["data"]["exit"]
    assert "protocol 99" in error["message"]
    assert "speaks 1" in error["message"]
    # The commands that replace a daemon must work across versions.
    assert live.process.pid == live.call("status", protocol=99)["pid"]
    assert "result" in live.request("down", protocol=99)
    assert 0 == live.process.wait(90)


def test_no_child_is_left(live, record_property):
    """At rest the daemon has no child process."""
    project = live.project()
    live.session(project).prompt("Let git be asked about this")
    wait_for(lambda: "Let git be asked" in live.yaml(project))

    wait_for(lambda: not children(live.process.pid))
    record_property("figure", f"{len(children(live.process.pid))} children at rest")


def test_hanging_git_is_ended(sandbox, record_property):
    """A git that hangs is ended with its children; the daemon goes on and says so."""
    fake = sandbox.home / "bin"
    fake.mkdir()
    script = fake / "git"
    marker = sandbox.home / "git-pid"
    script.write_text(f"#!/bin/sh\necho $$ > {marker}\nsleep 1000\n")
    script.chmod(0o755)
    project = sandbox.project()
    sandbox.environment["PATH"] = f"{fake}:{sandbox.environment['PATH']}"
    sandbox.start()
    session = sandbox.session(project)
    session.prompt("A project with a hanging git")
    wait_for(marker.exists)
    began = time.monotonic()
    pid = int(marker.read_text())

    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    seconds = time.monotonic() - began
    wait_for(lambda: "git took longer than 2 s" in sandbox.log.read_text())
    assert "A project with a hanging git" == sandbox.document(project)["goal"]
    record_property("figure", f"ended after {seconds:.1f} s")


@pytest.mark.quick
def test_hostile_repository_runs_nothing(live):
    """A repository's own fsmonitor, hooks and filters are never run."""
    project = live.project()
    marker = live.home / "pwned"
    (project / "file.txt").write_text("x")
    (project / "other.md").write_text("x")
    live.git(project, "add", "file.txt", "other.md")
    live.git(project, "commit", "-qm", "x")
    live.git(project, "config", "core.fsmonitor", f"touch {marker} #")
    live.git(project, "config", "filter.evil.clean", f"touch {marker}; cat")
    live.git(project, "config", "filter.evil.process", f"touch {marker}")
    live.git(project, "config", "filter.a=b.clean", f"touch {marker}; cat")
    live.git(project, "config", "core.hooksPath", "/tmp")
    (project / ".gitattributes").write_text("* filter=evil\n*.md filter=a=b\n")
    (project / "other.md").write_text("y")
    time.sleep(0.01)
    (project / "file.txt").write_text("y")
    live.session(project).prompt("Look at this strange repository")

    wait_for(lambda: "file.txt" in live.show(project)["uncommitted"])
    assert not marker.exists()


@pytest.mark.quick
def test_log_has_no_transcript_text(live):
    """At info level the log has events and paths, and no word of a transcript."""
    project = live.project()
    session = live.session(project)
    session.prompt("The confidential words of a person")
    session.raw(b"confidential garbage\n")
    wait_for(lambda: "confidential" in live.yaml(project))

    assert "confidential" not in live.log.read_text()
    assert all(json.loads(line)["event"] for line in live.log.read_text().splitlines())


@pytest.mark.quick
def test_failed_part_ends_with_an_error(sandbox):
    """When a loop of the daemon fails, it ends with code 1, so that its manager starts it anew."""
    program = (
        "from handoffd.ingest.transcript_reader import TranscriptReader\n"
        "async def broken(self): raise ValueError('x')\n"
        "TranscriptReader.run = broken\nimport sys; sys.argv = ['handoffd', 'run']\n"
        "from handoffd.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=sandbox.environment, capture_output=True,
        text=True, timeout=90, check=False,
    )  # fmt: skip

    assert 1 == done.returncode
    assert "loop_failed" in done.stderr


def test_watch_survives_another_connection(live):
    """A watcher keeps receiving events after another client came and went."""
    project = live.project()
    session = live.session(project)
    with socket.socket(socket.AF_UNIX) as watcher:
        watcher.settimeout(90)
        watcher.connect(live.socket_path)
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(live.socket_path)
            save = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "save",
                "params": {"cwd": str(project), "message": "x"},
            }
            other.sendall(json.dumps(save).encode() + b"\n")
            watcher.sendall(b'{"jsonrpc":"2.0","id":1,"method":"watch"}\n')
            stream = watcher.makefile("rb")
            assert b'"watching":"*"' in stream.readline()
            other.recv(100)
        session.prompt("Tell the watcher about this")
        while b"Tell the watcher about this" not in stream.readline():
            pass


def test_slow_git_holds_up_nobody(sandbox):
    """While git is slow in one project, another is written at once, and SIGTERM takes no longer."""
    fake = sandbox.home / "bin"
    fake.mkdir()
    real = shutil.which("git")
    (fake / "git").write_text(
        f'#!/bin/sh\ncase "$2" in */code/slow) sleep 1.5;; esac\nexec {real} "$@"\n'
    )
    (fake / "git").chmod(0o755)
    slow, quick = sandbox.project("slow"), sandbox.project("quick")
    sandbox.transcripts.mkdir(parents=True)
    sandbox.environment["PATH"] = f"{fake}:{sandbox.environment['PATH']}"
    sandbox.start()
    sandbox.session(slow).prompt("A project where git is slow")
    time.sleep(0.3)
    sandbox.session(quick).prompt("A project where git is quick")
    started = time.monotonic()
    wait_for(lambda: "git is quick" in sandbox.yaml(quick))
    took = time.monotonic() - started
    started = time.monotonic()
    sandbox.stop()

    assert took < allowed(1.4)
    assert time.monotonic() - started < allowed(2)
