"""Keeps a copy of a closed thread."""

import os

from handoffd.fs import files


def keep_copy(directory: str, thread_id: str, text: str) -> str:
    """Write the copy, readable by its owner only. Return its path."""
    base, name = os.path.split(directory)
    with files.directory(base, name, create=True) as handle:
        files.write(handle, f"{thread_id}.md", text.encode())
    return f"{directory}/{thread_id}.md"
