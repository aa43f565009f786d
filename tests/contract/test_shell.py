"""The contract's own shell commands, run on our handoffs."""

import os
import subprocess
from pathlib import Path
from shlex import quote as sh_quoted

import pytest

from handoffd.contract import handoff_directory
from handoffd.contract.contract_format import Contract, bullets, parse, render

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}


def sh(command: str, cwd, **variables: str) -> str:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env={**ENVIRONMENT, **variables}, cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"


def handoff(cwd: str, **given) -> str:
    sections = given.pop("sections", {"Done": ["- Parsed it", "- Tested it"], "Next": ["- Ship"]})
    whole = Contract(date="2026-11-15", session_id="s-1", purpose="Don't panic", cwd=cwd)
    return render(
        Contract(whole.date, whole.session_id, whole.purpose, cwd, sections=sections, **given)
    )


@pytest.fixture
def project(tmp_path):
    path = tmp_path / "my_app (old) é"
    path.mkdir()
    return path


@pytest.fixture
def directory(tmp_path, project) -> str:
    """Return a directory with two of our handoffs; the one written last is `aaaaaaaa.md`."""
    found = handoff_directory.directory_of(f"{tmp_path}/handoffs", str(project))
    for number, name in enumerate(("bbbbbbbb.md", "aaaaaaaa.md")):
        text = handoff(str(project))
        handoff_directory.change(
            found, name, lambda before, text=text: text, mtime_seconds=1_000_000 + number
        )
    handoff_directory.link_v1(f"{tmp_path}/handoffs", str(project))
    return found


@pytest.mark.seed("002", "The encoded path is derived from the project's")
@pytest.mark.seed("002", "pwd -P | sed 's/[^a-zA-Z0-9-]/-/g'")
def test_encoding(directory, project):
    """`pwd -P | sed` in a project gives the name of its directory, also through a link."""
    link = project.parent / "link"
    link.symlink_to(project)
    command = "pwd -P | sed 's/[^a-zA-Z0-9-]/-/g'"

    assert os.path.basename(directory) == sh(command, project).strip()
    assert os.path.basename(directory) == sh(f"cd {link}; {command}", "/").strip()


def test_v1_encoding(directory, project):
    """A reader that still uses `tr` finds the same handoffs."""
    base = os.path.dirname(directory)
    command = f"""ls -t "{base}/$(pwd -P | tr '/.' '-')/" | head -1"""

    assert "aaaaaaaa.md" == sh(command, project).strip()


@pytest.mark.seed("002", "ls -t ~/.claude/handoffs/<encoded-path>/ | head -1")
@pytest.mark.seed("002", "Discovery by mtime (newest wins)")
def test_discovery(directory):
    """`ls -t | head -1` gives the newest handoff, and `ls` lists only handoffs."""
    assert "aaaaaaaa.md" == sh(f"ls -t {directory}/ | head -1", "/").strip()
    assert ["aaaaaaaa.md", "bbbbbbbb.md"] == sh(f"ls {directory}", "/").split()


@pytest.mark.seed("002", "Metadata fields: `session_id`, `purpose`")
def test_metadata(directory):
    """`head -5` and `grep '^key:'` give the metadata."""
    newest = f"{directory}/aaaaaaaa.md"

    assert "# Handoff — 2026-11-15" == sh(f"head -1 {newest}", "/").strip()
    assert "s-1" == sh(f"head -5 {newest} | sed -n 's/^session_id: //p'", "/").strip()
    assert "Don’t panic" == sh(f"head -5 {newest} | sed -n 's/^purpose: //p'", "/").strip()
    assert "2026-11-15" == sh(f"sed -n 's/^# Handoff — //p' {newest}", "/").strip()


@pytest.mark.parametrize(
    ("purpose", "read"),
    [
        ("Don't panic", "Don’t panic"),
        ("the users' names", "the users’ names"),
        ('Say "hello" twice', "Say “hello” twice"),
        ('"Quoted" first', "“Quoted” first"),
        ('19" rack (the "big" one)', "19” rack (the “big” one)"),
    ],
)
@pytest.mark.seed("002", "Canonical implementation: `claude-suite")
@pytest.mark.seed("002", "`purpose` — human-readable summary.")
def test_a_purpose_with_quotes_survives_xargs(tmp_path, purpose, read):
    """The canonical reader trims the purpose with xargs, to which quotes are special."""
    path = tmp_path / "one.md"
    path.write_text(render(Contract("2026-11-15", "s-1", purpose, "/p")))
    command = f"grep '^purpose:' {path} | head -1 | cut -d: -f2- | xargs"

    assert read == sh(command, "/").strip()
    assert read == parse(path.read_text()).purpose


