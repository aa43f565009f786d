"""create, resume, auto, trigger and triggers: with a daemon, and by the same code without one."""

import argparse
import json
import os
import re
import shutil
import subprocess
import time
from datetime import UTC, datetime

import pytest

import beads_world
from conductor_projects import (
    QUICK,
    STEPS,
    TRACK,
    asked,
    assert_whole,
    at_rest,
    at_terminal,
    commit,
    front,
    handoff,
    history,
    mark,
    outcomes,
    records,
    rows,
    run_after,
    said,
    settings,
    track,
    tree,
    triggers,
    with_beads,
)
from conftest import BIN, allowed, timestamp, wait_for
from handoff import track_commands
from written_handoffs import handoffs, known, work

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
WORKERS = {"phase": "Phase 1", "workers": [{"worker_id": "worker_1_auth", "status": "in_progress"}]}
# File name, content, the name that is asked about: the three shapes, and an unreadable one.
SHAPES = {
    "conductor-beads": ("parallel_state.json", WORKERS, "worker_1_auth"),
    "maestro": (
        "parallel_state.json",
        {"workers": [{"name": "worker-1", "status": "running"}]},
        "worker-1",
    ),
    "agents": (
        "implement_parallel_state.json",
        {"mode": "parallel", "agents": {"BlueLake": {"status": "running", "task_id": "shop-1.2"}}},
        "BlueLake",
    ),
    "unreadable": ("parallel_state.json", None, "unknown workers"),
}


def old_record(project, track_id=TRACK, days=0.0, trigger="manual", **front_matter):
    """Write a record of another author, some days old; return its path."""
    moment = datetime.fromtimestamp(time.time() - days * 86400, UTC)
    stamp = moment.strftime("%Y-%m-%d_%H-%M-%S-000")
    directory = project / "conductor/handoffs" / track_id
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stamp}_{track_id.partition('_')[0]}_{trigger}.md"
    lines = {
        "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "trigger": trigger, "track_id": track_id, "git_commit": "unknown",
        "git_branch": "main", "author": "agent", **front_matter,
    }  # fmt: skip
    head = "".join(f"{key}: {value}\n" for key, value in lines.items())
    path.write_text(
        f"---\n{head}---\n\n# Handoff: {track_id} | {trigger}\n\n## Context\n\nThe signer is half done.\n\n"
        "## Changes\n\n- `src/sign.py:10-40` - signs\n- `src/gone.py` - new\n\n## Learnings\n\n- (none)\n\n"
        "## Next Steps\n\n1. [ ] Finish the signer\n2. [x] Choose a name\n3. [ ] Build the form\n"
    )
    return path


# create


@pytest.mark.quick
@pytest.mark.seed("003", "**No progress tracking** - No section count")
@pytest.mark.seed("003", "| 2 | Gather metadata (git, validation)")
@pytest.mark.seed("003", "| 6 | Write markdown file")
@pytest.mark.seed("003", "| 7 | Update metadata.json.handoff |")
@pytest.mark.seed("003", "| 8 | Update index.md")
@pytest.mark.seed("003", "| 9 | Touch .last_activity")
def test_create_in_nine_steps(world):
    """A record is made in nine steps, each on stderr; the file, metadata, index, marker agree."""
    project = world.project()
    track(project)
    short = commit(world, project)
    done = world.handoff("create", cwd=project)

    assert 0 == done.returncode, done.stderr
    told = [line.split(":")[0].split(maxsplit=2)[1] for line in done.stderr.splitlines()[:10]]
    assert STEPS == told
    alone = world.process is None
    assert alone == ("handoffd is not running. Done without it." in done.stderr)
    (path,) = records(project)
    lines = done.stdout.splitlines()
    assert "✅ Handoff created successfully." == lines[0]
    assert f"→ Track: {TRACK} | manual" == lines[1]
    assert "→ Section: 1" == lines[2]
    assert "→ Progress: 40% (2/5 tasks)" == lines[3]
    assert f"→ File: conductor/handoffs/{TRACK}/{path.name}" == lines[4]
    expected = {"trigger": "manual", "track_id": TRACK, "git_commit": short, "git_branch": "main"}
    assert expected.items() <= front(path).items()
    assert "bead_id" not in front(path)
    assert path.name.endswith("_auth_manual.md")
    assert [path.name] == assert_whole(project)
    entry = history(project)[0]
    assert ("manual", None, "Phase 1: Tokens", 2, 5) == tuple(
        entry[key]
        for key in ("trigger", "bead_id", "phase_at_handoff", "tasks_completed", "tasks_total")
    )
    assert front(path)["timestamp"] == entry["timestamp"] == handoff(project)["last_handoff"]
    assert ("handed_off", 40) == (handoff(project)["status"], handoff(project)["progress_percent"])
    marker = project / "conductor/.last_activity"
    assert 0 == marker.stat().st_size
    assert abs(time.time() - marker.stat().st_mtime) < 20
    made = [path, marker, path.parent / "index.md"]
    assert [0o644] * 3 == [file.stat().st_mode & 0o777 for file in made]
    assert [0o755] * 2 == [
        place.stat().st_mode & 0o777 for place in (path.parent, path.parent.parent)
    ]


