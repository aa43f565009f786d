"""A disk that fails when it is told to, for whole programs: see failing_disk.c."""

import errno
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "failing_disk.c"
ERRORS = {name: getattr(errno, name) for name in ("ENOSPC", "EACCES", "EROFS", "EIO")}
# Those that come when a file is filled; the others, when it is opened or named.
FILLING = ("ENOSPC", "EIO")


def build(directory: Path) -> Path:
    """Compile it, or skip the test."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler: install one (Debian: apt-get install gcc libc6-dev)")
    made = directory / "failing_disk.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl"], check=True, timeout=60
    )
    return made


class Disk:
    """The disk as the programs of a sandbox see it; `environment` is theirs."""

    def __init__(self, directory: Path):
        page = directory / "failing-page"
        page.write_bytes(b"\0" * 4096)
        with page.open("r+b") as stream:
            self._page = mmap.mmap(stream.fileno(), 4096)
        self.environment = {"LD_PRELOAD": str(build(directory)), "FAULTY_DISK": str(page)}

    def fail(self, name: str, part: str) -> None:
        """Make every change of a file with `part` in its path fail from now on."""
        self._page[8 : 8 + 1024] = part.encode().ljust(1024, b"\0")
        self._page[:8] = struct.pack("ii", ERRORS[name], 0)

    def fail_reading(self, path: Path, offset: int = 0) -> None:
        """Fail every read of a file behind an offset from now on, also under another name."""
        self._page[1032:1048] = struct.pack("LL", path.stat().st_ino, offset)
        self._page[4:8] = struct.pack("i", 0)

    def mend(self) -> int:
        """Let everything work again; return the number of failures."""
        failed = self.failed
        self._page[:4] = struct.pack("i", 0)
        self._page[1032:1040] = bytes(8)
        return failed

    @property
    def failed(self) -> int:
        return struct.unpack("ii", self._page[:8])[1]
