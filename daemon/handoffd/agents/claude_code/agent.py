"""Claude Code as an agent: each answer comes from a module of this package."""

import os
from collections.abc import Iterable
from pathlib import Path

from handoff.common import paths
from handoffd.agents.agent import BackgroundJob, Record, RunningClient
from handoffd.agents.claude_code import jobs, processes, tasks, transcripts
from handoffd.agents.claude_code.client_files import read_json
from handoffd.agents.claude_code.record_events import KNOWN, READERS
from handoffd.agents.claude_code.record_text import words
from handoffd.agents.claude_code.records import is_absolute, parse_line
from handoffd.config import Config

ROOT = "projects"
HEADLESS = "sdk"
KEEP_DAYS = 30.0
KEEP_DAYS_MAX = 36500.0
_VERSION_MAX = 64


class ClaudeCode:
    """`<config>/projects/<encoded path>/<session>.jsonl`, and the files beside `projects`."""

    name = "Claude Code"
    project_variable = "CLAUDE_PROJECT_DIR"
    session_variable = "CLAUDE_CODE_SESSION_ID"
    plugin_variable = "CLAUDE_PLUGIN_ROOT"

    directories = staticmethod(transcripts.project_directories)
    in_directory = staticmethod(transcripts.in_directory)
    transcript_at = staticmethod(transcripts.transcript_at)
    subagents_of = staticmethod(transcripts.subagents_of)
    decode = staticmethod(parse_line)
    words = staticmethod(words)
    tasks_changed_at = staticmethod(tasks.changed_at)
    tasks = staticmethod(tasks.read)

    def roots(self, config: Config) -> list[str]:
        default = paths.variable("CLAUDE_CONFIG_DIR") or f"{paths.home()}/.claude"
        found = (os.path.expanduser(path) for path in (default, *config.claude.config_dirs))
        return list(dict.fromkeys(f"{os.path.abspath(path)}/{ROOT}" for path in found))

    def root_of(self, transcript: str) -> str:
        root = os.path.dirname(os.path.dirname(transcript))
        is_root = is_absolute(root) and os.path.basename(root) == ROOT
        return root if is_root and transcript.endswith(".jsonl") else ""

    def owns(self, path: str) -> bool:
        return ROOT in path.split("/")

    def find(self, root: str, pattern: str) -> dict[str, str]:
        return {path.stem: str(path) for path in Path(root).glob(f"*/{pattern}.jsonl")}

    def treatment(self, record: Record) -> str:
        if record.type not in KNOWN:
            return "unknown: counted, not folded"
        if record.type not in READERS:
            return "known: its envelope is folded, the rest says nothing to us"
        return "folded (a sub-agent's: its edits)" if record.is_sidechain else "folded"

    def running_clients(self, roots: Iterable[str]) -> dict[str, RunningClient]:
        return processes.running_clients(map(os.path.dirname, roots))

    def background_jobs(self, roots: Iterable[str], since: float) -> list[BackgroundJob]:
        return jobs.background_jobs(map(os.path.dirname, roots), since)

    def keep_days(self, root: str) -> float:
        """Return the number of days in the settings; the default if there is no valid number.

        Claude Code itself refuses zero, and then ignores the whole file.
        """
        found = read_json(f"{os.path.dirname(root)}/settings.json").get("cleanupPeriodDays")
        if isinstance(found, (int, float)) and not isinstance(found, bool) and found > 0:
            return float(min(found, KEEP_DAYS_MAX))
        return KEEP_DAYS

    def plugin_version(self, plugin_root: str) -> str:
        version = read_json(f"{plugin_root}/.claude-plugin/plugin.json").get("version")
        return version[:_VERSION_MAX] if isinstance(version, str) else ""

    def is_headless(self, environment: dict[str, str]) -> bool:
        return environment.get("CLAUDE_CODE_ENTRYPOINT", "").startswith(HEADLESS)
