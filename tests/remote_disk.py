"""A disk that comes over a network: a FUSE file system that shows another directory, read-only.

A change in that directory happens elsewhere, as on a server: the kernel reports it to no process
here. `python remote_disk.py DIRECTORY PLACE COMMAND...` in a mount namespace of its own.
"""

import ctypes
import errno
import os
import struct
import sys

LOOKUP, FORGET, GETATTR, STATFS, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 17, 26, 36, 42
OPEN, READ, RELEASE, FLUSH, OPENDIR, READDIR, RELEASEDIR, ACCESS = 14, 15, 18, 25, 27, 28, 29, 34
SILENT = (FORGET, INTERRUPT, BATCH_FORGET)
_REQUEST = struct.Struct("<IIQQIIII")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_libc = ctypes.CDLL(None, use_errno=True)


class Disk:
    """Answers the kernel; a node is a path, and nothing is ever forgotten."""

    def __init__(self, directory: str):
        self.paths = {1: directory}
        self.nodes = {directory: 1}

    def node(self, path: str) -> int:
        if path not in self.nodes:
            self.nodes[path] = len(self.nodes) + 1
            self.paths[self.nodes[path]] = path
        return self.nodes[path]

    def answer(self, code: int, node: int, body: bytes) -> bytes:
        if code == INIT:
            return struct.pack("<IIIIHHII", 7, 31, 65536, 0, 12, 9, 65536, 1).ljust(64, b"\0")
        if code == STATFS:
            return bytes(80)
        if code in (RELEASE, FLUSH, RELEASEDIR, ACCESS):
            return b""
        return self.about(code, self.paths[node], body)

    def about(self, code: int, path: str, body: bytes) -> bytes:
        """Answer a question about a path; no answer may be cached."""
        if code == LOOKUP:
            found = f"{path}/{os.fsdecode(body.rstrip(bytes(1)))}"
            attributes = self.attributes(found)
            return struct.pack("<QQQQII", self.node(found), 0, 0, 0, 0, 0) + attributes
        if code == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(path)
        if code in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, code == OPEN, 0)
        if code not in (READ, READDIR):
            raise OSError(errno.ENOSYS, "not known")
        _, offset, size = struct.unpack_from("<QQI", body)
        return self.content(path, offset, size) if code == READ else self.names(path, offset, size)

    def attributes(self, path: str) -> bytes:
        found = os.lstat(path)
        times = [
            divmod(at, 10**9) for at in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        ]
        return _ATTRIBUTES.pack(
            self.node(path), found.st_size, found.st_blocks, *(at for at, _ in times),
            *(part for _, part in times), found.st_mode, found.st_nlink, found.st_uid, found.st_gid,
            0, 4096, 0,
        )  # fmt: skip

    def content(self, path: str, offset: int, size: int) -> bytes:
        with open(path, "rb") as stream:
            stream.seek(offset)
            return stream.read(size)

    def names(self, path: str, offset: int, size: int) -> bytes:
        found = b""
        for number, name in enumerate(sorted(os.listdir(path))[offset:], offset + 1):
            encoded = os.fsencode(name)
            entry = struct.pack("<QQII", number, number, len(encoded), 0) + encoded
            entry = entry.ljust(-(-len(entry) // 8) * 8, b"\0")
            if len(found) + len(entry) > size:
                break
            found += entry
        return found

    def serve(self, handle: int) -> None:
        while True:
            request = os.read(handle, 1 << 20)
            _, code, unique, node, *_ = _REQUEST.unpack_from(request)
            if code in SILENT:
                continue
            try:
                data, failed = self.answer(code, node, request[_REQUEST.size :]), 0
            except OSError as problem:
                data, failed = b"", -(problem.errno or errno.EIO)
            os.write(handle, struct.pack("<IiQ", 16 + len(data), failed, unique) + data)


def mount(place: str) -> int:
    handle = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={handle},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if _libc.mount(b"elsewhere", os.fsencode(place), b"fuse.elsewhere", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "no FUSE here")
    return handle


def main() -> None:
    directory, place, *command = sys.argv[1:]
    handle, parent = mount(place), os.getpid()
    if os.fork() == 0:
        _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent:  # it was quicker than we
            os._exit(0)
        Disk(directory).serve(handle)
    os.close(handle)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
