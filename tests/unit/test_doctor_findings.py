"""The pure functions of `handoff doctor`, which judge given observations."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from handoff import __version__
from handoff.common.errors import EXIT_NOT_FRESH, EXIT_NOT_RUNNING, EXIT_VERSIONS_DIFFER
from handoff.doctor import disk, hooks, service_manager, transcripts, versions, watches
from handoff.doctor.environment import ClaudeCode, Environment
from handoff.doctor.finding import bad, exit_code, note, ok
from handoff.setup import claude_entries

NOW = 1_800_000_000.0
HOUR = 3600.0


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_the_worst_decides_on_the_exit_code():
    """The exit code is the worst: not running, then not fresh, then versions, then the rest."""
    codes = (1, EXIT_VERSIONS_DIFFER, EXIT_NOT_FRESH, EXIT_NOT_RUNNING)
    found = [ok("x"), note("x", "y")]
    told = []
    for code in codes:
        found.append(bad("x", "y", code))
        told.append(exit_code(found))

    assert 0 == exit_code(found[:2])
    assert list(codes) == told


@pytest.mark.parametrize(
    ("hook", "program"),
    [
        ({"command": "handoff hook"}, "handoff"),
        ({"command": "~/.local/bin/handoff inject --save-state"}, "~/.local/bin/handoff"),
        ({"command": '"/a b/handoff" hook 2>/dev/null; exit 0'}, "/a b/handoff"),
        (
            {"command": 'PATH="$PATH:$HOME/.local/bin" handoff hook 2>/dev/null; exit 0'},
            "handoff",
        ),
        ({"command": "/a b/handoff", "args": ["hook"]}, "/a b/handoff"),
        ({"command": "test -x /x/handoff && /x/handoff hook || true"}, "/x/handoff"),
        ({"command": "handoff status"}, ""),
        ({"command": "echo handoff; hook"}, ""),
        ({"command": "other-handoff hook"}, ""),
        ({"command": "handoff 'hook"}, ""),
        ({"command": 7}, ""),
        ({"type": "prompt"}, ""),
    ],
)
def test_our_hooks_are_known_by_what_they_run(hook, program):
    """A hook is ours if it runs `handoff hook` (or `inject`), in any spelling."""
    assert program == claude_entries.hook_program(hook)


@pytest.mark.parametrize(
    "settings", [{"hooks": []}, {"hooks": {"Stop": {}}}, {"hooks": {"Stop": [1, {"hooks": [2]}]}}]
)
def test_strange_hooks_are_nobodys(settings):
    """Settings of another shape hold no hook of ours and raise no error."""
    assert [] == list(hooks.programs_of(settings))


def scene(tmp_path: Path, *, typed: float | None, heard: dict | None, **changes) -> Environment:
    claude = ClaudeCode(str(tmp_path), {}, changed_at=NOW - 5 * HOUR)
    roots = [{"path": f"{tmp_path}/projects", "typed_at": typed and iso(typed)}]
    status = {"uptime_seconds": 3 * HOUR, **({} if heard is None else {"hooks": heard})}
    return replace(Environment(claude, status, known={"roots": roots}), **changes)


@pytest.mark.parametrize(
    ("typed", "heard", "silent"),
    [
        (NOW - HOUR, None, False),
        (NOW - HOUR, {}, True),
        (NOW - HOUR, {"SessionStart": NOW - 4 * HOUR}, True),
        (NOW - HOUR, {"SessionStart": NOW - 2 * HOUR}, False),
        (NOW - 4 * HOUR, {}, False),
        (NOW - 3 * HOUR, {}, False),
        (None, {}, False),
    ],
    ids=["unknown", "never", "before", "since", "daemon was down", "just started", "no prompt"],
)
def test_silent_hooks(tmp_path, typed, heard, silent):
    """Hooks are silent if, since the daemon's start, a prompt was typed and no hook was heard."""
    events = heard and {
        name: {"at": iso(at), "seconds": NOW - at, "plugin": None} for name, at in heard.items()
    }
    found = hooks.silent_since(scene(tmp_path, typed=typed, heard=events or heard), NOW)

    assert silent == bool(found)


def test_hooks_that_were_just_installed_are_not_silent(tmp_path):
    """A prompt from before the last change of the settings does not count."""
    claude = ClaudeCode(str(tmp_path), {}, changed_at=NOW - HOUR / 2)

    assert "" == hooks.silent_since(scene(tmp_path, typed=NOW - HOUR, heard={}, claude=claude), NOW)


def test_another_directory_s_prompts_prove_nothing(tmp_path):
    """Only sessions of the config directory with the hooks are expected to fire them."""
    claude = ClaudeCode(str(tmp_path / "other"), {}, changed_at=NOW - 5 * HOUR)

    assert "" == hooks.silent_since(scene(tmp_path, typed=NOW - HOUR, heard={}, claude=claude), NOW)


