"""The plugin, its marketplace and the seed's files exist and agree with the program."""

import json
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

import handoff
from conftest import BIN, REPOSITORY
from handoff import cli
from handoff.commands import slash
from handoffd.tracks import front_matter
from handoffd.tracks.create import GATHER, WRITE
from handoffd.tracks.index import COLUMNS
from handoffd.tracks.plan import Progress
from handoffd.tracks.record import TRIGGERS, TrackRecord, render
from handoffd.tracks.record_sections import RecordFacts, note, sections
from handoffd.tracks.resume import FIND, RESUME

PLUGIN = REPOSITORY / "client/plugin"
COMMANDS = sorted((PLUGIN / "commands").glob("*.md"))
WORKFLOW = (PLUGIN / "workflows/handoff.md").read_text()
# The five files that the seed merges into the others.
MERGED = ["create.md", "resume.md", "triggers.md", "idle-detection.md", "agent-mail-format.md"]


def head_of(text: str) -> dict:
    """Return the front matter of a text."""
    return front_matter.read(text.split("---\n")[1])


def files_below(directory: Path) -> dict[str, bytes]:
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


# The seed's files


@pytest.mark.seed("003", "**Scattered documentation** - 6 separate files")
@pytest.mark.seed("003", "Consolidate into 2 unified files")
@pytest.mark.seed("003", "**Decision:** Delete 5 files, keep 1, create 2")
@pytest.mark.seed("003", "`handoff/create.md` → merged")
@pytest.mark.seed("003", "`handoff/resume.md` → merged")
@pytest.mark.seed("003", "`handoff/triggers.md` → merged")
@pytest.mark.seed("003", "`handoff/idle-detection.md` → merged")
@pytest.mark.seed("003", "`handoff/agent-mail-format.md` → merged")
@pytest.mark.seed("003", "`handoff/template.md` - Still needed")
@pytest.mark.seed("003", "`workflows/handoff.md` - Full workflow")
@pytest.mark.seed("003", "5 files deleted, 2 created")
def test_the_seeds_files():
    """Two files exist, one is kept, and the five merged files do not exist."""
    for name in ("commands/handoff.toml", "workflows/handoff.md", "handoff/template.md"):
        assert (PLUGIN / name).is_file(), name

    assert [] == [name for name in MERGED if list(PLUGIN.rglob(f"handoff/{name}"))]
    assert ["template.md"] == os.listdir(PLUGIN / "handoff")
    assert 20 <= len((PLUGIN / "commands/handoff.toml").read_text().splitlines()) <= 40
    assert 250 <= len(WORKFLOW.splitlines()) <= 350


@pytest.mark.seed("003", "`commands/handoff.toml` - Command definition")
def test_the_command_for_other_agents():
    """The command has a description, and a prompt that quotes the typed text for our command."""
    found = tomllib.loads((PLUGIN / "commands/handoff.toml").read_text())

    assert {"description", "prompt"} == found.keys()
    assert ["handoff slash conductor-handoff {{args}}"] == re.findall(r"!\{(.+)\}", found["prompt"])


@pytest.mark.seed("003", "Not changing handoff file format")
def test_the_template_is_what_is_written():
    """Our record has the template's keys and headings, in its order."""
    facts = RecordFacts("auth_20260301", Progress(1, 3, "plan"), git="main, clean")
    record = TrackRecord(
        "2026-03-04T09:12:40.318Z", "epic-end", "auth_20260301", "shop-1",
        validation_snapshot={"gates_passed": ["design"], "current_gate": "spec"},
        sections=sections(facts, "/shop"),
    )  # fmt: skip
    template, written = (PLUGIN / "handoff/template.md").read_text(), render(record)

    assert list(head_of(template)) == list(head_of(written))
    assert list(head_of(template)["validation_snapshot"]) == ["gates_passed", "current_gate"]
    headings = r"(?m)^#+ .*?(?=:|$)"
    assert re.findall(headings, template) == re.findall(headings, written)
    labels = r"(?m)^- (\w[\w ]+):"
    assert re.findall(labels, template) == re.findall(labels, written)


@pytest.mark.seed("003", "`workflows/handoff.md` - Full workflow")
def test_the_workflow_names_every_step():
    """The nine steps of both modes match the program's in number, name and order."""
    rows = re.findall(r"(?m)^\| (\d+a?) \| ([^|]+) \|", WORKFLOW)
    steps = [(action.number, action.name) for action in (*GATHER, *WRITE, *FIND, *RESUME)]

    assert steps == [(number, name.strip()) for number, name in rows]


