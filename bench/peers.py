"""Other programs that do something comparable, each in an environment of its own.

An environment is made on first use and kept outside the clone; from then on no network is needed.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Taken at once: the measured program has another HOME.
_ENVIRONMENT = dict(os.environ)
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handoffd-bench"
_REQUIREMENTS = Path(__file__).parent / "versions"


class PeerError(Exception):
    """A peer could not be installed."""


def programs(name: str) -> Path:
    """Return the directory with a peer's programs, as versions/NAME.txt or NAME.npm pins it."""
    requirements = next(_REQUIREMENTS.glob(f"{name}.*"))
    stamp = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    place = _CACHE / f"{name}-{stamp}"
    if not (place / "installed").exists():
        print(f"installing {name} into {place}", file=sys.stderr, flush=True)
        _install(place, requirements)
    return place / ("node_modules/.bin" if requirements.suffix == ".npm" else "bin")


def install_all() -> None:
    """Install the missing peers; a peer that cannot be had is missed where it is measured."""
    for requirements in sorted(_REQUIREMENTS.iterdir()):
        with contextlib.suppress(PeerError):
            programs(requirements.stem)


def _install(place: Path, requirements: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    commands = _node_commands if requirements.suffix == ".npm" else _python_commands
    for words in commands(place, requirements):
        done = subprocess.run(words, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
        if done.returncode:
            # Not into the results: it names directories and hosts.
            print(done.stderr, file=sys.stderr)
            raise PeerError(f"{requirements.stem} could not be installed")
    (place / "installed").touch()


def _python_commands(place: Path, requirements: Path) -> list[list[str]]:
    pip = [str(place / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    return [
        [sys.executable, "-m", "venv", str(place)],
        [*pip, "install", "-r", str(requirements)],
    ]


def _node_commands(place: Path, requirements: Path) -> list[list[str]]:
    """Return the commands by which the machine's npm installs it, without package scripts."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise PeerError(f"{requirements.stem} needs npm and node")
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--cache", str(_CACHE / "npm")]
    return [[npm, "install", "--prefix", str(place), *options, *requirements.read_text().split()]]
