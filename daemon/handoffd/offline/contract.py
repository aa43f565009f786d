"""Leaves a session's contract without a daemon, for the commands about track records."""

from pathlib import Path

from handoffd.api.replay import replay
from handoffd.api.resolve import PREFIX_MIN, ambiguous
from handoffd.config import Config
from handoffd.contract import handoff_directory, session_file
from handoffd.contract.composition import Surroundings, is_worth
from handoffd.contract.contract_writer import ask_git, intending, left_of, telling, worker
from handoffd.runtime import clock
from handoffd.runtime.directories import claude_dirs
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore


def leave(core: CoreStore, project_id: str, root: str, state: SessionState, config: Config) -> str:
    """Leave a session's handoff as the daemon would; returns where it is, or nothing."""
    if config.contract.write == "none" or not is_worth(state):
        return ""
    base = handoff_directory.handoffs_base(config.contract.directory)
    facts = ask_git(root)
    mine = worker(state, root)
    tell = telling(state, mine, root, Surroundings(clock.day(), facts.uncommitted, facts.unpushed))
    left = core.contract(state.session_id)
    planned = session_file.plan(base, mine, tell, left)
    if planned is None:
        return left.path if left else ""
    core.set_contract(intending(project_id, state, planned, left))
    done = session_file.leave(base, mine, planned, left)
    if done is not None:
        core.set_contract(left_of(project_id, state, done, ended=False))
    elif left is not None:
        core.set_contract(left)
    return done.handoff.path if done else ""


def transcript_state(name: str, config: Config) -> SessionState | None:
    """Fold the transcript of a session that is named by its id, or by how that begins."""
    if not name or not name.replace("-", "").isalnum():
        return None
    pattern = f"*/{name}*.jsonl" if len(name) >= PREFIX_MIN else f"*/{name}.jsonl"
    found: dict[str, Path] = {}
    for directory in claude_dirs(config.claude.config_dirs):
        found |= {path.stem: path for path in Path(directory, "projects").glob(pattern)}
    if len(found) > 1 and name not in found:
        raise ambiguous(name, found)
    path = found.get(name) or next(iter(found.values()), None)
    return replay(path)[0] if path else None
