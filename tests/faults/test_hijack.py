"""A repository full of files named like our imports, programs and inputs: none of them is run."""

import subprocess
import sys

import pytest

from conftest import wait_for
from relay_client import Relayed

MODULES = (
    "json", "socket", "logging", "sitecustomize", "usercustomize", "yaml", "argparse", "pydantic",
    "time", "os", "re", "site", "_json", "_socket", "select", "posix", "subprocess", "encodings",
    "structlog", "watchdog", "apscheduler", "msgspec", "asyncio", "sqlite3", "typing", "tomllib",
)  # fmt: skip
PROGRAMS = (
    "git", "bd", "br", "sh", "python", "python3", "systemctl", "launchctl", "journalctl", "readlink",
    "env", "claude", "notify-send", "osascript", "handoffd", "cat", "ps",
)  # fmt: skip


@pytest.fixture
def trap(live):
    """A project that leaves a mark whenever one of its files is run."""
    project = live.project()
    mark = live.home / "pwned"
    code = f"open({str(mark)!r}, 'a').write(__file__ + '\\n')\n"
    for name in MODULES:
        (project / f"{name}.py").write_text(code)
    for name in ("handoff", "handoffd"):
        (project / name).mkdir()
        (project / name / "__init__.py").write_text(code)
        (project / name / "__main__.py").write_text(code)
    (project / "evil.pth").write_text(f"import json; exec({code!r})\n")
    (project / "pyvenv.cfg").write_text(f"home = {project}\n")
    (project / "lib").mkdir()
    for name in PROGRAMS:
        path = project / name
        if not path.exists():
            path.write_text(f"#!/bin/sh\necho $0 $* >> {mark}\nexit 0\n")
            path.chmod(0o755)
    (project / "file.txt").write_text("x")
    live.git(project, "add", "-f", "file.txt")
    live.git(project, "commit", "-qm", "x")
    for key, value in {
        "core.fsmonitor": f"touch {mark} #",
        "core.hooksPath": str(project / "hooks"),
        "core.pager": f"touch {mark}",
        "core.editor": f"touch {mark}",
        "core.sshCommand": f"touch {mark}",
        "diff.external": f"touch {mark}",
        "filter.evil.clean": f"touch {mark}; cat",
        "filter.evil.process": f"touch {mark}",
        "gpg.program": f"touch {mark}",
        "log.showSignature": "true",
        "alias.status": f"!touch {mark}",
        "alias.ls-files": f"!touch {mark}",
        "credential.helper": f"!touch {mark}",
        "uploadpack.packObjectsHook": f"touch {mark}",
        "include.path": str(project / "more-config"),
    }.items():
        live.git(project, "config", key, value)
    (project / "more-config").write_text(f"[core]\n\tfsmonitor = touch {mark} #\n")
    (project / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (project / "hooks").mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (project / "hooks" / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (project / "hooks" / name).chmod(0o755)
    (project / "file.txt").write_text("y")
    return project, mark


def hostile(project, path: str) -> dict[str, str]:
    """Return the environment that a shell may hand us in such a place."""
    return {
        "PATH": path,
        "PYTHONPATH": str(project),
        "PYTHONHOME": "",
        "PYTHONSTARTUP": str(project / "json.py"),
        "PYTHONUSERBASE": str(project),
        "PYTHONINSPECT": "",
        "BASH_ENV": str(project / "sh"),
        "ENV": str(project / "sh"),
        "GIT_EXEC_PATH": str(project),
        "GIT_DIR": str(project / ".git"),
        "GIT_EXTERNAL_DIFF": str(project / "git"),
    }


COMMANDS = (
    ["status"], ["show"], ["inject"], ["hook"], ["statusline"], ["save", "-m", "x"], ["why", "goal"],
    ["sessions", "--limit", "3"], ["doctor"], ["--help"], ["list"], ["open"], ["version", "--check"],
    ["close", "--done", "x"], ["create", "--general"], ["triggers"], ["setup", "--dry-run"], ["logs"],
    ["setup", "--yes", "--with", "plugin"],
)  # fmt: skip


@pytest.mark.parametrize("path", [".:{path}", ":{path}", "{path}:bin/../:", "{project}:{path}"])
def test_nothing_of_a_repository_is_run(live, trap, path, record_property):
    """No module, program, hook or setting of the current directory is run.

    That holds with and without a daemon.
    """
    project, mark = trap
    environment = hostile(project, path.format(path=live.environment["PATH"], project=project))
    for command in COMMANDS if path.startswith((".", "{project}")) else COMMANDS[:3]:
        done = live.handoff(*command, cwd=project, env=environment, input="{}")
        assert "Traceback" not in done.stderr, (command, done.stderr)
    with Relayed(live, cwd=project, env=environment) as relay:
        assert 5 == len(relay.result("tools/list")["tools"])
    live.stop()
    for command in (["save", "-m", "x"], ["show"], ["inject", "--level", "L2"], ["up"]):
        done = live.handoff(*command, cwd=project, env=environment, input="{}")
        assert 0 == done.returncode, (command, done.stderr)
    assert 0 == live.handoff("down", cwd=project, env=environment).returncode

    assert not mark.exists(), mark.read_text()
    record_property(
        "figure",
        f"{len(COMMANDS) + 6} commands, 4 PATHs, {len(MODULES)} modules, {len(PROGRAMS)} programs: 0 run",
    )


def test_a_daemon_started_in_a_repository(sandbox, record_property):
    """No question makes the daemon run a program of the directory in which it was started."""
    sandbox.transcripts.mkdir(parents=True)
    project = sandbox.project()
    mark = sandbox.home / "pwned"
    for name in PROGRAMS:
        (project / name).write_text(f"#!/bin/sh\necho $0 $* >> {mark}\n")
        (project / name).chmod(0o755)
    (project / ".beads").mkdir()
    (project / ".beads/issues.jsonl").write_text(
        '{"id":"shop-1","title":"x","issue_type":"epic"}\n'
    )
    (project / "conductor/tracks/auth_20260301").mkdir(parents=True)
    sandbox.environment["PATH"] = f"{project}:.::{sandbox.environment['PATH']}"
    sandbox.environment["DISPLAY"] = ":77"
    sandbox.environment["GIT_EXEC_PATH"] = str(project)
    with sandbox.log.open("ab") as stream:
        sandbox.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "handoffd", "run"], env=sandbox.environment, cwd=project,
            stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
        )  # fmt: skip
    wait_for(lambda: sandbox.alive() and sandbox.answers())
    session = sandbox.session(project)
    session.prompt("Look at this strange repository")
    session.edit(str(project / "a.py"))
    wait_for(lambda: "notify-send" in sandbox.show(project)["uncommitted"])
    sandbox.request("create", cwd=str(project), general=True, timeout=90)
    sandbox.request("doctor")

    assert not mark.exists(), mark.read_text()
    record_property("figure", f"{len(PROGRAMS)} programs, 0 run")
