"""The registry of agents: the agent of a path, and what Claude Code says of its own files."""

import json

import pytest

from handoffd.agents import registry
from handoffd.agents.agent import Record, stat_transcript
from handoffd.agents.claude_code.agent import ClaudeCode
from handoffd.config import ClaudeConfig, Config

SESSION = "0b3fb1c2-7e5a-4c1e-9d6e-2f1f3f0a9c11"


class Other(ClaudeCode):
    """An agent whose transcripts lie below `sessions`, with a client of its own."""

    name = "Other"

    def roots(self, config):
        return ["/home/u/.other/sessions"]

    def owns(self, path):
        return "/.other/" in path

    def running_clients(self, roots):
        return dict.fromkeys(roots, "other")


@pytest.fixture
def two(monkeypatch):
    """Two agents; the last one takes every path that is nobody's."""
    agents = (Other(), ClaudeCode())
    monkeypatch.setattr(registry, "AGENTS", agents)
    return agents


def test_a_path_has_one_agent(two):
    """An agent gets the paths that it owns; any other path is the last agent's."""
    other, claude = two

    assert other is registry.agent_of(f"/home/u/.other/sessions/{SESSION}.jsonl")
    assert claude is registry.agent_of(f"/home/u/.claude/projects/-p/{SESSION}.jsonl")
    assert claude is registry.agent_of(f"/tmp/{SESSION}.jsonl")
    assert claude is registry.agent_of("")


def test_roots_of_all_agents(two, monkeypatch):
    """The roots of every agent are followed, Claude Code's configured ones once each."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/c")
    config = Config(claude=ClaudeConfig(config_dirs=["/d", "/c/"]))

    assert ["/home/u/.other/sessions", "/c/projects", "/d/projects"] == registry.roots(config)


def test_clients_of_all_agents(two, tmp_path):
    """Each agent looks for its clients beside its own roots alone."""
    mine = f"{tmp_path}/.other/sessions"

    assert {mine: "other"} == registry.running_clients([mine, f"{tmp_path}/projects"])


@pytest.mark.parametrize(
    ("transcript", "root"),
    [
        (f"/c/projects/-p/{SESSION}.jsonl", "/c/projects"),
        (f"/c/projects/-p/{SESSION}.txt", ""),
        (f"/c/elsewhere/-p/{SESSION}.jsonl", ""),
        (f"projects/-p/{SESSION}.jsonl", ""),
        ("", ""),
    ],
)
def test_root_of_a_transcript(transcript, root):
    """The root of Claude Code is a directory `projects` two levels above a transcript."""
    assert root == ClaudeCode().root_of(transcript)


@pytest.mark.parametrize(
    ("days", "kept"),
    [(None, 30), (365, 365), (0.5, 0.5), (0, 30), (-1, 30), (True, 30), ("9", 30), (1e9, 36500)],
)
def test_days_that_a_transcript_is_kept(tmp_path, days, kept):
    """The period is the one in the settings; the default counts if that is no number of days."""
    if days is not None:
        (tmp_path / "settings.json").write_text(json.dumps({"cleanupPeriodDays": days}))

    assert kept == ClaudeCode().keep_days(f"{tmp_path}/projects")


@pytest.mark.parametrize(
    ("text", "version"), [('{"version": "1.2"}', "1.2"), ('{"version": 3}', ""), ("no JSON", "")]
)
def test_version_of_the_plugin(tmp_path, text, version):
    """The version is read from the plugin's own description; anything odd is no version."""
    (tmp_path / ".claude-plugin").mkdir()
    (tmp_path / ".claude-plugin/plugin.json").write_text(text)

    assert version == ClaudeCode().plugin_version(str(tmp_path))


def test_sessions_are_found_by_the_beginning_of_their_id(tmp_path):
    """The transcripts that match a pattern are named by session, sub-agents left out."""
    (tmp_path / "-p" / SESSION).mkdir(parents=True)
    path = tmp_path / f"-p/{SESSION}.jsonl"
    path.write_text("{}\n")

    assert {SESSION: str(path)} == ClaudeCode().find(str(tmp_path), f"{SESSION[:8]}*")
    assert {} == ClaudeCode().find(str(tmp_path), "ffff*")


def test_only_a_regular_file_is_a_transcript(tmp_path):
    """A link in the place of a transcript is not followed."""
    (tmp_path / "a.jsonl").write_text("{}\n")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")

    assert 3 == stat_transcript("a", "a", str(tmp_path / "a.jsonl")).size
    assert stat_transcript("b", "b", str(tmp_path / "b.jsonl")) is None


@pytest.mark.parametrize(
    ("record", "treatment"),
    [
        (Record(type="user"), "folded"),
        (Record(type="user", is_sidechain=True), "folded (a sub-agent's: its edits)"),
        (Record(type="mode"), "known: its envelope is folded, the rest says nothing to us"),
        (Record(type="new-kind"), "unknown: counted, not folded"),
    ],
)
def test_treatment_of_records(record, treatment):
    """The table of `replay --counts` says what becomes of each type of records."""
    assert treatment == ClaudeCode().treatment(record)
