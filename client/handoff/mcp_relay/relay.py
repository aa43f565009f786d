"""stdin and stdout <-> the daemon's socket, for MCP.

Lines pass unchanged, one at a time: the daemon answers the requests of a connection in order.
A tool call gets a key of its own. If the daemon goes away in the middle, the call is asked again
with the same key, and is done only once. While no daemon runs, a child process that reads core.db
answers the calls, and the relay itself answers all other requests at once.
A relay lives as long as its client, so it loads no more than the hot path does.
"""

import _signal  # type: ignore[import-not-found]  # the public module loads enum
import posix
import select
import time

from handoff import __version__, fast
from handoff.common import paths, wire
from handoff.mcp_relay.answerer import (
    Answerer,
    Lines,
    McpRequest,
    decoded,
    error,
    is_answer,
    is_request,
    ready,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from handoff.mcp_relay.child_processes import Child

    Frame = dict[str, Any]

CALL = "tools/call"
# A request other than a call waits this long for the daemon; then the relay answers it.
GREETING_SECONDS = 0.25
# A call waits PATIENCE_SECONDS for a daemon that may be starting, and ANSWER_SECONDS for the answer
# of one that runs. Then a child process has CHILD_SECONDS, enough to get its turn among other
# writers. Clients give up after a minute, so the relay gives up after TOTAL_SECONDS.
PATIENCE_SECONDS = 10.0
ANSWER_SECONDS = 20.0
CHILD_SECONDS = 25.0
TOTAL_SECONDS = 50.0
# A daemon that hangs, or speaks another protocol, is not asked again for this long.
AVOID_SECONDS = 30.0
START_PAUSE_SECONDS = 1.0
START_PAUSE_MAX_SECONDS = 600.0
# This long after the last request the relay closes its connection or ends its child: the daemon
# has room for a limited number of connections, and a child costs memory.
IDLE_SECONDS = 60.0
TICK_SECONDS = 0.05
LINE_MAX_BYTES = 4 << 20
# While the client has more than this left to read, its requests are neither read nor passed on.
OUTPUT_MAX_BYTES = 4 << 20
READ_BYTES = 1 << 16


def run(client: str) -> int:
    """Relay until the client closes stdin; SIGINT and SIGTERM end the relay quietly, too."""
    if not (_is_open(0) and _is_open(1)):
        posix._exit(0)  # noqa: SLF001  else a socket would get the number of the closed one
    if not _is_open(2):
        posix.open("/dev/null", posix.O_WRONLY)
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, lambda *_: posix._exit(0))  # noqa: SLF001
    if posix.isatty(0):
        _warn("this speaks MCP with a client that starts it; see: handoff mcp --help")
    relay = Relay(client)
    relay.serve()
    relay.part()
    return 0


def directory() -> str:
    """Return the directory in which the client works; a name that is not UTF-8 cannot be sent."""
    for found in (paths.variable("CLAUDE_PROJECT_DIR"), fast.working_directory()):
        if found.startswith("/") and found == found.encode("utf-8", "replace").decode():
            return found
    return "/"