@pytest.mark.seed("003", "Not adding new triggers")
def test_the_workflow_is_true():
    """The workflow's triggers, its note and the index's columns are those of the program."""
    table = re.findall(r"(?m)^\| `([a-z-]+)` \| .+ \| (?:yes|no) \|$", WORKFLOW)
    assert sorted(TRIGGERS) == sorted(table)
    assert " > ".join(f"`{name}`" for name in TRIGGERS) in WORKFLOW.replace("\n", " ")
    assert f"| {' | '.join(COLUMNS)} |" in WORKFLOW
    told = note(RecordFacts("auth", Progress(5, 12)), 3, "conductor/")
    for line in told.splitlines():
        assert f"\n{line.split(':')[0]}: " in WORKFLOW
    assert "COMPLETED: Tasks 1-5 (41% of track)" in WORKFLOW
    assert told.startswith("COMPLETED: Tasks 1-5 (41% of track)\n")
    assert "handoff resume --implement TRACK" in WORKFLOW


@pytest.mark.parametrize("path", [*COMMANDS, PLUGIN / "workflows/handoff.md"], ids=lambda p: p.name)
def test_commands_that_are_named_exist(path):
    """Every `handoff …` that a text tells a reader to run is a command, with such options."""
    said = re.findall(r"(?m)(?:^|`|: )handoff ([a-z][a-z-]+)((?: +[^\n`|#]*)?)", path.read_text())
    assert said
    for command, words in said:
        assert command in {*cli.COMMANDS, "setup"}, command
        options = set(re.findall(r"(?<!\S)\[?(--[a-z-]+)", words))
        if options:
            # `thread close --yes` is an option of the action, not of the command.
            action = words.split()[:1] if command == "thread" else []
            help_text = subprocess.run(
                [BIN / "handoff", command, *action, "--help"],
                capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            assert not {option for option in options if option not in help_text}, (command, words)


# The commands


@pytest.mark.seed("003", "**Decision:** Replace `/create_handoff` and")
@pytest.mark.seed("003", "Backward-compatible aliases maintained")
def test_every_slash_command_has_its_file():
    """`handoff slash` knows exactly the commands of the plugin."""
    assert sorted(slash._ACTIONS) == sorted(path.stem for path in COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_what_is_typed_stays_out_of_the_shell(path):
    """A command calls its own name; the typed text comes by a here-document that it cannot end.

    Claude Code writes a space between the mark and the backtick wherever both are typed.
    """
    text = path.read_text()
    calls = re.findall(r"(?ms)(?<=^)!`([^`]+)`", text) + re.findall(r"(?ms)^```!\n(.*?)^```$", text)
    plain = f"handoff slash {path.stem}"
    with_words = f"{plain} - <<'WORDS!`END'\n$ARGUMENTS\nWORDS!`END\n"

    assert 1 == len(calls)
    assert calls[0] in (plain, with_words)
    head = head_of(text)
    assert ["allowed-tools", "argument-hint", "description", "disable-model-invocation"] == sorted(
        head
    )
    granted = re.findall(r"Bash\(handoff ([^:()]+):\*\)", head["allowed-tools"])
    assert f"slash {path.stem}" == granted[0]
    assert {*granted[1:]} <= {"close", "create", "resume", "review", "thread"}
    assert len(granted) == head["allowed-tools"].count("Bash")


# The marketplace


def test_the_marketplace_names_the_plugin():
    """The repository is a marketplace with one plugin, which has the version of the package."""
    market = json.loads((REPOSITORY / ".claude-plugin/marketplace.json").read_text())
    plugin = json.loads((PLUGIN / ".claude-plugin/plugin.json").read_text())

    assert ("handoffd", ["./client/plugin"]) == (
        market["name"],
        [item["source"] for item in market["plugins"]],
    )
    assert plugin["name"] == market["plugins"][0]["name"]
    assert plugin["description"] == market["plugins"][0]["description"]
    assert handoff.__version__ == plugin["version"]
    assert "MIT" == plugin["license"]
    assert 40 <= len((PLUGIN / "README.md").read_text().split())


def test_the_wheel_holds_the_marketplace():
    """The wheel contains every file of the marketplace, dotfiles too, laid out as in a checkout."""
    place = Path(handoff.__file__).parent / "marketplace"

    assert files_below(REPOSITORY / ".claude-plugin") == files_below(place / ".claude-plugin")
    assert files_below(PLUGIN) == files_below(place / "client/plugin")
    assert os.access(place / "client/plugin/bin/handoff", os.X_OK)


def test_the_source_distribution_holds_the_marketplace(tmp_path, monkeypatch):
    """The source distribution contains the marketplace, because a wheel may be built from it."""
    from hatchling.build import build_sdist

    monkeypatch.chdir(REPOSITORY)
    with tarfile.open(tmp_path / build_sdist(str(tmp_path))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert ".claude-plugin/marketplace.json" in names
    assert {f"client/plugin/{name}" for name in files_below(PLUGIN)} <= names
