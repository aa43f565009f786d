"""MCP Agent Mail, by its documented interface: letters to ourselves, and what a thread holds.

We register in each project under a name of ours and mail ourselves: a recipient has to be a
registered agent, and self-mail is always permitted. Whoever looks into the thread finds it there.
"""

import contextlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from handoffd.links.http_post import Limit, PostError, TooLongError
from handoffd.links.mail_keys import Keys, Registration, read_token
from handoffd.links.mcp_client import McpServer, ToolError
from handoffd.runtime import clock

LIMIT_SECONDS = 3.0
SUBJECT_MAX = 200
THREAD_PREFIX = "handoff-"
_THREAD_MAX = 128
_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_IMPORTANCES = ("low", "normal", "high", "urgent")
# How many messages are asked for, since the server cannot filter by thread; fewer if that is long.
_ASKED = (40, 8)
# A colon is column syntax in a full-text query, so that a trigger cannot be searched for. The inbox
# comes second: it has the bodies, and overrules what a search says of the same message.
_READING: dict[str, dict[str, Any]] = {
    "search_messages": {"query": "HANDOFF"},
    "fetch_inbox": {"include_bodies": True},
}
# What a server says of an agent that it does not know, or knows by another token.
_FORGOTTEN = re.compile(r"(?i)regist|unknown|not.?found|no such|not exist|token|recipient")
_registering = threading.Lock()


class MailError(Exception):
    """The mail server gave no answer; the message says why. `final`: trying again will not help."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class MailMessage(NamedTuple):
    """A message of a thread; `created` is ISO 8601 in UTC to the millisecond, or empty."""

    id: str
    thread_id: str
    subject: str
    created: str
    body: str = ""
    sender: str = ""


@dataclass(frozen=True, slots=True)
class AgentMail:
    """A mail server: where it is, and where our keys to it are. An empty URL: there is none."""

    url: str
    token_file: str = ""
    keys_directory: str = ""
    limit_seconds: float = LIMIT_SECONDS

    def send(
        self, project_root: str, thread_id: str, subject: str, body: str, importance: str
    ) -> None:
        """Mail ourselves."""
        self.send_once(project_root, thread_id, subject, body, importance, again=False)

    def send_once(  # noqa: PLR0913  a letter has these parts
        self,
        project_root: str,
        thread_id: str,
        subject: str,
        body: str,
        importance: str,
        *,
        again: bool,
    ) -> bool:
        """Mail ourselves; `again`: not if the letter about this very file has arrived already.

        An attempt that seemed to fail may have come through: its answer was lost, or too late.
        """
        if not _THREAD.fullmatch(thread_id):
            raise MailError(f"{thread_id[:_THREAD_MAX]!r} is no name for a thread", final=True)
        letter = {
            "subject": " ".join(_sendable(subject).split())[:SUBJECT_MAX],
            "body_md": _sendable(body),
            "importance": importance if importance in _IMPORTANCES else "normal",
            "thread_id": thread_id,
        }
        with self._desk(project_root) as desk:
            if again and _is_among(letter["body_md"], desk.messages(thread_id.__eq__)):
                return False
            desk.send(letter)
        return True

    def thread(self, project_root: str, thread_id: str, limit: int = 10) -> list[MailMessage]:
        """Return the messages of a thread, the newest first; those to us with their bodies."""
        with self._desk(project_root) as desk:
            return desk.messages(thread_id.__eq__)[:limit]

    def handoffs(self, project_root: str, limit: int = 20) -> list[MailMessage]:
        """Return the messages of every thread of handoffs, the newest first."""
        with self._desk(project_root) as desk:
            return desk.messages(lambda thread: thread.startswith(THREAD_PREFIX))[:limit]

    @contextlib.contextmanager
    def _desk(self, project_root: str) -> "Iterator[_Desk]":
        """Do a call within its limit; whatever goes wrong is one kind of error."""
        if not self.url:
            raise MailError("no Agent Mail is configured", final=True)
        try:
            limit = Limit(self.limit_seconds)
            token = read_token(self.token_file) if self.token_file else ""
            keys = Keys(self.keys_directory, self.url, project_root)
            yield _Desk(McpServer(self.url, token, limit), keys, project_root)
        except PostError as problem:
            raise MailError(str(problem), final=problem.final) from None
        except TimeoutError:
            seconds = f"{self.limit_seconds:g} s"
            raise MailError(f"the server took longer than {seconds}") from None


def thread_id(track_id: str) -> str:
    """Return the thread of a track; what no thread's name may hold becomes `-`."""
    fitting = re.sub(r"[^A-Za-z0-9._-]", "-", track_id, flags=re.ASCII) or "general"
    return f"{THREAD_PREFIX}{fitting}"[:_THREAD_MAX]


