"""Our secrets for a mail server: the bearer token of the user, and our registrations.

A registration is one small file with mode 0600 in a directory with mode 0700, outside of every
repository. Its name is a digest of server and project, so that a listing reveals neither.
"""

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from typing import NamedTuple

from handoff.common.safe_parsing import load_json
from handoffd.links.http_post import PostError

_FILE_MAX_BYTES = 4096
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Registration(NamedTuple):
    """Our name and token in a project; older servers give no token."""

    name: str
    token: str = ""


def read_token(path: str) -> str:
    """Return the bearer token; refuse a file that other users may read."""
    path = os.path.expanduser(path)
    try:
        handle = os.open(path, _READ)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "it is no path"
        raise PostError(f"the token file {path} cannot be read: {why}", final=True) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PostError(f"the token file {path} is not a file of yours", final=True)
        if status.st_mode & 0o077:
            raise PostError(f"others may read the token: chmod 600 {path}", final=True)
        token = os.read(handle, _FILE_MAX_BYTES).strip()
    finally:
        os.close(handle)
    if not token or not all(0x21 <= byte <= 0x7E for byte in token):  # noqa: PLR2004
        raise PostError(f"the token file {path} must hold one token and nothing else", final=True)
    return token.decode("ascii")


class Keys:
    """The registration on one server for one project; without a directory it is not stored."""

    def __init__(self, directory: str, url: str, project_root: str) -> None:
        self._directory = directory
        digest = hashlib.sha256(f"{url}\0{project_root}".encode("utf-8", "surrogateescape"))
        self._name = f"{digest.hexdigest()[:32]}.json"

    def load(self) -> Registration | None:
        """Return the stored registration, or None if its file is missing, damaged or not ours."""
        if not self._directory:
            return None
        with contextlib.suppress(OSError, ValueError), self._opened() as directory:
            handle = os.open(self._name, _READ | os.O_NOFOLLOW, dir_fd=directory)
            try:
                status = os.fstat(handle)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    return _registration(load_json(os.read(handle, _FILE_MAX_BYTES)))
            finally:
                os.close(handle)
        return None

    def save(self, registration: Registration) -> None:
        """Store a registration atomically; no other user can read it."""
        if not self._directory:
            return
        data = {"name": registration.name, "registration_token": registration.token}
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            with self._opened() as directory:
                self._replace(directory, json.dumps(data).encode())
        except OSError as problem:
            why = problem.strerror or "it is not a directory of ours"
            raise PostError(f"nothing can be kept in {self._directory}: {why}") from None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        handle = os.open(self._directory, _DIRECTORY)
        try:
            status = os.fstat(handle)
            if status.st_uid != os.geteuid():
                raise PermissionError
            if status.st_mode & 0o077:
                os.fchmod(handle, 0o700)
            yield handle
        finally:
            os.close(handle)

    def _replace(self, directory: int, data: bytes) -> None:
        temporary = f".{self._name}.{secrets.token_hex(6)}.handoffd-tmp"
        handle = os.open(temporary, _NEW, 0o600, dir_fd=directory)
        try:
            try:
                os.write(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
            os.rename(temporary, self._name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise


def _registration(kept: object) -> Registration | None:
    if not isinstance(kept, dict):
        return None
    name, token = kept.get("name"), kept.get("registration_token")
    if not isinstance(name, str) or not name or not isinstance(token, str):
        return None
    return Registration(name, token)
