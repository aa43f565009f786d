"""The sessions that running clients claim: real processes and the clients' files."""

import json
import os
import subprocess
import sys

import pytest

from handoffd.agents.claude_code import processes


def claim(config, pid, session_id="s-1", **more):
    directory = config / "sessions"
    directory.mkdir(exist_ok=True)
    path = directory / f"{pid}.json"
    path.write_text(json.dumps({"pid": pid, "sessionId": session_id} | more))
    return path


def test_living_client(tmp_path, client):
    """A claim of a living process is alive; a directory without claims gives nothing."""
    claim(tmp_path, client.pid)

    assert {"s-1": (True, "")} == processes.running_clients([str(tmp_path), str(tmp_path / "none")])


def test_killed_client(tmp_path, client):
    """A claim of a killed process is dead, even before the process is reaped."""
    claim(tmp_path, client.pid)
    client.kill()
    os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)

    assert {"s-1": (False, "")} == processes.running_clients([str(tmp_path)])
    client.wait()
    assert {"s-1": (False, "")} == processes.running_clients([str(tmp_path)])


def test_reused_number(tmp_path, client):
    """A process that is younger than the claim only reuses its process id."""
    path = claim(tmp_path, client.pid)
    os.utime(path, (1_000_000_000, 1_000_000_000))

    assert {"s-1": (False, "")} == processes.running_clients([str(tmp_path)])


def test_waiting_client(tmp_path, client):
    """The reason for which a client waits is returned while it waits."""
    claim(tmp_path, client.pid, status="waiting", waitingFor="permission to run Bash")
    assert {"s-1": (True, "permission to run Bash")} == processes.running_clients([str(tmp_path)])
    claim(tmp_path, client.pid, status="busy", waitingFor="permission to run Bash")

    assert {"s-1": (True, "")} == processes.running_clients([str(tmp_path)])


def test_two_clients_of_one_session(tmp_path, client):
    """A session that was resumed after a crash is alive if any of its clients is."""
    claim(tmp_path, client.pid)
    claim(tmp_path, 99_999_999)

    assert {"s-1": (True, "")} == processes.running_clients([str(tmp_path)])


def test_what_is_no_claim(tmp_path):
    """Broken, foreign, huge and secret files beside the claims are ignored."""
    directory = tmp_path / "sessions"
    directory.mkdir()
    (directory / "12.json").write_text("{")
    (directory / "13.json").write_text("[]")
    (directory / "14.json").write_text('{"sessionId": 3}')
    (directory / "15.json").write_text(json.dumps({"pid": 16, "sessionId": "x"}))
    (directory / "1.ab12.key").write_text("secret")
    (directory / "name.json").write_text('{"sessionId": "x"}')
    (directory / "17.json").write_text('{"a": "' + "x" * 100_000 + '"}')
    os.mkfifo(directory / "18.json")
    os.symlink("/dev/zero", directory / "19.json")

    assert {} == processes.running_clients([str(tmp_path)])


@pytest.mark.skipif(
    os.getuid() != 0 or sys.platform != "linux",
    reason="becomes another user, which only root on Linux may do: run the tests as root",
)
def test_process_of_another_user(tmp_path):
    """Another user's process cannot be the client of our session."""
    path = claim(tmp_path, 1)
    code = (
        "import os, sys; from handoffd.agents.claude_code import processes;"
        "os.setuid(65534); print(processes.is_alive(1, sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    assert "False" == done.stdout.strip()
