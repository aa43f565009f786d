"""The known agents. Another one is a package beside claude_code/, and an entry here."""

from collections.abc import Iterable

from handoffd.agents.agent import Agent, BackgroundJob, RunningClient
from handoffd.agents.claude_code.agent import ClaudeCode
from handoffd.config import Config

# An earlier one is asked first whether a path is its own; the last one takes every other path.
AGENTS: tuple[Agent, ...] = (ClaudeCode(),)


def agent_of(path: str) -> Agent:
    """Return the agent of a transcript, or of a root."""
    return next((agent for agent in AGENTS if agent.owns(path)), AGENTS[-1])


def running_clients(roots: Iterable[str]) -> dict[str, RunningClient]:
    """Return the client of each session that a client of any agent claims to run."""
    known, found = list(roots), dict[str, RunningClient]()
    for agent in AGENTS:
        found |= agent.running_clients(root for root in known if agent_of(root) is agent)
    return found


def background_jobs(roots: Iterable[str], since: float) -> list[BackgroundJob]:
    """Return the background agents of all agents that changed since a time, the latest first."""
    known = list(roots)
    found: list[BackgroundJob] = []
    for agent in AGENTS:
        found += agent.background_jobs((root for root in known if agent_of(root) is agent), since)
    return sorted(found, key=lambda job: -job.changed)


def roots(config: Config) -> list[str]:
    """Return the roots of all agents."""
    return [root for agent in AGENTS for root in agent.roots(config)]