class _Desk:
    """One call of ours: the server, the project, and who we are in it."""

    def __init__(self, server: McpServer, keys: Keys, project_root: str) -> None:
        if not os.path.isabs(project_root) or _sendable(project_root) != project_root:
            raise PostError("a project is named by an absolute path in UTF-8", final=True)
        self._server = server
        self._keys = keys
        self._root = project_root
        # Set by registering, in this call: it is not done twice.
        self._me: Registration | None = None

    def send(self, letter: Mapping[str, Any]) -> None:
        def arguments(me: Registration) -> dict[str, Any]:
            key = {"sender_token": me.token} if me.token else {}
            return {**letter, "sender_name": me.name, "to": [me.name], **key}

        try:
            self._ask("send_message", arguments)
        except ToolError as problem:
            if "contact" not in str(problem).lower() or not self._introduce():
                raise
            self._ask("send_message", arguments)

    def messages(self, wanted: Callable[[str], bool]) -> list[MailMessage]:
        """Return the messages of the threads wanted: what a search finds, and our inbox."""
        offered = self._server.tools()
        problem = PostError("the server offers no tool that lists messages", final=True)
        found: dict[str, MailMessage] | None = None
        for tool in filter(offered.__contains__, _READING):
            try:
                read = _messages(self._read(tool, _READING[tool]))
                found = {**(found or {}), **{message.id: message for message in read}}
            except (ToolError, TooLongError) as this:
                problem = this
        if found is None:
            raise problem
        mine = [message for message in found.values() if wanted(message.thread_id)]
        return sorted(mine, key=lambda one: (one.created, len(one.id), one.id), reverse=True)

    def _read(self, tool: str, query: Mapping[str, Any]) -> Any:
        problem = TooLongError("")
        for asked in _ASKED:
            try:
                return self._ask(tool, partial(self._query, tool, {**query, "limit": asked}))
            except TooLongError as this:
                problem = this
        raise problem

    def _query(self, tool: str, query: Mapping[str, Any], me: Registration) -> dict[str, Any]:
        """Say who asks, in as far as this server wants to know."""
        taken = self._server.tools()[tool].get("properties") or {}
        ours = {"agent_name": me.name, "registration_token": me.token}
        return {**query, **{key: ours[key] for key in ours if key in taken and ours[key]}}

    def _ask(self, tool: str, arguments: Callable[[Registration], dict[str, Any]]) -> Any:
        """Call a tool as the agent that we are; who was forgotten registers again, once."""
        me = self._me or self._keys.load() or self._register(None)
        try:
            return self._call(tool, arguments, me)
        except ToolError as problem:
            if self._me is not None or not _FORGOTTEN.search(str(problem)):
                raise
        return self._call(tool, arguments, self._register(me))

    def _call(
        self, tool: str, arguments: Callable[[Registration], dict[str, Any]], me: Registration
    ) -> Any:
        self._server.hide(me.token)
        return self._server.call(tool, {"project_key": self._root, **arguments(me)})

    def _register(self, known: Registration | None) -> Registration:
        """Register under the name we had, else a new one, else whichever the server picks."""
        if not _registering.acquire(timeout=self._server.limit.left()):
            raise TimeoutError
        try:
            kept = self._keys.load()
            if kept is not None and kept != known:
                return kept  # another thread was quicker
            self._server.call("ensure_project", {"human_key": self._root})
            self._me = self._first_accepted(known)
            self._keys.save(self._me)
        finally:
            _registering.release()
        return self._me

    def _first_accepted(self, known: Registration | None) -> Registration:
        # A name wants a separator, and must not be anybody else's on a server that many share.
        fresh = Registration(f"handoffd-{secrets.token_hex(3)}")
        for candidate in filter(None, (known, fresh)):
            with contextlib.suppress(ToolError):
                return self._accepted(candidate)
        return self._accepted(Registration(""))

    def _accepted(self, candidate: Registration) -> Registration:
        self._server.hide(candidate.token)
        wanted = {"name": candidate.name, "registration_token": candidate.token}
        answer = self._server.call(
            "register_agent",
            {
                "project_key": self._root,
                "program": "handoffd",
                "model": "none",
                "task_description": "Keeps the handoffs of this project.",
                **{key: wanted[key] for key in wanted if wanted[key]},
            },
        )
        given = answer if isinstance(answer, dict) else {}
        name, token = given.get("name") or candidate.name, given.get("registration_token") or ""
        if not isinstance(name, str) or not name or not isinstance(token, str):
            raise PostError("the server did not say who we are")
        self._server.hide(token)
        return Registration(name, token)

    def _introduce(self) -> bool:
        """Become a contact of ourselves, where a server wants that before a first message."""
        offered = self._server.tools()
        steps = ("request_contact", "respond_contact")
        if not all(step in offered for step in steps):
            return False
        for step in steps:
            self._ask(step, partial(_introduction, offered[step]))
        return True