def test_create_as_json(world):
    """With --json stdout is one object with every step's outcome; the second record is section 2."""
    project = world.project()
    track(project)
    commit(world, project)
    asked(world, "create", cwd=project)
    data = asked(world, "create", "--phase", "Phase 9: Polish", cwd=project)

    skipped = {"4": "skipped", "5": "skipped"}
    assert {**dict.fromkeys(STEPS, "done"), **skipped} == outcomes(data)
    assert "no mail server is configured" == said(data, "4")
    assert "the track names no epic" == said(data, "5")
    assert {"percent": 40, "done": 2, "total": 5, "source": "plan"} == data["progress"]
    assert (TRACK, 2, "handed_off", [], None, 0) == tuple(
        data[key] for key in ("track", "section", "status", "secrets", "choice", "exit")
    )
    assert ["Phase 1: Tokens", "Phase 9: Polish"] == [
        e["phase_at_handoff"] for e in history(project)
    ]
    assert 2 == len(assert_whole(project))


def test_other_bytes_of_metadata_stay(world):
    """In metadata.json only the handoff section changes, in its place; files keep their modes."""
    project = world.project()
    directory = track(project)
    before = '{\r\n\t"a" :  [1,2 , {"x":1e3}],\r\n\t"handoff": '
    after = ',\r\n\t"ü": "\\u00fc…", "status":"in_progress" }\r\n\r\n'
    path = directory / "metadata.json"
    path.write_bytes(f'{before}{{"status": "active", "mine": [0.10]}}{after}'.encode())
    path.chmod(0o600)
    asked(world, "create", cwd=project)
    (project / f"conductor/handoffs/{TRACK}/index.md").chmod(0o640)
    asked(world, "create", cwd=project)

    found = path.read_bytes().decode()
    assert (before, after) == (found[: len(before)], found[-len(after) :])
    section = json.loads(found[len(before) : -len(after)])
    assert [
        "status",
        "section_count",
        "progress_percent",
        "last_handoff",
        "history",
        "mine",
    ] == list(section)
    assert 2 == len(section["history"])
    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o640 == (project / f"conductor/handoffs/{TRACK}/index.md").stat().st_mode & 0o777


@pytest.mark.seed("003", "| `manual` | User runs command")
def test_what_the_caller_says(world):
    """--track (also without its date), --bead, --phase, --trigger and the author are taken over."""
    project = world.project()
    track(project, beads={"epicId": "shop-1"})
    track(project, "billing_20260302")
    data = asked(
        world, "create", "--track", "auth", "--trigger", "epic-end", "--bead", "shop-7",
        "--phase", "Phase 2: Login", cwd=project, env={"CLAUDECODE": "1"},
    )  # fmt: skip

    (path,) = records(project)
    assert f"{TRACK}, as you said" == said(data, "1")
    assert path.name.endswith("_auth_shop-7_epic-end.md")
    assert ("shop-7", "agent") == (front(path)["bead_id"], front(path)["author"])
    assert "- Phase: Phase 2: Login" in path.read_text()
    entry = history(project)[0]
    assert ("epic-end", "shop-7", "Phase 2: Login") == (
        entry["trigger"], entry["bead_id"], entry["phase_at_handoff"],
    )  # fmt: skip
    assert "| epic-end | shop-7 |" in (path.parent / "index.md").read_text()
    # By the epic alone: the track that names it.
    data = asked(world, "create", "--bead", "shop-1", cwd=project)
    assert f"{TRACK}, which names shop-1" == said(data, "1")
    assert "human" == front(records(project)[-1])["author"]


def test_no_conductor(world):
    """Without conductor/ no record is made; the contract is, and a hint names the remedy."""
    project = world.project()
    session = work(world, project, ago=5)
    known(world, session)
    done = world.handoff("create", "--session", session.id, cwd=project)

    assert 0 == done.returncode, done.stderr
    assert "No track record was made." in done.stdout
    assert "There is no conductor/ here; --general makes one for the record" in done.stdout
    assert not (project / "conductor").exists()
    assert 1 == len(handoffs(world, project))
    assert "→ Contract: " in done.stdout
    assert handoffs(world, project)[0].name in done.stdout
    (fired,) = asked(world, "triggers", cwd=project)["triggers"]
    assert (False, str(handoffs(world, project)[0])) == (
        fired["pending"],
        fired["outcome"]["contract"],
    )
    assert "There is no conductor/ here" in fired["outcome"]["skipped"]

    data = asked(world, "create", "--general", "--session", session.id, cwd=project)
    assert ("general", 0, "") == (data["track"], data["section"], data["status"])
    assert ("skipped", "skipped") == (outcomes(data)["5"], outcomes(data)["7"])
    (path,) = records(project, "general")
    assert "general" == front(path)["track_id"]
    assert "Round tax per line" in path.read_text()
    index = (path.parent / "index.md").read_text()
    assert "# Handoff Log: General\n\nHandoffs for work outside of specific tracks.\n" in index
    assert [path.name] == rows(project, "general")
    assert not (project / "conductor/tracks").exists()


@pytest.mark.seed("003", "| 1 | Detect context (track or general)")
def test_which_track(world):
    """Several active tracks give a general record that says so. An unknown track is an error.

    The error names the known tracks.
    """
    project = world.project()
    track(project)
    track(project, "billing_20260302")
    track(project, "done_20260101", status="complete")
    data = asked(world, "create", cwd=project)
    assert "general" == data["track"]
    assert "general: 2 tracks are active (" in said(data, "1")
    assert f"{TRACK}" in said(data, "1")
    assert "done_20260101" not in said(data, "1")

    before = tree(project / "conductor")
    done = world.handoff("create", "--track", "nosuch", cwd=project)
    assert 1 == done.returncode
    assert "There is no track nosuch." in done.stdout
    assert all(name in done.stdout for name in (TRACK, "billing_20260302"))
    assert before == tree(project / "conductor")
    assert ["general"] == [
        item["outcome"].get("track") for item in asked(world, "triggers", cwd=project)["triggers"]
    ]
    assert "general, as you said" == said(
        asked(world, "create", "--track", "general", cwd=project), "1"
    )


