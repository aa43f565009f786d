"""The operations on a thread and their rules; every interface calls this service."""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from handoff.common.errors import HandoffError
from handoffd.errors import NoThreadError, StoreError, ThreadError
from handoffd.redaction.redact import redact, takes_long
from handoffd.runtime import clock, log
from handoffd.store.thread_store import (
    Kept,
    NewEntry,
    NewMark,
    Thread,
    ThreadEntry,
    ThreadStore,
    Whole,
    size,
)
from handoffd.threads import thread_text as form
from handoffd.threads.closed_copy import keep_copy

_ID_LENGTH = 21
# All other clients wait meanwhile, and a text can be crafted to take minutes.
_SCAN_SECONDS = 0.1
_PIECE, _OVERLAP = 8 << 10, 512
_SHOWN_MAX = 80
# Ids of our own are longer; ids of another program with threads in this database may be short.
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_OURS = re.compile(rf"(?<![\w-])hof_[A-Za-z0-9_-]{{{_ID_LENGTH}}}(?![\w-])")
_PASTED_MAX = 1000
# Quotation marks, the end of a sentence, markdown, and invisible characters.
_AROUND = "`'\"<>.,;:!?()[]{}* \u2018\u2019\u201c\u201d\u200b\u2060\ufeff"

Result = dict[str, Any]


def new_id() -> str:
    return "hof_" + secrets.token_urlsafe(_ID_LENGTH)[:_ID_LENGTH]


@dataclass(frozen=True, slots=True)
class ThreadService:
    """The five operations on threads; each returns a plain result.

    `wipe` leaves no byte of the deleted entries. `archive` is the directory for copies of closed
    threads; if it is empty, no copy is kept. `archive_unknown` is the reason why the user's choice
    about copies is unknown. `changed` is called for every thread that changes. With `peek`, reading
    a thread does not count as shown to that side.
    """

    store: ThreadStore
    wipe: Callable[[], None]
    archive: str = ""
    archive_unknown: str = ""
    refuse_secrets: bool = False
    changed: Callable[[Thread, ThreadEntry | None], None] | None = None
    peek: bool = False

    def create(
        self, title: str, content: str, project: str | None, client: str, once: str = ""
    ) -> Result:
        title = _checked_line(title, "title")
        if not title:
            raise ThreadError("A handoff needs a title.")
        tag = _checked_line(project or "", "project tag") or None
        new, found = self._new_entry(content, "context", client, once)
        warnings = self._warnings(found | _secrets_in(f"{title}\n{tag or ''}"))
        thread, entry = self.store.create(new_id(), title, tag, new)
        self._announce(thread, entry)
        return {"handoff": _as_dict(thread), "entries": [_as_dict(entry)], **warnings}

    def get(self, thread_id: str, client: str) -> Result:
        thread, entries = self.store.read(pasted(thread_id))
        seen, rows = thread.last_seen(client), [_as_dict(entry) for entry in entries]
        new = [row for row in rows if row["seq"] > seen and row["from_client"] != client]
        if new and not self.peek:
            self._note_shown(thread.id, client, new[-1]["seq"])
        return {
            "handoff": _as_dict(thread),
            "entries": rows,
            "new_entries": new,
            "new_count": len(new),
        }

    def add(self, thread_id: str, kind: str, content: str, client: str, once: str = "") -> Result:
        new, found = self._new_entry(content, kind, client, once)
        warnings = self._warnings(found)
        thread, entry = self.store.add(pasted(thread_id), new, form.THREAD_MAX_BYTES)
        self._announce(thread, entry)
        return {"handoff": _as_dict(thread), "entry": _as_dict(entry), **warnings}

    def mark(self, thread_id: str, client: str, up_to: int | None = None, once: str = "") -> Result:
        thread = self.store.mark(pasted(thread_id), NewMark(client, up_to, once), clock.iso())
        self._announce(thread)
        return {"marked_read": True, "client": client, "last_seen": thread.last_seen(client)}

    def close(self, thread_id: str) -> Result:
        """Wipe the entries for good, and keep a copy first if `archive` is set."""
        if self.archive_unknown:
            raise ThreadError("It stays open, as a copy may be wanted.", self.archive_unknown)
        copies: list[str] = []

        def before(whole: Whole) -> Kept:
            if self.archive:
                copies.append(self._keep_copy(*whole))
            title, project = whole[0].title, whole[0].project
            return redact(title)[0], redact(project)[0] if project else None

        thread = self.store.close(pasted(thread_id), clock.iso(), before)
        result: Result = {"closed": True, "id": thread.id, "title": thread.title}
        if copies:
            result["archive"] = copies[0]
        try:
            self.wipe()
        except StoreError as problem:
            result["warnings"] = [str(problem)]
        self._announce(thread)
        return result

    def _note_shown(self, thread_id: str, client: str, seq: int) -> None:
        try:
            self.store.note_shown(thread_id, client, seq)
        except Exception as problem:  # noqa: BLE001  the thread itself could be read
            log.get().warning("shown_not_noted", error=log.where(problem))

    def _keep_copy(self, thread: Thread, entries: list[ThreadEntry]) -> str:
        text = form.as_markdown(_as_dict(thread), map(_as_dict, entries))
        if takes_long(text):
            raise _not_closed(thread, "to look through it for secrets would take too long")
        try:
            return keep_copy(self.archive, thread.id, redact(text)[0])
        except (OSError, HandoffError) as problem:
            why = problem.title if isinstance(problem, HandoffError) else problem.strerror
            raise _not_closed(thread, why) from None

    def _new_entry(
        self, content: str, kind: str, client: str, once: str
    ) -> tuple[NewEntry, set[str]]:
        content = form.tidy(content)
        if not content.strip():
            raise ThreadError("There is no content.")
        if size(content) > form.CONTENT_MAX_BYTES:
            raise ThreadError(
                f"An entry may have {form.CONTENT_MAX_BYTES >> 10} KiB; this one has "
                f"{-(-size(content) // 1024)} KiB.",
                "Say it in several entries, or name a file that holds it.",
            )
        return NewEntry(client, kind, content, clock.iso(), once), _secrets_in(content)

    def _warnings(self, kinds: set[str]) -> Result:
        if not kinds:
            return {}
        text = f"This may hold a secret ({', '.join(sorted(kinds))})."
        if self.refuse_secrets:
            raise ThreadError(f"{text} It was not kept.", "Take it out, and say it again.")
        return {"warnings": [f"{text} It is kept as it is until the handoff is closed."]}

    def _announce(self, thread: Thread, entry: ThreadEntry | None = None) -> None:
        if self.changed is not None:
            try:
                self.changed(thread, entry)
            except Exception as problem:  # noqa: BLE001  the request itself is done
                log.get().warning("change_not_told", error=log.where(problem))


