"""Programs of others: where PATH says, but never in the directory we run in."""

import os
import shutil


def find(name: str) -> str | None:
    """Return the path of a program; a relative entry of PATH is a repository's, and is left out."""
    places = os.environ.get("PATH", os.defpath).split(":")
    return shutil.which(name, path=":".join(place for place in places if place.startswith("/")))
