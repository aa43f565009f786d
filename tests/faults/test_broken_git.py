"""A repository in which git fails does not prevent a handoff."""

import shutil
from pathlib import Path

import pytest

from conftest import DaemonSandbox, wait_for
from handoff.common.paths import CHECKPOINT
from handoffd.links import git


def broken_head(_sandbox: DaemonSandbox, project: Path) -> None:
    (project / ".git/HEAD").write_bytes(b"\0\xffnothing that git would write\n")


def directory_for_head(_sandbox: DaemonSandbox, project: Path) -> None:
    """Make HEAD unreadable, even for root."""
    (project / ".git/HEAD").unlink()
    (project / ".git/HEAD").mkdir()


def pointing_nowhere(_sandbox: DaemonSandbox, project: Path) -> None:
    shutil.rmtree(project / ".git")
    (project / ".git").write_text("gitdir: ../gone/.git/worktrees/shop\n")


def broken_settings(_sandbox: DaemonSandbox, project: Path) -> None:
    (project / ".git/config").write_text("[core\n")


def failing_program(sandbox: DaemonSandbox, _project: Path) -> None:
    program = sandbox.home / "bin/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho fatal: it is broken >&2\nexit 128\n")
    program.chmod(0o755)
    sandbox.environment["PATH"] = f"{program.parent}:{sandbox.environment['PATH']}"


def warning(sandbox: DaemonSandbox) -> str:
    found = sandbox.request("status")["result"]["warnings"]
    return " ".join(item["text"] for item in found if item["code"] == "git_silent")


@pytest.mark.parametrize(
    "damage",
    [
        broken_head,
        pointing_nowhere,
        pytest.param(directory_for_head, marks=pytest.mark.long),
        pytest.param(broken_settings, marks=pytest.mark.long),
        pytest.param(failing_program, marks=pytest.mark.long),
    ],
)
def test_written_without_git(sandbox, damage, record_property):
    """If git fails, the checkpoint is written without git's facts, and that is reported."""
    sandbox.transcripts.mkdir(parents=True)
    project = sandbox.project()
    another = project / "docs/handoff.yaml"
    another.parent.mkdir()
    another.write_text("goal: Not ours\n")
    sandbox.git(project, "add", str(another))
    damage(sandbox, project)
    sandbox.start()
    sandbox.session(project).prompt("Work on in a broken repository")
    wait_for(lambda: "Work on in a broken" in sandbox.yaml(project))
    doctor = sandbox.handoff("doctor")

    assert str(project) in wait_for(lambda: warning(sandbox))
    assert "what git knows is missing there" in doctor.stdout
    assert 1 == doctor.returncode
    assert "detached" not in sandbox.yaml(project)
    record_property("figure", f"{damage.__name__.replace('_', ' ')}: written, and said")


def test_tracked_checkpoint_of_a_broken_repository(sandbox):
    """A handoff.yaml that git tracks is left alone, also while git cannot say so."""
    sandbox.transcripts.mkdir(parents=True)
    project = sandbox.project()
    ours = project / ".flow-guardian/handoff.yaml"
    ours.parent.mkdir()
    ours.write_text("goal: Tracked\nstatus: blocked\nnow: x\n")
    sandbox.git(project, "add", "-f", str(ours))
    broken_head(sandbox, project)
    sandbox.start()
    sandbox.session(project).prompt("Work on in a broken repository")
    wait_for(lambda: warning(sandbox))
    wait_for(lambda: sandbox.show(project)["not_written"])

    assert "git tracks" in sandbox.show(project)["not_written"]
    assert "goal: Tracked" in sandbox.yaml(project)


@pytest.mark.parametrize(
    ("path", "version", "tracked"),
    [
        (".flow-guardian/handoff.yaml", 2, True),
        ("docs/handoff.yaml", 2, False),
        (".flow-guardian/handoff.yaml", 4, True),
    ],
)
def test_index_without_git(sandbox, path, version, tracked):
    """Only our own file counts as tracked; the content of a shortened index is unknown."""
    project = sandbox.project()
    for name in (".flow-guardian/handoff.txt", path):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("goal: x\n")
        sandbox.git(project, "add", "-f", name)
    sandbox.git(project, "update-index", "--index-version", str(version))

    assert tracked == git.may_be_tracked(str(project / ".git"), CHECKPOINT)