def _not_closed(thread: Thread, why: object) -> ThreadError:
    return ThreadError(
        f"Handoff '{thread.id}' was not closed: no copy could be kept ({why}).",
        "Mend that, or set archive_on_close = false.",
    )


def _secrets_in(text: str) -> set[str]:
    """Return the kinds of secrets in a text, as far as the time limit allows to scan it."""
    limit = clock.thread_cpu() + _SCAN_SECONDS
    found: set[str] = set()
    for start in range(0, len(text), _PIECE):
        if start and clock.thread_cpu() > limit:
            return found | {"not looked through to its end"}
        found |= {*redact(text[max(start - _OVERLAP, 0) : start + _PIECE])[1]}
    return found


def _as_dict(record: Thread | ThreadEntry) -> Result:
    """Return the fields of a row; asdict would copy each value and take five times as long."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _checked_line(text: str, what: str) -> str:
    text = form.tidy_line(text)
    if len(text) > form.TITLE_MAX:
        raise ThreadError(
            f"A {what} may have {form.TITLE_MAX} characters; this one has {len(text)}.",
            "Put the rest into the content.",
        )
    return text


def pasted(thread_id: str) -> str:
    """Return an id without the characters that often come along when it is pasted."""
    found = form.tidy_line(thread_id[:_PASTED_MAX]).strip(_AROUND)
    if ours := _OURS.search(found):
        return ours[0]
    if not _ID.fullmatch(found):
        raise NoThreadError(f"Handoff '{found[:_SHOWN_MAX]}' not found.")
    return found