def _introduction(form: Mapping[str, Any], me: Registration) -> dict[str, Any]:
    """Fill in what a tool asks for: whichever agent it names, it is us."""
    filled: dict[str, Any] = {}
    for key in form.get("properties") or ("from_agent", "to_agent"):
        if key == "accept":
            filled[key] = True
        elif key.endswith("_token") and me.token:
            filled[key] = me.token
        elif key in ("from_agent", "to_agent") or (
            key in (form.get("required") or ()) and "agent" in key
        ):
            filled[key] = me.name
    return filled


def _messages(answer: Any) -> list[MailMessage]:
    if isinstance(answer, dict):
        lists = (answer.get(key) for key in ("messages", "results", "items", "result"))
        answer = next((one for one in lists if isinstance(one, list)), [answer])
    entries = answer if isinstance(answer, list) else []
    return [_message(entry) for entry in entries if isinstance(entry, dict) and "id" in entry]


def _message(entry: Mapping[str, Any]) -> MailMessage:
    sender = entry.get("from") or entry.get("sender_name") or entry.get("sender") or ""
    if isinstance(sender, dict):
        sender = sender.get("name") or ""
    return MailMessage(
        id=str(entry["id"]),
        thread_id=str(entry.get("thread_id") or ""),
        subject=str(entry.get("subject") or ""),
        created=_moment(entry.get("created_ts")),
        body=str(entry.get("body_md") or entry.get("body") or ""),
        sender=str(sender),
    )


def _moment(created: object) -> str:
    with contextlib.suppress(ValueError, OverflowError, OSError):
        seconds = clock.parse(created) if isinstance(created, str) else float(created or 0)  # type: ignore[arg-type]
        return clock.iso_milliseconds(seconds) if seconds > 0 else ""
    return ""


def _is_among(body: str, messages: list[MailMessage]) -> bool:
    """Tell a letter that has arrived by its last line, which names a file of its own."""
    mark = _last_line(body)
    return bool(mark) and any(mark == _last_line(one.body) for one in messages)


def _last_line(body: str) -> str:
    return next((line.strip() for line in reversed(body.split("\n")) if line.strip()), "")


def _sendable(text: str) -> str:
    """Replace what UTF-8 cannot say: half a surrogate pair from a transcript."""
    return text.encode("utf-8", "replace").decode()
