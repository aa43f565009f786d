"""Ask git about each active project, in the background: a slow repository delays no other."""

import asyncio
from dataclasses import dataclass, field

from handoff.common import paths as client_paths
from handoffd.links import git, git_discovery, program, repository
from handoffd.projects import project_root
from handoffd.projects.lanes import INHERITED_SECONDS
from handoffd.projects.learning_policy import LearningPolicy
from handoffd.projects.project_state import ActiveProject, ProjectStates
from handoffd.runtime import clock, log

GIT_SECONDS = 5.0


@dataclass(slots=True)
class GitQuestions:
    """Keeps git's answers about each active project up to date."""

    policy: LearningPolicy
    project_states: ProjectStates
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def ask_soon(self, active: ActiveProject) -> None:
        """Ask git in the background, unless it is being asked already."""
        active.git.wanted = False
        active.git.not_before = clock.monotonic() + GIT_SECONDS
        if active.git.asking:
            return
        active.git.asking = True
        task = asyncio.ensure_future(self.ask(active))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ask(self, active: ActiveProject) -> None:
        """Learn which files are uncommitted, and whether git tracks handoff.yaml."""
        before = active.git.uncommitted, active.git.commits
        try:
            await self._learn_from_git(active)
        except git.GitError as problem:
            await self._note_failure(active, problem)
        else:
            active.git.problem, active.git.failures = "", 0
        finally:
            active.git.asking = False
        if (active.git.uncommitted, active.git.commits) != before:
            self.project_states.touch(active.project.id, git_too=False)

    async def _note_failure(self, active: ActiveProject, problem: git.GitError) -> None:
        """Note that git failed and ask again later; until then only git's answers are missing."""
        root = active.project.root.path
        log.get().warning("git_failed", project=root, why=str(problem))
        active.git.not_before = clock.monotonic() + 12 * GIT_SECONDS
        active.git.wanted = True
        active.git.failures += 1
        if not problem.missing and (not problem.late or active.git.failures > 1):
            active.git.problem = str(problem)
        directory = git_discovery.suspected(root)
        if active.git.tracked is None and directory is not None:
            path = client_paths.CHECKPOINT
            tracked = await asyncio.to_thread(git.may_be_tracked, directory, path)
            self._set_tracked(active, tracked=tracked)

    async def _learn_from_git(self, active: ActiveProject) -> None:
        root = active.project.root
        if self.policy.refusal(active.project.id, root.path):
            return
        if not root.exists or git_discovery.find(root.path) is None:
            active.git.uncommitted = []
            self._set_tracked(active, tracked=False)
            return
        # First the answer that decides whether we may write, then the slower ones.
        tracked = await asyncio.to_thread(git.is_tracked, root.path, client_paths.CHECKPOINT)
        self._set_tracked(active, tracked=tracked)
        active.git.uncommitted = await asyncio.to_thread(git.uncommitted_files, root.path)
        await self._learn_commits(active)

    async def _learn_commits(self, active: ActiveProject) -> None:
        """Ask for the commits of the last days, if HEAD has moved since the last question."""
        root = active.project.root.path
        stamp = project_root.reflog_stamp(root)
        if stamp != active.git.reflog:
            since = clock.iso(clock.wall() - INHERITED_SECONDS)
            active.git.commits = await asyncio.to_thread(
                repository.commits_after, root, since, git.TIMEOUT_SECONDS
            )
            active.git.reflog = stamp

    def _set_tracked(self, active: ActiveProject, *, tracked: bool) -> None:
        first, active.git.tracked = active.git.tracked is None, tracked
        if first:
            # From now on handoff.yaml may be written.
            self.project_states.touch(active.project.id, git_too=False)

    def close(self) -> None:
        """End all running git processes, so that none outlives the daemon."""
        program.end_all()