def test_track_of_the_session(world):
    """A session keeps the track that it created for, also if others are active."""
    project = world.project()
    track(project)
    track(project, "billing_20260302")
    session = work(world, project, ago=5)
    known(world, session)
    asked(world, "create", "--track", "billing", "--session", session.id, cwd=project)
    data = asked(world, "create", "--session", session.id, cwd=project)

    assert "billing_20260302, the session's" == said(data, "1")
    assert ["manual", "manual"] == triggers(project, "billing_20260302")
    assert "Round tax per line" in records(project, "billing_20260302")[0].read_text()


@pytest.mark.seed("003", "| 1 | Detect context (track or general)")
def test_the_track_in_progress(world):
    """Of several tracks the only one in progress is meant, by metadata.json or by tracks.md."""
    project = world.project()
    for name in ("a_20260101", "b_20260101", "c_20260101"):
        track(project, name, status="new")
        mark(project, " ", name, name)
    assert "general" == asked(world, "create", cwd=project)["track"]
    mark(project, "~", "b_20260101")
    assert "b_20260101, the one in progress" == said(asked(world, "create", cwd=project), "1")
    mark(project, "x", "b_20260101")
    mark(project, "x", "c_20260101")
    data = asked(world, "create", cwd=project)
    assert "a_20260101, the one that is active" == said(data, "1")
    track(project, "d_20260101", status="in_progress")
    assert "d_20260101" == asked(world, "create", cwd=project)["track"]
    mark(project, "~", "a_20260101")
    assert "general: 2 tracks are active (" in said(asked(world, "create", cwd=project), "1")


@pytest.mark.seed("003", "/conductor-handoff create       # Force create")
def test_a_positional_trigger(world):
    """`/conductor-handoff create epic-end` makes the record of that trigger."""
    project = world.project()
    track(project)
    done = world.handoff("slash", "conductor-handoff", "create", "epic-end", cwd=project)
    assert 0 == done.returncode
    assert f"{TRACK} | epic-end" in done.stdout
    asked(world, "create", "pre-finish", cwd=project)
    assert ["epic-end", "pre-finish"] == triggers(project)


def test_a_person_moves_no_session(world):
    """`handoff resume` and `create` at a terminal leave the track of a live session as it is."""
    project = world.project()
    track(project)
    track(project, "billing_20260302")
    session = work(world, project, ago=5)
    known(world, session)
    asked(world, "create", "--track", "billing", "--session", session.id, cwd=project)
    asked(world, "create", "--track", "auth", cwd=project)
    assert TRACK == asked(world, "resume", "auth", cwd=project)["track"]
    data = asked(world, "create", "--session", session.id, cwd=project)
    assert "billing_20260302, the session's" == said(data, "1")


@pytest.mark.seed("003", "/conductor-handoff resume <path|track>")
def test_handoffs_of_conductor_beads(world):
    """A handoff beside the plan is found by its track, by its path, and by nothing at all."""
    project = world.project()
    directory = track(project)
    (directory / "handoff_20260302_101500.md").write_text("# Handoff\n\n## Next Steps\n- Go on\n")
    (directory / "notes.md").write_text("# No handoff\n")
    path = f"conductor/tracks/{TRACK}/handoff_20260302_101500.md"
    for words in ((), (TRACK,), ("auth",), (path,), (str(project / path),)):
        data = asked(world, "resume", *words, cwd=project)
        assert (TRACK, path) == (data["track"], data["source"])
        assert ["Go on"] == [item["content"] for item in data["todos"]["TodoWrite"]]
    assert [] == records(project)


# Parallel workers


@pytest.mark.seed("003", "**No parallel execution check** - Handoffs")
@pytest.mark.seed("003", "**Decision:** Add Step 1a to detect")
@pytest.mark.seed("003", "| 1a | Parallel worker check")
@pytest.mark.seed("003", "Parallel workers detected before handoff")
def test_parallel_workers_need_a_choice(world):
    """Workers of all three shapes, or unreadable ones, need a choice: exit 4, with it in JSON."""
    project = world.project()
    directory = track(project)
    for name, content, worker in SHAPES.values():
        path = directory / name
        path.write_text("{ half a" if content is None else json.dumps(content))
        before = tree(project / "conductor")
        data = asked(world, "create", cwd=project, code=4)
        path.unlink()
        assert [worker] == [found["name"] for found in data["choice"]["workers"]]
        assert ["wait", "include", "cancel"] == list(data["choice"]["options"])
        assert "--if-parallel" == data["choice"]["flag"]
        assert f"Parallel workers running: [{worker}]" == data["choice"]["question"]
        assert ("", 4, "skipped") == (data["file"], data["exit"], outcomes(data)["1a"])
        assert before == {
            **tree(project / "conductor"),
            f"tracks/{TRACK}/{name}": before[f"tracks/{TRACK}/{name}"],
        }
    assert [] == asked(world, "triggers", cwd=project)["triggers"], "nothing is left pending"


@pytest.mark.seed("003", "Prevents losing worker context during handoff")
def test_parallel_workers_included_or_not(world):
    """`--if-parallel include` lists the workers, `cancel` writes nothing.

    Stale workers are no reason to ask.
    """
    project = world.project()
    state = track(project) / "parallel_state.json"
    state.write_text(json.dumps(WORKERS))
    done = world.handoff("create", "--if-parallel", "cancel", cwd=project)
    assert 0 == done.returncode
    assert "cancelled" in done.stdout
    assert "worker_1_auth" in done.stdout
    assert [] == records(project)

    asked(world, "create", "--if-parallel", "include", cwd=project)
    assert (
        "## Parallel Workers\n\n- worker_1_auth: in_progress\n" in records(project)[0].read_text()
    )

    started = {"started_at": timestamp(4000)}
    state.write_text(json.dumps(WORKERS | started))
    os.utime(state, (time.time() - 3700,) * 2)
    data = asked(world, "create", cwd=project)
    assert "none at work, 1 stale" == said(data, "1a")
    assert "- worker_1_auth: in_progress, stale" in records(project)[1].read_text()
    # A trigger does not ask.
    state.write_text(json.dumps(WORKERS))
    data = asked(world, "trigger", "epic-end", cwd=project)
    assert "worker_1_auth: included" == said(data, "1a")


