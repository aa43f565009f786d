"""MCP Agent Mail, by its documented interface: letters to ourselves, and the messages of a thread.

We register in each project under our own name and mail ourselves: a recipient has to be a
registered agent, and self-mail is always permitted. Every reader of the thread finds the letter.
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
from handoffd.links.mcp_client import McpServer, McpToolError
from handoffd.runtime import clock

LIMIT_SECONDS = 3.0
SUBJECT_MAX = 200
THREAD_PREFIX = "handoff-"
_THREAD_MAX = 128
_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_IMPORTANCES = ("low", "normal", "high", "urgent")
# How many messages are requested, since the server cannot filter by thread. The second number is
# for answers that are too long.
_MESSAGE_COUNTS = (40, 8)
# A colon is column syntax in a full-text query, so that a trigger cannot be searched for. The inbox
# comes second: it has the bodies, and its messages replace those of the search.
_LISTING_TOOLS: dict[str, dict[str, Any]] = {
    "search_messages": {"query": "HANDOFF"},
    "fetch_inbox": {"include_bodies": True},
}
# Words of a server about an agent that is unknown, or registered with another token.
_UNKNOWN_AGENT = re.compile(r"(?i)regist|unknown|not.?found|no such|not exist|token|recipient")
_registering = threading.Lock()


class MailError(Exception):
    """The mail server gave no answer; the message gives the reason. `final`: do not try again."""

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
    """The address of a mail server and of our keys to it; an empty URL means no server."""

    url: str
    token_file: str = ""
    keys_directory: str = ""
    limit_seconds: float = LIMIT_SECONDS

    def send(
        self, project_root: str, thread_id: str, subject: str, body: str, importance: str
    ) -> None:
        """Mail ourselves."""
        self.send_once(project_root, thread_id, subject, body, importance, again=False)

    def send_once(  # noqa: PLR0913  the parts of a letter
        self,
        project_root: str,
        thread_id: str,
        subject: str,
        body: str,
        importance: str,
        *,
        again: bool,
    ) -> bool:
        """Mail ourselves; with `again`, not if the letter about this file has already arrived.

        A seemingly failed attempt may have succeeded: its answer was lost, or came too late.
        Return True if the letter was sent.
        """
        if not _THREAD.fullmatch(thread_id):
            raise MailError(f"{thread_id[:_THREAD_MAX]!r} is no name for a thread", final=True)
        letter = {
            "subject": " ".join(_sendable(subject).split())[:SUBJECT_MAX],
            "body_md": _sendable(body),
            "importance": importance if importance in _IMPORTANCES else "normal",
            "thread_id": thread_id,
        }
        with self._open_session(project_root) as session:
            if again and _has_arrived(letter["body_md"], session.messages(thread_id.__eq__)):
                return False
            session.send(letter)
        return True

    def thread(self, project_root: str, thread_id: str, limit: int = 10) -> list[MailMessage]:
        """Return the messages of a thread, the newest first; messages to us have their bodies."""
        with self._open_session(project_root) as session:
            return session.messages(thread_id.__eq__)[:limit]

    def handoffs(self, project_root: str, limit: int = 20) -> list[MailMessage]:
        """Return the messages of all handoff threads, the newest first."""
        with self._open_session(project_root) as session:
            return session.messages(lambda thread: thread.startswith(THREAD_PREFIX))[:limit]

    @contextlib.contextmanager
    def _open_session(self, project_root: str) -> "Iterator[_MailSession]":
        """Open a session within the time limit; every failure in it raises a MailError."""
        if not self.url:
            raise MailError("no Agent Mail is configured", final=True)
        try:
            limit = Limit(self.limit_seconds)
            token = read_token(self.token_file) if self.token_file else ""
            keys = Keys(self.keys_directory, self.url, project_root)
            yield _MailSession(McpServer(self.url, token, limit), keys, project_root)
        except PostError as problem:
            raise MailError(str(problem), final=problem.final) from None
        except TimeoutError:
            seconds = f"{self.limit_seconds:g} s"
            raise MailError(f"the server took longer than {seconds}") from None


def thread_id(track_id: str) -> str:
    """Return the thread of a track; characters that a name may not contain become `-`."""
    fitting = re.sub(r"[^A-Za-z0-9._-]", "-", track_id, flags=re.ASCII) or "general"
    return f"{THREAD_PREFIX}{fitting}"[:_THREAD_MAX]


class _MailSession:
    """One call: the server, the project, and our registration in it."""

    def __init__(self, server: McpServer, keys: Keys, project_root: str) -> None:
        if not os.path.isabs(project_root) or _sendable(project_root) != project_root:
            raise PostError("a project is named by an absolute path in UTF-8", final=True)
        self._server = server
        self._keys = keys
        self._root = project_root
        # Set if this call has registered us, so that it does not register twice.
        self._me: Registration | None = None

    def send(self, letter: Mapping[str, Any]) -> None:
        def arguments(me: Registration) -> dict[str, Any]:
            key = {"sender_token": me.token} if me.token else {}
            return {**letter, "sender_name": me.name, "to": [me.name], **key}

        try:
            self._ask("send_message", arguments)
        except McpToolError as problem:
            if "contact" not in str(problem).lower() or not self._become_contact():
                raise
            self._ask("send_message", arguments)

    def messages(self, wanted: Callable[[str], bool]) -> list[MailMessage]:
        """Return the messages of the wanted threads, from a search and from our inbox."""
        offered = self._server.tools()
        problem = PostError("the server offers no tool that lists messages", final=True)
        found: dict[str, MailMessage] | None = None
        for tool in filter(offered.__contains__, _LISTING_TOOLS):
            try:
                read = _messages(self._read(tool, _LISTING_TOOLS[tool]))
                found = {**(found or {}), **{message.id: message for message in read}}
            except (McpToolError, TooLongError) as this:
                problem = this
        if found is None:
            raise problem
        mine = [message for message in found.values() if wanted(message.thread_id)]
        return sorted(mine, key=lambda one: (one.created, len(one.id), one.id), reverse=True)

    def _read(self, tool: str, query: Mapping[str, Any]) -> Any:
        problem = TooLongError("")
        for asked in _MESSAGE_COUNTS:
            try:
                return self._ask(tool, partial(self._query, tool, {**query, "limit": asked}))
            except TooLongError as this:
                problem = this
        raise problem

    def _query(self, tool: str, query: Mapping[str, Any], me: Registration) -> dict[str, Any]:
        """Add our name and token to a query, as far as the tool of this server takes them."""
        taken = self._server.tools()[tool].get("properties") or {}
        ours = {"agent_name": me.name, "registration_token": me.token}
        return {**query, **{key: ours[key] for key in ours if key in taken and ours[key]}}

    def _ask(self, tool: str, arguments: Callable[[Registration], dict[str, Any]]) -> Any:
        """Call a tool as a registered agent; register again, once, if the server forgot us."""
        me = self._me or self._keys.load() or self._register(None)
        try:
            return self._call(tool, arguments, me)
        except McpToolError as problem:
            if self._me is not None or not _UNKNOWN_AGENT.search(str(problem)):
                raise
        return self._call(tool, arguments, self._register(me))

    def _call(
        self, tool: str, arguments: Callable[[Registration], dict[str, Any]], me: Registration
    ) -> Any:
        self._server.hide(me.token)
        return self._server.call(tool, {"project_key": self._root, **arguments(me)})

    def _register(self, known: Registration | None) -> Registration:
        """Register under our old name, else a new one, else one that the server picks."""
        if not _registering.acquire(timeout=self._server.limit.remaining()):
            raise TimeoutError
        try:
            kept = self._keys.load()
            if kept is not None and kept != known:
                return kept  # another thread has registered meanwhile
            self._server.call("ensure_project", {"human_key": self._root})
            self._me = self._register_first_accepted(known)
            self._keys.save(self._me)
        finally:
            _registering.release()
        return self._me

    def _register_first_accepted(self, known: Registration | None) -> Registration:
        # A name needs a separator, and must be unique on a server that many users share.
        fresh = Registration(f"handoffd-{secrets.token_hex(3)}")
        for candidate in filter(None, (known, fresh)):
            with contextlib.suppress(McpToolError):
                return self._register_as(candidate)
        return self._register_as(Registration(""))

    def _register_as(self, candidate: Registration) -> Registration:
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
        fields = answer if isinstance(answer, dict) else {}
        name, token = fields.get("name") or candidate.name, fields.get("registration_token") or ""
        if not isinstance(name, str) or not name or not isinstance(token, str):
            raise PostError("the server did not say who we are")
        self._server.hide(token)
        return Registration(name, token)

    def _become_contact(self) -> bool:
        """Become our own contact, if the server requires that before a first message."""
        offered = self._server.tools()
        steps = ("request_contact", "respond_contact")
        if not all(step in offered for step in steps):
            return False
        for step in steps:
            self._ask(step, partial(_contact_arguments, offered[step]))
        return True


def _contact_arguments(form: Mapping[str, Any], me: Registration) -> dict[str, Any]:
    """Return the arguments of a contact tool: every agent that it asks for is ourselves."""
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


def _has_arrived(body: str, messages: list[MailMessage]) -> bool:
    """Return True if a letter is among the messages: its last line names a unique file."""
    mark = _last_line(body)
    return bool(mark) and any(mark == _last_line(one.body) for one in messages)


def _last_line(body: str) -> str:
    return next((line.strip() for line in reversed(body.split("\n")) if line.strip()), "")


def _sendable(text: str) -> str:
    """Replace characters that UTF-8 cannot encode: half surrogate pairs from a transcript."""
    return text.encode("utf-8", "replace").decode()
