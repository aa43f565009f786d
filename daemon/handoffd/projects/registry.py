"""Find the known projects: their opaque ids and their roots."""

from collections.abc import Callable
from dataclasses import dataclass, field

from handoffd.fs import mounts
from handoffd.projects.project_root import ProjectRoot, find_root, inspect_root
from handoffd.runtime import clock
from handoffd.session.state import SessionState
from handoffd.store.core import CoreStore

_CACHED_MAX = 4096
_CACHE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Project:
    """A root and its opaque id; the id is empty for an unknown directory."""

    id: str
    root: ProjectRoot


@dataclass(slots=True)
class ProjectRegistry:
    """Finds the project of a directory; facts from the disk are cached for half a minute."""

    core: CoreStore
    _found: dict[tuple[str, str], tuple[float, Project]] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    _roots: dict[str, str] = field(default_factory=dict)

    def at(self, directory: str, *, create: bool = True) -> Project:
        """Return the project of a directory; without `create`, an unknown one gets no id."""
        return self._cached(directory, find_root, create=create)

    def of(self, session: SessionState) -> Project:
        """Return the project of a session: that of its first cwd, or of the place it moved to."""
        if not session.root:
            session.root = self.at(session.cwd).root.path
        return self._cached(session.root, inspect_root, create=True)

    def by_id(self, project_id: str, *, fresh: bool = False) -> Project | None:
        """Return a project; with `fresh`, look at the disk, because the caller will write there."""
        root = self._roots.get(project_id) or self.core.project_root(project_id)
        if root is None:
            return None
        self._roots[project_id] = root
        if fresh:
            self._found.pop((inspect_root.__name__, root), None)
        return self._cached(root, inspect_root, create=True)

    @property
    def known(self) -> int:
        """The number of roots that were looked up so far: it grows with each new project."""
        return len(self._ids)

    def forget_cached(self) -> None:
        self._found.clear()

    def _cached(self, path: str, find: Callable[[str], ProjectRoot], *, create: bool) -> Project:
        key = (find.__name__, path)
        known = self._found.get(key)
        now = clock.monotonic()
        if known is not None and now - known[0] < _CACHE_SECONDS:
            return known[1]
        if len(self._found) > _CACHED_MAX:
            self._found.clear()
        root = self._find(path, find)
        project = Project(self._id(root.path, create=create), root)
        if project.id:
            self._found[key] = (now, project)
        return project

    def _find(self, path: str, find: Callable[[str], ProjectRoot]) -> ProjectRoot:
        if find is not inspect_root:
            mounts.require(path)  # the directories above it cannot be inspected now
        elif not mounts.answers(path):
            return ProjectRoot(path, exists=False, marked=False, own=False)
        return find(path)

    def _id(self, root: str, *, create: bool) -> str:
        if root not in self._ids:
            found = self.core.project_id(root, clock.iso() if create else None)
            if found is None:
                return ""
            self._ids[root] = found
        return self._ids[root]
