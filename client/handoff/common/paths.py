"""The paths of files, sockets and projects, on which both sides must agree.

The hot path loads this module, so it imports posix only.
"""

import posix

MARKERS = (".flow-guardian", ".git", "pyproject.toml")
SOCKET_NAME = "handoffd.sock"
# sun_path holds 108 bytes on Linux and 104 on macOS, the final NUL included.
SOCKET_PATH_MAX = 103
# No path is longer. The search for a longer one would take minutes.
PATH_MAX = 4096
CHECKPOINT = ".flow-guardian/handoff.yaml"

_S_IFMT, _S_IFDIR = 0o170000, 0o040000


def variable(name: str) -> str:
    return posix.environ.get(name.encode(), b"").decode("utf-8", "surrogateescape")


def home() -> str:
    found = variable("HOME")
    if found:
        return found.rstrip("/") or "/"
    import pwd

    return pwd.getpwuid(posix.getuid()).pw_dir


def _xdg(name: str, below_home: str) -> str:
    # The XDG specification: a relative path is invalid and is ignored.
    found = variable(name)
    return found if found.startswith("/") else f"{home()}/{below_home}"


def state_dir() -> str:
    return _xdg("XDG_STATE_HOME", ".local/state") + "/handoffd"


def config_file() -> str:
    return _xdg("XDG_CONFIG_HOME", ".config") + "/handoffd/config.toml"


def socket_candidates() -> list[str]:
    """Return every path where the socket can be, the first choice first."""
    given = variable("HANDOFFD_SOCKET")
    if given:
        return [given]
    found = []
    runtime = variable("XDG_RUNTIME_DIR")
    if runtime.startswith("/"):
        found.append(f"{runtime}/handoffd/{SOCKET_NAME}")
    run_user = f"/run/user/{posix.getuid()}"
    if is_own_directory(run_user) and runtime != run_user:
        found.append(f"{run_user}/handoffd/{SOCKET_NAME}")
    found.append(f"{state_dir()}/run/{SOCKET_NAME}")
    return found


def is_own_directory(path: str) -> bool:
    try:
        status = posix.lstat(path)
    except OSError:
        return False
    return status.st_mode & _S_IFMT == _S_IFDIR and status.st_uid == posix.getuid()


def has_marker(directory: str) -> bool:
    for marker in MARKERS:
        try:
            posix.stat(f"{directory}/{marker}")
        except (OSError, ValueError):
            continue
        return True
    return False


def is_home(directory: str) -> bool:
    """Return True if a directory is $HOME, also if links lead to it."""
    try:
        one, other = posix.stat(directory), posix.stat(home())
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def project_root(start: str) -> str:
    """Return the nearest ancestor with a marker, else the start itself.

    A marker in $HOME or / makes no project: it would include every project below.
    """
    directory = start.rstrip("/") or "/"
    while directory not in ("/", ""):
        if has_marker(directory):
            return start.rstrip("/") if is_home(directory) else directory
        directory = directory.rpartition("/")[0] or "/"
    return start.rstrip("/") or "/"


def brief_file(root: str) -> str:
    """Return the path where the daemon keeps the rendered brief of a project.

    The name is an FNV-1a hash, because the hot path has no hash module. The brief names its
    project in the first line, so a collision is noticed.
    """
    value = 0xCBF29CE484222325
    for byte in root.encode("utf-8", "surrogateescape"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{state_dir()}/briefs/{value:016x}"


def checkpoint_stamp(root: str) -> str:
    """Return the size and time of a project's checkpoint; a brief notes those it was made from."""
    try:
        status = posix.lstat(f"{root}/{CHECKPOINT}")
    except OSError:
        return "none"
    return f"{status.st_size}.{status.st_mtime_ns}"


def read_brief(root: str) -> str | None:
    """Return the rendered brief, or None if there is none or the checkpoint has changed since."""
    found = read_dated_brief(root)
    return found[0] if found else None


def read_dated_brief(root: str) -> tuple[str, float] | None:
    """Return the rendered brief as `read_brief` does, and the time at which it was written."""
    try:
        handle = posix.open(brief_file(root), posix.O_RDONLY | posix.O_NOFOLLOW)
        try:
            written = posix.fstat(handle).st_mtime
            text = posix.read(handle, 1 << 16).decode("utf-8", "replace")
        finally:
            posix.close(handle)
    except OSError:
        return None
    head, _, body = text.partition("\n")
    return (body, written) if head == f"{root}\t{checkpoint_stamp(root)}" else None