def test_worktree_of_the_track_is_a_worker(world):
    """A git worktree of the track counts as a worker until it is unchanged for long."""
    project = world.project()
    track(project)
    commit(world, project)
    place = project.parent / "tree"
    world.git(project, "worktree", "add", "-q", "-b", f"work/{TRACK}", str(place))
    data = asked(world, "create", cwd=project, code=4)
    assert ["worktree tree"] == [found["name"] for found in data["choice"]["workers"]]

    for name in ("index", "HEAD"):
        os.utime(project / ".git/worktrees/tree" / name, (time.time() - 3700,) * 2)
    assert "none at work, 1 stale" == said(asked(world, "create", cwd=project), "1a")


def test_waiting_for_workers(world):
    """`--if-parallel wait` names the workers it waits for, and goes on when their state is gone."""
    project = world.project()
    state = track(project) / "parallel_state.json"
    state.write_text(json.dumps(WORKERS))
    process = subprocess.Popen(
        [str(BIN / "handoff"), "create", "--if-parallel", "wait"],
        env=world.environment, cwd=project, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while "waiting for worker_1_auth" not in process.stderr.readline():
        assert process.poll() is None
    assert [] == records(project)
    state.unlink()

    out, _ = process.communicate(timeout=90)
    assert 0 == process.returncode
    assert "✅ Handoff created successfully." in out
    assert 1 == len(assert_whole(project))


def test_waiting_has_an_end(monkeypatch, capsys):
    """A wait longer than --wait-minutes ends with exit code 4 and the choice."""
    calls = []
    choice = {
        "workers": [{"name": "worker-1"}],
        "options": {"wait": "", "include": "", "cancel": ""},
    }

    def call(*given, **more):
        calls.append(given)
        return {"choice": choice, "exit": 4}, "the choice\n", ""

    monkeypatch.setattr(track_commands, "call", call)
    monkeypatch.setattr(track_commands, "_POLL_SECONDS", 0.01)
    given = argparse.Namespace(if_parallel="wait", wait_minutes=0.1 / 60, json=False)
    begun = time.monotonic()

    assert 4 == track_commands.run("create", {}, given)
    assert 0.1 <= time.monotonic() - begun < allowed(5)
    assert len(calls) > 2
    found = capsys.readouterr()
    assert "the choice\n" == found.out
    assert "waiting for worker-1" in found.err
    assert "They still run after" in found.err


def test_no_time_is_no_wait(sandbox):
    """--wait-minutes wants a whole number of at least 1."""
    for wrong in ("0", "-1", "1.5", "x"):
        done = sandbox.handoff("create", "--if-parallel", "wait", "--wait-minutes", wrong)
        assert 2 == done.returncode, wrong


@pytest.mark.seed("003", "Gives user choice: wait, proceed, or cancel")
@pytest.mark.seed("003", "⚠️ Parallel workers running: [worker-1, worker-2]")
def test_a_person_is_asked(world):
    """At a terminal A waits, B includes the workers, C (and anything else) cancels."""
    project = world.project()
    state = track(project) / "parallel_state.json"
    state.write_text(json.dumps(WORKERS))
    question = "Choose [A/B/C]: "
    code, screen = at_terminal(world, "create", cwd=project, answers=[(question, "c")])
    assert 0 == code, screen
    assert "⚠️ Parallel workers running: [worker_1_auth]" in screen
    assert (
        "[A] Wait for completion\n[B] Handoff anyway (include worker state)\n[C] Cancel\n" in screen
    )
    assert "No track record was made." in screen
    assert [] == records(project)

    code, screen = at_terminal(world, "create", cwd=project, answers=[(question, "B")])
    assert 0 == code, screen
    assert "worker_1_auth: included" in screen
    assert 1 == len(assert_whole(project))

    answers = [(question, "a"), ("waiting for worker_1_auth", state.unlink)]
    code, screen = at_terminal(world, "create", cwd=project, answers=answers)
    assert 0 == code, screen
    assert 2 == len(assert_whole(project))


# Git


def test_git_state_is_told(world):
    """Dirty, ahead and behind are reported; a detached HEAD is named as such, with its commit."""
    project = world.project()
    track(project)
    commit(world, project)
    origin = project.parent / "origin.git"
    world.git(project, "clone", "-q", "--bare", str(project), str(origin))
    world.git(project, "remote", "add", "origin", str(origin))
    commit(world, project, "theirs")
    world.git(project, "push", "-q", "origin", "main")
    world.git(project, "reset", "-q", "--hard", "HEAD~1")
    commit(world, project, "one")
    short = commit(world, project, "two")
    world.git(project, "fetch", "-q", "origin")
    world.git(project, "branch", "-q", "-u", "origin/main")
    (project / "src.py").write_text("x = 1\n")
    data = asked(world, "create", cwd=project)
    assert said(data, "2").startswith("main, 2 ahead, 1 behind, 1 uncommitted;")
    assert "- Git: main, 2 ahead, 1 behind, 1 uncommitted" in records(project)[0].read_text()
    assert "- `src.py` - uncommitted" in records(project)[0].read_text()

    (project / "src.py").unlink()
    commit(world, project, "three")
    world.git(project, "checkout", "-q", "--detach", "HEAD~1")
    data = asked(world, "create", cwd=project)
    assert f"HEAD is detached at {short}, clean;" in said(data, "2")
    found = front(records(project)[-1])
    assert (short, "(detached)") == (found["git_commit"], found["git_branch"])


def test_no_git_at_all(sandbox):
    """Without a repository, or a commit, the record says unknown."""
    project = sandbox.project(git=False)
    (project / "pyproject.toml").touch()
    track(project)
    asked(sandbox, "create", cwd=project)
    found = front(records(project)[0])
    assert ("unknown", "unknown") == (found["git_commit"], found["git_branch"])


# Secrets


@pytest.mark.seed("003", "| 3 | Scan for secrets")
def test_secrets_are_masked(world):
    """Known secrets and the project's own patterns are masked wherever the record goes."""
    project = world.project()
    own = "MY_TOKEN_ABCDEFGHIJ"
    plan = f"# Plan\n\n## Phase {own}\n- [~] Deploy with {TOKEN}\n- [ ] Tell {own} to nobody\n"
    track(project, plan=plan, validation={"gates_passed": [], "last_failure": f"{own} {TOKEN}"})
    settings(project, "  secrets_patterns: ['MY_TOKEN_[A-Z]{10}']\n")
    data = asked(world, "create", cwd=project)

    assert {"github-token", "own-1"} == {secret["kind"] for secret in data["secrets"]}
    assert all(secret["section"] and secret["line"] for secret in data["secrets"])
    made = (records(project)[0], records(project)[0].parent / "index.md")
    texts = [path.read_text() for path in made] + [json.dumps(handoff(project)), json.dumps(data)]
    for secret in (TOKEN, own):
        assert [False] * 4 == [secret in text for text in texts]
    assert "[redacted:own-1]" in texts[0]
    done = world.handoff("trigger", "epic-end", "--bead", "shop-1", "--dry-run", cwd=project)
    assert "--- the note for Beads" in done.stdout
    assert (False, False) == (TOKEN in done.stdout, own in done.stdout)


def test_strict_refuses(world):
    """With --strict a secret is exit code 1 with its place, and nothing is written or kept."""
    project = world.project()
    track(project, plan=f"# Plan\n\n## Phase 1\n- [~] Deploy with {TOKEN}\n")
    before = tree(project / "conductor")
    done = world.handoff("create", "--strict", cwd=project)

    assert 1 == done.returncode
    assert (
        "1 found (github-token), the first in Next Steps, line 1: nothing was written."
        in done.stdout
    )
    assert TOKEN not in done.stdout + done.stderr
    assert before == tree(project / "conductor")
    assert [] == asked(world, "triggers", cwd=project)["triggers"]


# resume


@pytest.mark.quick
@pytest.mark.seed("003", "/conductor-handoff resume       # Force resume")
@pytest.mark.seed("003", "| 3 | File discovery (fallback)")
@pytest.mark.seed("003", "| 4 | Load handoff content")
@pytest.mark.seed("003", "| 7 | Present analysis")
@pytest.mark.seed("003", "| 9 | Update metadata.json.handoff.status")
@pytest.mark.seed("003", "Progress % displays on resume")
def test_resume_presents_what_was_left(world):
    """The newest record is shown with progress, drift and steps; the track is active again."""
    project = world.project()
    track(project)
    commit(world, project)
    done = world.handoff("resume", cwd=project)
    assert 1 == done.returncode
    assert "There is no record; make one: handoff create" in done.stdout
    asked(world, "create", cwd=project)
    assert "handed_off" == handoff(project)["status"]
    before = (records(project)[0].read_bytes(), len(history(project)))
    marker = project / "conductor/.last_activity"
    os.utime(marker, (1, 1))
    done = world.handoff("resume", cwd=project)

    assert 0 == done.returncode, done.stderr
    assert f"📋 Resuming: {TRACK} | manual" in done.stdout
    assert "📊 Progress: 40% (2/5 tasks, by the plan)" in done.stdout
    assert "✅ Branch: main (matches)" in done.stdout
    assert "To do:\n  [ ] Write the signer\n  [ ] Build the form\n" in done.stdout
    told = [line.split(":")[0].split(maxsplit=2)[1] for line in done.stderr.splitlines()[:9]]
    assert [str(number) for number in range(1, 10)] == told
    assert f"Auto-resuming from {TRACK}..." in done.stderr
    assert "active" == handoff(project)["status"]
    assert before == (records(project)[0].read_bytes(), len(history(project)))
    assert marker.stat().st_mtime > 1


@pytest.mark.seed("003", "/conductor-handoff resume <path|track>")
@pytest.mark.seed("003", "| 1 | Parse input (path, track, or auto)")
def test_resume_by_name(world):
    """A record is found by its path, relative, absolute or only its name; a track with or without date."""
    project = world.project()
    track(project)
    first, second = old_record(project, days=2), old_record(project, days=1)
    old_record(project, "general")
    inside = f"conductor/handoffs/{TRACK}/{first.name}"
    for target in (f"./{inside}", str(first), first.name):
        data = asked(world, "resume", target, cwd=project)
        assert inside == data["source"]
        assert TRACK == data["track"]
    assert asked(world, "resume", "auth", cwd=project)["source"].endswith(second.name)
    assert "general" == asked(world, "resume", "general", cwd=project)["track"]
    for wrong, words in (("../nosuch.md", "is no record"), ("nosuch", TRACK)):
        done = world.handoff("resume", wrong, cwd=project)
        assert 1 == done.returncode
        assert words in done.stdout


def test_resume_asks_which(world):
    """Records of several tracks need a choice: exit 4 with it in JSON, a number at a terminal."""
    project = world.project()
    track(project)
    track(project, "billing_20260302")
    old_record(project, days=2, trigger="epic-end")
    newer = old_record(project, "billing_20260302", days=1)
    data = asked(world, "resume", cwd=project, code=4)
    assert ["billing_20260302", TRACK] == [option["track"] for option in data["choice"]["options"]]
    assert ["manual", "epic-end"] == [option["trigger"] for option in data["choice"]["options"]]
    assert "The signer is half done." == data["choice"]["options"][0]["summary"]
    assert (None, 4) == (data["record"], data["exit"])
    assert {} == handoff(project, "billing_20260302")
    done = world.handoff("resume", cwd=project)
    assert 4 == done.returncode
    assert "1. billing_20260302 (24 h ago) - manual: The signer is half done." in done.stdout

    code, screen = at_terminal(world, "resume", cwd=project, answers=[("Select [1-2]", "2")])
    assert 0 == code, screen
    assert f"📋 Resuming: {TRACK} | epic-end" in screen
    path = str(newer.relative_to(project))
    code, screen = at_terminal(world, "resume", cwd=project, answers=[("or enter path: ", path)])
    assert 0 == code, screen
    assert "📋 Resuming: billing_20260302 | manual" in screen


def test_broken_front_matter(world):
    """A record whose front matter is broken is read by its name, with a warning."""
    project = world.project()
    track(project)
    path = old_record(project, trigger="epic-end")
    path.write_text(path.read_text().replace("trigger: epic-end", "trigger: [epic"))
    data = asked(world, "resume", cwd=project)

    warning = "Malformed frontmatter in handoff. Using filename metadata."
    assert ("epic-end", TRACK, warning) == tuple(
        data["record"][key] for key in ("trigger", "track_id", "warning")
    )
    assert f"⚠️ {warning}" in data["analysis"]
    # The open next steps come in both tools' shapes, ticked ones in none.
    steps = ["Finish the signer", "Build the form"]
    assert [(step, "pending", step) for step in steps] == [
        (item["content"], item["status"], item["activeForm"]) for item in data["todos"]["TodoWrite"]
    ]
    assert [{"subject": step, "description": step} for step in steps] == data["todos"]["TaskCreate"]


@pytest.mark.quick
@pytest.mark.seed("003", "| 6 | Validate git state (branch, drift)")
def test_drift(world):
    """Another branch, commits since, deleted and modified files and age are all told."""
    project = world.project()
    track(project)
    (project / "src").mkdir()
    for name in ("sign.py", "gone.py"):
        (project / "src" / name).write_text("x = 1\n")
    short = commit(world, project)
    world.git(project, "checkout", "-q", "-b", "other")
    (project / "src/gone.py").unlink()
    commit(world, project, "removed")
    (project / "src/sign.py").write_text("x = 2\n")
    old_record(project, days=9, git_commit=short)
    data = asked(world, "resume", cwd=project)

    lines = {line["what"]: (line["same"], line["text"]) for line in data["drift"]["lines"]}
    assert (False, "was main, now other") == lines["Branch"]
    assert (False, f"1 since {short}") == lines["Commits"]
    assert (False, "9 days (stale)") == lines["Age"]
    assert (False, "1 deleted, 1 modified") == lines["Files"]
    assert (["src/gone.py"], ["src/sign.py"]) == (
        data["drift"]["deleted"],
        data["drift"]["modified"],
    )
    assert "   ⚠️ Branch: was main, now other\n" in data["analysis"]

    settings(project, "  resume: {stale_threshold_days: 10}\n")
    data = asked(world, "resume", cwd=project)
    assert "9 days (acceptable)" in {line["text"] for line in data["drift"]["lines"]}
    settings(project, "  resume: {show_drift_analysis: false, auto_select_single: false}\n")
    data = asked(world, "resume", TRACK, cwd=project)
    assert ("skipped", None) == (outcomes(data)["6"], data["drift"])
    asked(world, "resume", cwd=project, code=4)


def test_nothing_drifted(world):
    """Right after a record was made nothing has drifted: making it is no change of the project."""
    project = world.project()
    track(project)
    (project / "src.py").write_text("x = 1\n")
    os.utime(project / "src.py", (time.time() - 60,) * 2)
    asked(world, "create", cwd=project)
    assert "## Changes\n\n- `src.py` - uncommitted\n\n" in records(project)[0].read_text()
    data = asked(world, "resume", cwd=project)
    files = next(line for line in data["drift"]["lines"] if line["what"] == "Files")
    assert (True, "as they were") == (files["same"], files["text"])


# auto


@pytest.mark.quick
@pytest.mark.seed("003", "/conductor-handoff              # Auto-detect mode")
@pytest.mark.seed("003", "IF session_first_message AND")
@pytest.mark.seed("003", "Single `/conductor-handoff` command works")
def test_auto(world):
    """A first message with a young record resumes.

    A second message, a stale record, no session create.
    """
    project = world.project()
    track(project)
    path = old_record(project, days=1)
    session = world.session(project)
    session.prompt("Good morning, go on please")
    known(world, session)
    data = asked(world, "auto", "--session", session.id, cwd=project)
    assert ("resume", "the session is at its first message") == (data["mode"], data["why"])
    assert "Finish the signer" == data["todos"]["TodoWrite"][0]["content"]

    assert "create" == asked(world, "auto", cwd=project)["mode"]
    records(project)[-1].unlink()
    path.unlink()
    old_record(project, days=8)
    data = asked(world, "auto", "--session", session.id, cwd=project)
    assert ("create", "Stale handoff: the newest record is 8 days old") == (
        data["mode"],
        data["why"],
    )

    session.prompt("And now the form")
    if world.process:
        wait_for(lambda: world.call("sessions")["sessions"][0]["records"] == 2)
    done = world.handoff("auto", "--session", session.id, cwd=project)
    assert 0 == done.returncode
    assert "Create: the session is at its message 2.\n✅ Handoff" in done.stdout


def test_auto_asks_which(world):
    """A first message with records of several tracks needs a choice; that is no waiting."""
    project = world.project()
    track(project)
    track(project, "billing_20260302")
    old_record(project, days=2)
    old_record(project, "billing_20260302", days=1)
    session = world.session(project)
    session.prompt("Good morning, go on please")
    known(world, session)
    words = ("auto", "--session", session.id)
    data = asked(world, *words, "--if-parallel", "wait", cwd=project, code=4)
    assert 2 == len(data["choice"]["options"])
    code, screen = at_terminal(world, *words, cwd=project, answers=[("Select [1-2]", "2")])
    assert 0 == code, screen
    assert f"📋 Resuming: {TRACK} | manual" in screen


# trigger and triggers


def test_trigger_and_its_dry_run(world):
    """A dry run shows the record and the note, and writes nothing; a real run acts as if fired."""
    project = world.project()
    track(project, beads={"epicId": "shop-1"})
    before = tree(project / "conductor")
    done = world.handoff("trigger", "epic-end", "--dry-run", cwd=project)
    assert 0 == done.returncode, done.stderr
    assert "Nothing was written. This would be:" in done.stdout
    assert f"# Handoff: {TRACK} | epic-end" in done.stdout
    assert "COMPLETED: Tasks 1-2 (40% of track)\n" in done.stdout
    assert (
        "NEXT: Build the form\nBLOCKER: none\nHANDOFF: Section 1 saved at conductor/" in done.stdout
    )
    data = asked(world, "trigger", "pre-finish", "--dry-run", cwd=project)
    assert "trigger: pre-finish" in data["record"]
    assert before == tree(project / "conductor")
    assert "Nothing has fired yet." in world.handoff("triggers", cwd=project).stdout

    for name in ("design-end", "epic-start", "idle"):
        assert name == asked(world, "trigger", name, cwd=project)["trigger"]
    assert 3 == len(assert_whole(project))
    assert [None, "shop-1", None] == [entry["bead_id"] for entry in history(project)]
    assert 2 == world.handoff("trigger", "nosuch", cwd=project).returncode


@pytest.mark.quick
def test_triggers_are_listed(world):
    """Fired triggers are listed newest first, with reason and file, of one project or of all."""
    project, other = world.project(), world.project("other")
    track(project)
    track(other)
    for name in ("epic-end", "manual"):
        asked(world, "trigger", name, cwd=project)
    asked(world, "create", cwd=other)
    data = asked(world, "triggers", cwd=project)
    assert ["manual", "epic-end"] == [item["trigger"] for item in data["triggers"]]
    assert {False} == {item["pending"] for item in data["triggers"]}
    assert (
        f"conductor/handoffs/{TRACK}/{records(project)[1].name}"
        == data["triggers"][0]["outcome"]["file"]
    )
    assert [] == data["letters"]
    assert 1 == len(asked(world, "triggers", "--limit", "1", cwd=project)["triggers"])
    assert 3 == len(asked(world, "triggers", "--all", cwd=project)["triggers"])
    done = world.handoff("triggers", cwd=project)
    assert re.search(r"why: asked for\n    wrote:? conductor/handoffs/", done.stdout)


# Many at once, and disks that refuse


def test_ten_at_once_lose_nothing(world):
    """Of ten creates at the same time each has its file, its history entry and its row."""
    project = world.project()
    track(project)
    started = [
        subprocess.Popen(
            [str(BIN / "handoff"), "create"], env=world.environment, cwd=project,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for _ in range(10)
    ]  # fmt: skip
    ended = [(process.communicate(timeout=60)[0], process.returncode) for process in started]

    assert [0] * 10 == [code for _, code in ended], ended
    assert 10 == len(assert_whole(project))
    listed = asked(world, "triggers", cwd=project)["triggers"]
    assert 10 == len({item["outcome"].get("file") for item in listed})


@pytest.mark.parametrize("broken", ["handoffs link", "track is a file", "conductor link"])
def test_unwritable_place(world, broken):
    """An unwritable place is reported with exit code 1, and nothing else is changed."""
    project = world.project()
    track(project)
    old_record(project)
    base = project / "conductor/handoffs"
    elsewhere = project.parent / "elsewhere"
    if broken == "handoffs link":
        base.rename(elsewhere)
        base.symlink_to(elsewhere)
    elif broken == "track is a file":
        shutil.rmtree(base / TRACK)
        (base / TRACK).write_text("mine")
    else:
        (project / "conductor").rename(elsewhere)
        (project / "conductor").symlink_to(elsewhere)
    before = (tree(project / "conductor"), elsewhere.exists() and tree(elsewhere))
    done = world.handoff(
        "create", "--track", "general" if "conductor" in broken else TRACK, cwd=project
    )

    assert before == (tree(project / "conductor"), elsewhere.exists() and tree(elsewhere))
    if broken != "conductor link":
        assert 1 == done.returncode, done.stdout
        assert "✗  6 file" in done.stderr
        assert "No track record was made." in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["metadata.json", "index.md", ".last_activity"])
def test_one_step_that_fails(world, name):
    """A file that cannot be written fails its own step; the record and all other steps stand."""
    project = world.project()
    directory = track(project)
    old_record(project)
    places = {
        "metadata.json": directory,
        "index.md": records(project)[0].parent,
        ".last_activity": project / "conductor",
    }
    path = places[name] / name
    aside = path.with_name("aside")
    if path.exists():
        path.rename(aside)
    path.mkdir()
    data = asked(world, "create", "--track", TRACK, cwd=project, code=1)
    number = {"metadata.json": "7", "index.md": "8", ".last_activity": "9"}[name]

    expected = {**dict.fromkeys(STEPS, "done"), "4": "skipped", "5": "skipped", number: "failed"}
    assert expected == outcomes(data)
    assert 2 == len(records(project))
    path.rmdir()
    if aside.exists():
        aside.rename(path)
    # The unfinished work is done with the next record, or by the daemon.
    asked(world, "create", cwd=project)
    assert 3 == len(records(project))
    assert 3 == len(rows(project))


def test_broken_metadata_is_left_alone(sandbox):
    """A metadata.json that is no JSON is reported, and keeps every byte."""
    project = sandbox.project()
    path = track(project) / "metadata.json"
    path.write_text('{"status": "in_progress", ')
    data = asked(sandbox, "create", cwd=project, code=1)
    assert "failed" == outcomes(data)["7"]
    assert "metadata.json is not valid JSON" in said(data, "7")
    assert '{"status": "in_progress", ' == path.read_text()
    assert 1 == len(records(project))


FULL = """
set -e
mount -t tmpfs -o size=64k,mode=755 tmpfs "$1"
cp -a "$2"/. "$1"
dd if=/dev/zero of="$1/ballast" bs=4k 2>/dev/null || true
cd "$1"
"$3" create && code=0 || code=$?
cd /
rm "$1/ballast"
rm -rf "$2"
cp -a "$1" "$2"
exit $code
"""


def test_full_disk(sandbox):
    """On a full disk `create` stops with exit code 1, names the disk, and all files stay."""
    project = sandbox.project()
    track(project)
    asked(sandbox, "create", cwd=project)
    before = tree(project / "conductor")
    mounted = project.parent / "mounted"
    mounted.mkdir()
    words = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip(
            "no mount namespace can be made here: run the tests as root, in a container with CAP_SYS_ADMIN"
        )
    done = subprocess.run(
        [*words, "sh", "-c", FULL, "sh", str(mounted), str(project), str(BIN / "handoff")],
        env=sandbox.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert 1 == done.returncode, done.stderr
    assert "No space left on device" in done.stderr
    assert before == tree(project / "conductor")


# With Beads


@pytest.fixture(params=list(beads_world.REAL))
def beads(sandbox, request, tmp_path_factory):
    """A project with a real Beads and an epic of two tasks."""
    return with_beads(sandbox, request.param, tmp_path_factory)


@pytest.mark.seed("003", "Enables seamless session resume via `bd show`")
@pytest.mark.seed("003", "| 5 | Beads context (`bd show <epic>`)")
@pytest.mark.seed("003", "Run `/conductor-handoff resume` internally")
@pytest.mark.seed("003", "Load beads context (`bd show <epic>`)")
@pytest.mark.seed("003", "Calculate and display progress %")
@pytest.mark.seed("003", "Create epic-start handoff")
def test_implement_starts_the_epic_once(sandbox, beads):
    """resume --implement makes one epic-start record; the epic's own change is no second one."""
    project = beads.root
    epic = beads.epic()
    first = beads.child(epic, "Build the form")
    beads.bd("close", beads.child(epic, "Choose a name"))
    track(project, beads={"epicId": epic})
    commit(sandbox, project)
    run_after(sandbox, QUICK).start()
    session = sandbox.session(project)
    session.prompt("Let us implement the login, please")
    known(sandbox, session)
    wait_for(lambda: _seen(sandbox, epic), what="the epic is known")
    asked(sandbox, "create", "--trigger", "design-end", "--session", session.id, cwd=project)
    data = asked(sandbox, "resume", "--implement", "--session", session.id, cwd=project)

    assert (epic, "open") == (data["beads"]["epic"]["id"], data["beads"]["epic"]["status"])
    assert [first] == [issue["id"] for issue in data["beads"]["ready"]]
    assert {"percent": 50, "done": 1, "total": 2, "source": "beads"} == data["progress"]
    assert "Build the form" in [item["content"] for item in data["todos"]["TodoWrite"]]
    assert ("epic-start", "active") == (data["handoff"]["trigger"], data["handoff"]["status"])
    assert ["design-end", "epic-start"] == triggers(project)
    assert epic == history(project)[1]["bead_id"]
    again = asked(sandbox, "resume", "--implement", "--session", session.id, cwd=project)
    assert None is again.get("handoff")
    beads.bd("update", epic, "--status", "in_progress")
    wait_for(lambda: _seen(sandbox, epic) == "in_progress", what="the change was seen")
    sandbox.restart()
    wait_for(sandbox.settled)
    beads.bd("close", first)
    beads.bd("close", epic)
    wait_for(lambda: triggers(project)[2:] == ["epic-end"])
    wait_for(lambda: at_rest(sandbox))
    assert 3 == len(assert_whole(project))
    notes = beads.notes(epic)
    assert ["1", "2", "3"] == [
        line.split()[2] for line in notes.splitlines() if line.startswith("HANDOFF: Section ")
    ]


def _seen(sandbox, epic):
    import sqlite3

    with sqlite3.connect(f"file:{sandbox.state}/core.db?mode=ro", uri=True) as db:
        row = db.execute("SELECT status FROM seen WHERE name = ?", (epic,)).fetchone()
    return row[0] if row else ""