def test_silent_hooks_are_bad(tmp_path, monkeypatch):
    """Installed hooks that can run but are never heard are bad, and the remedy names causes."""
    (tmp_path / "handoff").touch(mode=0o755)
    command = {"type": "command", "command": f"{tmp_path}/handoff hook"}
    claude = ClaudeCode(
        str(tmp_path), {"hooks": {"Stop": [{"hooks": [command]}]}}, changed_at=NOW - 5 * HOUR
    )
    monkeypatch.setattr(time, "time", lambda: NOW)
    (found,) = hooks.examine(scene(tmp_path, typed=NOW - HOUR, heard={}, claude=claude))
    event = {"at": iso(NOW - 300), "seconds": 300.0, "plugin": None}
    (heard,) = hooks.examine(
        scene(tmp_path, typed=NOW - HOUR, heard={"SessionStart": event}, claude=claude)
    )

    assert ("bad", 1) == (found.level, found.exit)
    assert "hooks-silent" in found.remedy
    assert "in settings.json; heard last: SessionStart 5 min ago" == heard.text


def test_a_session_that_runs_an_older_plugin(tmp_path):
    """A session that still runs an older plugin after an update is reported."""
    event = {"at": iso(NOW), "seconds": 1.0, "plugin": "0.0.1"}
    claude = ClaudeCode(str(tmp_path), plugin_version=__version__)
    found = versions.examine(scene(tmp_path, typed=None, heard={"Stop": event}, claude=claude))

    assert ["ok", "note"] == [finding.level for finding in found]
    assert "runs the plugin 0.0.1" in found[1].text


def test_what_the_daemon_did_not_notice():
    """A transcript that grew on disk but not in the daemon is not fresh, after some seconds."""
    seen = [(NOW - 5, "/new", 10), (NOW - 60, "/grown", 10), (NOW - 60, "/read", 10)]
    known = [{"transcript": "/grown", "bytes": 7}, {"transcript": "/read", "bytes": 10}]
    (found,) = transcripts.unnoticed(seen, known, NOW)

    assert EXIT_NOT_FRESH == found.exit
    assert "/grown grew by 3 bytes unnoticed, 60 s ago" in found.text
    assert [] == transcripts.unnoticed(seen, [], NOW)


def test_what_a_full_list_leaves_out():
    """A transcript that the daemon does not list is unread only if the list is complete."""
    seen = [(NOW - 60, "/other", 10)]
    known = [{"transcript": f"/{number}", "bytes": 7} for number in range(20)]

    assert [] == transcripts.unnoticed(seen, known, NOW)
    assert ["/other"] == [
        finding.text.split()[2] for finding in transcripts.unnoticed(seen, known[1:], NOW)
    ]


def test_newest_on_disk(tmp_path):
    """The newest transcripts of all roots are found, without sub-agents and other files."""
    for number, name in enumerate(("a/1.jsonl", "b/2.jsonl", "b/agent-3.jsonl", "b/4.txt")):
        path = tmp_path / "projects" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * number)
        os.utime(path, (NOW + number,) * 2)
    found = transcripts.newest_on_disk([f"{tmp_path}/projects", f"{tmp_path}/absent"])

    assert [("2.jsonl", 1), ("1.jsonl", 0)] == [
        (os.path.basename(path), size) for _, path, size in found
    ]


def test_watch_limits(tmp_path):
    """The limits are named, with the daemon's own watches if it answers."""
    (tmp_path / "max_user_instances").write_text("128\n")
    (tmp_path / "max_user_watches").write_text("8192\n")

    text = "inotify: at most 8192 watches and 128 instances per user"
    assert [ok(text)] == watches.judge(str(tmp_path), None)
    assert [ok(f"{text}; 3 of the watches are ours")] == watches.judge(str(tmp_path), 3)


def test_no_watch_limits(tmp_path):
    """On a system without inotify there is no finding."""
    assert [] == watches.judge(str(tmp_path), None)


@pytest.mark.parametrize(
    ("free", "level"), [(1 << 20, "bad"), (100 << 20, "note"), (9 << 30, "ok")]
)
def test_room(free, level):
    """A full disk is bad, and a nearly full one is a note."""
    assert [level] == [finding.level for finding in disk.judge_space("/state", free)]


PLIST = """<plist version="1.0"><dict><key>ProgramArguments</key><array>
<string>/bin/sh</string><string>-c</string><string>exec "{}" run --log-file "$HOME/x"</string>
</array></dict></plist>"""


def test_launch_agent(tmp_path, monkeypatch):
    """On macOS the agent may be absent, without its program, not loaded, or loaded."""
    path = tmp_path / "a.plist"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(service_manager.service, "has_launchd_agent", lambda: False)
    absent = service_manager.judge_agent(str(path))
    path.write_text(PLIST.format("$HOME/bin/handoffd"))
    gone = service_manager.judge_agent(str(path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/handoffd").touch(mode=0o755)
    unloaded = service_manager.judge_agent(str(path))
    monkeypatch.setattr(service_manager.service, "has_launchd_agent", lambda: True)

    assert ("note", "bad", "note", "ok") == (
        absent.level, gone.level, unloaded.level, service_manager.judge_agent(str(path)).level,
    )  # fmt: skip
    assert "launchctl bootstrap gui/" in unloaded.remedy