@pytest.mark.parametrize(
    ("heading", "lines"),
    [("Done", ["- Parsed it", "- Tested it"]), ("Next", ["- Ship"]), ("Gotchas", [])],
)
@pytest.mark.seed("002", "Canonical implementation: `claude-suite")
@pytest.mark.seed("002", "Scripts that extract section content")
def test_sections(directory, heading, lines):
    """The origin's command for extracting a section gives the section's lines."""
    command = f"sed -n '/^## {heading}/,/^## /p' {directory}/aaaaaaaa.md | sed '/^##/d;/^$/d'"

    assert lines == sh(command, "/").splitlines()


@pytest.mark.seed("002", "Coordinate with all known consumers")
def test_a_link_from_the_project(directory, project):
    """`ls -t` in a directory of the project gives the link to the newest handoff, whole."""
    place = project / ".bon/handoffs"
    place.mkdir(parents=True)
    for name in ("aaaaaaaa.md", "bbbbbbbb.md"):
        found = handoff_directory.read(f"{directory}/{name}")
        assert handoff_directory.link_from(str(project), ".bon/handoffs", found)
    newest = sh(f"ls -t {sh_quoted(str(place))}/*.md | head -1", "/").strip()

    assert str(place / "aaaaaaaa.md") == newest
    assert Path(directory, "aaaaaaaa.md").read_text() == Path(newest).read_text()
    assert ["aaaaaaaa.md", "bbbbbbbb.md"] == sorted(os.listdir(place))


def test_a_link_from_the_project_follows_the_handoffs(directory, project):
    """A link to a handoff that is gone is removed; a newer time of a handoff is its link's."""
    place = project / ".bon/handoffs"
    place.mkdir(parents=True)
    (place / "mine.md").symlink_to("/nowhere/else")
    one, two = (handoff_directory.read(f"{directory}/{n}.md") for n in ("aaaaaaaa", "bbbbbbbb"))
    handoff_directory.link_from(str(project), ".bon/handoffs", one)
    os.unlink(one.path)
    later = handoff_directory.change(directory, "bbbbbbbb.md", lambda _: two.text + "- More\n")
    handoff_directory.link_from(str(project), ".bon/handoffs", later)

    assert ["bbbbbbbb.md", "mine.md"] == sorted(os.listdir(place))
    assert later.mtime_ns == (place / "bbbbbbbb.md").lstat().st_mtime_ns


def test_no_link_where_the_project_has_no_such_directory(directory, project):
    """No directory is made, and a file of somebody else's with that name stays."""
    found = handoff_directory.read(f"{directory}/aaaaaaaa.md")
    assert not handoff_directory.link_from(str(project), ".bon/handoffs", found)
    assert [] == os.listdir(project)
    (project / ".bon/handoffs").mkdir(parents=True)
    (project / ".bon/handoffs/aaaaaaaa.md").write_text("theirs")

    assert not handoff_directory.link_from(str(project), ".bon/handoffs", found)
    assert "theirs" == (project / ".bon/handoffs/aaaaaaaa.md").read_text()


@pytest.mark.parametrize("options", ["-q", "-qi"])
@pytest.mark.seed("002", "HUMAN REVIEW NEEDED")
@pytest.mark.seed("002", "Plaintext, grep-able, anywhere in the body.")
@pytest.mark.seed("002", "Escalation signal: `HUMAN REVIEW NEEDED`")
def test_escalation(tmp_path, options):
    """`grep` finds a real call, and none in a handoff that only mentions the call."""
    directory = handoff_directory.directory_of(f"{tmp_path}/handoffs", "/p")
    quiet = handoff("/p", sections={"Done": bullets(["Discussed HUMAN REVIEW NEEDED at length"])})
    handoff_directory.change(directory, "quiet.md", lambda before: quiet)
    handoff_directory.change(
        directory, "calls.md", lambda before: handoff("/p", escalations=("look",))
    )
    command = f"grep {options} 'HUMAN REVIEW NEEDED' {directory}"

    assert "exit 1: " == sh(f"{command}/quiet.md", "/")
    assert "" == sh(f"{command}/calls.md", "/")


@pytest.mark.seed("002", "Coordinate with all known consumers")
def test_known_consumer(directory, project):
    """The known consumer's own search, with its v1 encoding, finds the newest handoff."""
    base = os.path.dirname(directory)
    script = """
        PROJECT_DIR="$(cd "$1" && pwd)"
        HANDOFFS="$BASE/$(echo "$PROJECT_DIR" | tr '/.' '-')"
        latest=$(ls -t "$HANDOFFS"/*.md 2>/dev/null | head -1)
        [ -n "$latest" ] && basename "$latest"
    """
    assert "aaaaaaaa.md" == sh(f"set -- .; {script}", project, BASE=base).strip()
