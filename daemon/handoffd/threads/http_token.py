"""The bearer token of the HTTP listener: one file that only its owner can read.

The file is read for every request, so that a new token is valid at once and an unsafe file grants
no access.
"""

import os
import secrets
import stat

from handoff.common.errors import HandoffError
from handoff.common.remedies import refused
from handoffd.fs import files

NAME = "http-token"
_TOKEN_BYTES = 32
_FILE_MAX_BYTES = 4096
_TOKEN_MIN_CHARACTERS = 32
_WAIT_SECONDS = 5.0
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read(directory: str) -> str:
    """Return the token. Raise an error if other users can read or change the file."""
    with files.directory(directory) as handle:
        return _read(handle, f"{directory}/{NAME}")


def ensure(directory: str) -> str:
    """Return the token; the first call creates it."""
    with files.directory(directory) as handle:
        files.lock_directory(handle, directory, _WAIT_SECONDS)
        if NAME not in os.listdir(handle):
            return _write(handle)
        return _read(handle, f"{directory}/{NAME}")


def rotate(directory: str) -> str:
    """Replace the token by a new one and return it; the old one is invalid from then on."""
    with files.directory(directory) as handle:
        files.lock_directory(handle, directory, _WAIT_SECONDS)
        return _write(handle)


def _read(directory_handle: int, path: str) -> str:
    found = files.read(directory_handle, NAME, _FILE_MAX_BYTES)
    if found is None:
        raise HandoffError(f"There is no {path}.", "Make one: handoff token show")
    data, status = found
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
        raise HandoffError(
            f"{path} is not yours alone: others may read or change it.",
            "Make a new one: handoff token rotate",
        )
    try:
        token = data.strip().decode("ascii")
    except UnicodeDecodeError:
        token = ""
    if len(token) < _TOKEN_MIN_CHARACTERS or not token.replace("-", "").replace("_", "").isalnum():
        raise HandoffError(f"{path} holds no token.", "Make a new one: handoff token rotate")
    return token


def _write(directory_handle: int) -> str:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        files.write(directory_handle, NAME, f"{token}\n".encode())
    except OSError as problem:
        raise refused(problem, NAME) from None
    return token