class Relay:
    """Takes the requests of the client, finds an answerer, and returns its answers."""

    def __init__(self, client: str) -> None:
        self.client = client
        params = {"protocol": wire.PROTOCOL, "client": client, "cwd": directory()}
        self.hello = wire.request("mcp", params)
        self.key = posix.urandom(12).hex()
        self.calls_made = 0
        self.reading = True
        self.input = Lines(LINE_MAX_BYTES)
        self.output = bytearray()
        # The requests that wait: calls, and all others. A call's time counts from the moment when
        # it became the first of the calls.
        self.calls: list[McpRequest] = []
        self.other_requests: list[McpRequest] = []
        self.peer: Answerer | None = None
        self.starter: Child | None = None
        # is_alone: no daemon can be started. has_answered: a daemon has answered since the last
        # attempt to start one, so one runs although the attempt failed.
        self.is_alone = False
        self.has_answered = False
        self.next_connect = self.next_start = self.avoid_until = 0.0
        self.start_pause = START_PAUSE_SECONDS
        self.warned: set[str] = set()

    def serve(self) -> None:
        """Relay until no more input can come and every request is answered."""
        self._find_answerer(time.monotonic())
        while self.reading or self.calls or self.other_requests or self.output:
            self._wait()
            self._do_due_work(time.monotonic())

    def part(self) -> None:
        if self.peer is not None:
            self.peer.close()
            self.peer = None

    # Input and output

    def _wait(self) -> None:
        """Wait for the next events, and handle them."""
        peer, starter = self.peer, self.starter
        events = {
            0: select.POLLIN * (self.reading and not self._is_full()),
            1: select.POLLOUT * bool(self.output),
        }
        if peer:
            events[peer.handle] = select.POLLIN | select.POLLOUT * bool(peer.outgoing)
        if starter:
            events[starter.handle] = select.POLLIN
        found = ready(events, self._seconds())
        now = time.monotonic()
        if 1 in found:
            self._write(now)
        if peer and peer.handle in found:
            peer.flush()
            self._receive(peer, now)
        if starter and starter.handle in found and starter.is_done():
            self._started(starter, now)
        if 0 in found:
            self._read(now)
        if not (found or self.calls or self.other_requests):
            self.part()  # it is no longer needed

    def _seconds(self) -> float | None:
        if (self.calls or self.other_requests) and not self._is_full():
            return TICK_SECONDS
        return IDLE_SECONDS if self.peer else None

    def _is_full(self) -> bool:
        return len(self.output) > OUTPUT_MAX_BYTES

    def _read(self, now: float) -> None:
        try:
            data = posix.read(0, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.reading = bool(data)
        for line in self.input.feed(data) if data else self.input.finish():
            self._handle_line(line, now)

    def _write(self, now: float) -> None:
        if self.calls and self._is_full():
            self.calls[0].since = now  # the call waits for the client, not for an answer
        try:
            # Write no more than certainly fits: a client that does not read must not block us.
            del self.output[: posix.write(1, self.output[: select.PIPE_BUF])]
        except BlockingIOError:
            return
        except OSError:  # the client is gone
            self.reading = False
            for waiting in (self.calls, self.other_requests, self.output):
                waiting.clear()

    def _receive(self, peer: Answerer, now: float) -> None:
        lines = peer.receive()
        if lines is None:
            self._part_from(peer, now)
            return
        for line in lines:
            if not peer.greeted:
                self._greeted(peer, line, now)
            elif peer.asked is not None:
                self._answered(peer, peer.asked, line, now)

    # Requests

    def _handle_line(self, line: bytes | None, now: float) -> None:
        if line is None:
            self._refuse(None, wire.INVALID_REQUEST, _too_long(LINE_MAX_BYTES))
            return
        line = line.strip(b" \t\r")
        if not line:
            return
        try:
            frame = wire.decode_strictly(line)
        except (ValueError, RecursionError):
            self._refuse(None, wire.PARSE_ERROR, "That is not JSON")
            return
        if is_request(frame):
            if "id" in frame:  # a notification wants no answer, and we act upon none of MCP's
                self._enqueue(frame, line, now)
        elif not is_answer(frame):
            self._refuse(None, wire.INVALID_REQUEST, "That is not a JSON-RPC request")

    def _enqueue(self, frame: "Frame", line: bytes, now: float) -> None:
        is_call = frame["method"] == CALL
        if is_call:
            self.calls_made += 1
            # Of two members with the same name the last one counts, so it is ours.
            line = line[:-1] + f',"once":"{self.key}.{self.calls_made}"}}'.encode()
        if len(line) > wire.REQUEST_MAX_BYTES:
            text = f"{_too_long(len(line))} Say it in several entries, or name a file that holds it"
            self._refuse(frame["id"], wire.INVALID_REQUEST, text)
        elif is_call:
            params = frame.get("params")
            tool = params.get("name") if isinstance(params, dict) else None
            self.calls.append(McpRequest({"id": frame["id"]}, line + b"\n", now, tool))
        elif self.peer or self._connect(now):
            self.other_requests.append(McpRequest(frame, line + b"\n", now))
        else:
            self._answer_here(frame)

    def _answer_here(self, frame: "Frame") -> None:
        try:
            from handoff import local

            self.output += wire.encode(local.mcp_answers().answer(frame)).encode() + b"\n"
        except Exception as problem:  # noqa: BLE001  the package was upgraded or removed meanwhile
            text = f"handoffd cannot be loaded ({problem}). Install it again, then reconnect"
            self._refuse(frame["id"], wire.INTERNAL_ERROR, text)

    def _refuse(self, request_id: "Any", code: int, message: str) -> None:
        self.output += error(request_id, code, message) + b"\n"

    # Answers

    def _greeted(self, peer: Answerer, line: bytes, now: float) -> None:
        """Take the answer to our hello; avoid a daemon that speaks another protocol."""
        reply = decoded(line)
        result = reply.get("result") or {}
        problem = reply.get("error") or {}
        peer.greeted = result.get("protocol") == wire.PROTOCOL
        if peer.greeted:
            self.is_alone, self.has_answered = False, True
        elif problem.get("code") == wire.BUSY:
            self._part_from(peer, now)
        else:
            its = result or problem.get("data") or {}
            version = f"handoffd {its.get('version', '?')} (protocol {its.get('protocol', '?')})"
            mine = f"this is {__version__} (protocol {wire.PROTOCOL})"
            self._avoid(f"{version} is running, and {mine}", now)

    def _answered(self, peer: Answerer, request: McpRequest, line: bytes, now: float) -> None:
        peer.asked = None
        if peer.child is None:
            self.start_pause = START_PAUSE_SECONDS
        if self._drop(request, now):  # else the relay has answered it already
            self.output += request.answered(line) + b"\n"

    def _drop(self, request: McpRequest, now: float) -> bool:
        """Remove a request from those that wait; return False if it did not wait."""
        for waiting in (self.calls, self.other_requests):
            if request in waiting:
                waiting.remove(request)
                if self.calls and waiting is self.calls:
                    self.calls[0].since = now
                return True
        return False

    def _part_from(self, peer: Answerer, now: float) -> None:
        """Part from an answerer that is gone; its request waits for another one.

        The request is given up if the answerer was our child.
        """
        self.part()
        if peer.child and peer.asked:
            self._give_up(peer.asked, "core.db cannot be read without it", now)

    def _give_up(self, request: McpRequest, why: str, now: float) -> None:
        if self._drop(request, now):
            text = f"handoffd does not answer, and {why}. Run: handoff restart\n{request.warning}"
            self._refuse(request.frame["id"], wire.INTERNAL_ERROR, text.rstrip())

    # Due work

    def _do_due_work(self, now: float) -> None:
        while (self.other_requests and not self._is_full()) and (
            self.peer is None or now - self.other_requests[0].since > GREETING_SECONDS
        ):
            self._answer_here(self.other_requests.pop(0).frame)
        if self._is_full():
            return
        peer = self.peer
        if self.calls and now - self.calls[0].since > TOTAL_SECONDS:
            self._give_up(self.calls[0], "it took too long", now)
        if peer and peer.asked:
            waited = now - peer.asked_at
            if peer.child and waited > CHILD_SECONDS:
                self._part_from(peer, now)
            elif not peer.child and waited > ANSWER_SECONDS:
                self._avoid("handoffd does not answer", now)
        if self.calls and not (self.peer and self.peer.asked):
            self._find_answerer(now)
        self._ask_next(now)

    def _ask_next(self, now: float) -> None:
        peer = self.peer
        waiting = self.other_requests or self.calls
        if waiting and peer and peer.greeted and not peer.asked:
            peer.ask(waiting[0], now)

    # The search for an answerer

    def _find_answerer(self, now: float) -> None:
        """Find an answerer: the daemon, a daemon that we start, or a child of ours."""
        peer = self.peer
        if peer and peer.greeted and not peer.child:
            return
        waited = bool(self.calls) and now - self.calls[0].since > PATIENCE_SECONDS
        if waited and now >= self.avoid_until:
            self._avoid("handoffd does not answer", now)
        if now >= max(self.avoid_until, self.next_connect) and not (peer and not peer.child):
            self.next_connect = now + TICK_SECONDS
            if not self._connect(now):
                self._start(now)
        if self.calls and not self.peer and (self.is_alone or now < self.avoid_until):
            self._start_child(now)

    def _connect(self, now: float) -> bool:
        """Replace the answerer by a connection to the daemon; return False if there is none."""
        if now < self.avoid_until:
            return False
        try:
            stream = fast.connect(now)
        except (fast.Unreachable, KeyError):  # a user may have neither HOME nor a name
            return False
        self.part()
        self.peer = Answerer(stream, self.hello)
        return True

    def _avoid(self, why: str, now: float) -> None:
        self._warn_once(f"{why}; answering without it. Run: handoff restart")
        self.avoid_until = now + AVOID_SECONDS
        self.part()

    def _start(self, now: float) -> None:
        if self.starter or now < self.next_start:
            return
        self.has_answered = False
        try:
            from handoff.mcp_relay import child_processes

            self.starter = child_processes.start_daemon()
        except (OSError, ImportError) as problem:
            self._cannot_start(str(problem))
        if self.starter or self.is_alone:
            self.next_start = now + self.start_pause
            self.start_pause = min(self.start_pause * 2, START_PAUSE_MAX_SECONDS)

    def _started(self, starter: "Child", now: float) -> None:
        self.starter = None
        self.is_alone = False
        if starter.failed and not self.has_answered:
            self._cannot_start(starter.error_text)
        elif not self.peer:
            self._connect(now)

    def _cannot_start(self, why: str) -> None:
        self.is_alone = True
        self._warn_once(f"no daemon ({why}); answering without it. See: handoff doctor")

    def _start_child(self, now: float) -> None:
        try:
            from handoff.mcp_relay import child_processes

            child, stream = child_processes.start_offline_answerer(self.client)
        except (OSError, ImportError) as problem:
            why = f"nothing can be started ({problem}); it may have to be installed again"
            self._give_up(self.calls[0], why, now)
        else:
            self.peer = Answerer(stream, b"", child)

    def _warn_once(self, text: str) -> None:
        if text not in self.warned:
            self.warned.add(text)
            _warn(text)


def _is_open(handle: int) -> bool:
    try:
        posix.fstat(handle)
    except OSError:
        return False
    return True


def _warn(text: str) -> None:
    try:
        posix.write(2, f"handoff mcp: {text}\n".encode("utf-8", "replace"))
    except OSError:
        return


def _too_long(size: int) -> str:
    return f"A request may have {wire.REQUEST_MAX_BYTES} bytes; this one has {size} or more."
