"""status: progress, not only life."""

import os
from dataclasses import asdict
from heapq import nsmallest
from typing import Any

from handoff import __version__, paths
from handoffd import clock
from handoffd.api.method import Method, Params, Reply, Send
from handoffd.api.text import Style, age, count, shorten_path, size, table
from handoffd.parts import Parts

_LISTED = 10
# What of a transcript is not taken in, and why.
_SKIPPED = {
    "damaged_lines": ("line", "that cannot be read"),
    "oversized_lines": ("line", "that is too long"),
    "repeated_records": ("record", "that stood there before (nothing is lost)"),
    "silenced": ("record", "from a pause"),
    "transcripts": ("transcript", "that cannot be read"),
}


async def handle(parts: Parts, _params: Params, _send: Send) -> Reply:
    await parts.recovered()
    intake, lookout = parts.intake, parts.lookout
    waiting, waiting_bytes = intake.backlog
    now = clock.wall()
    counters = intake.counters
    data = {
        "pid": os.getpid(),
        "version": __version__,
        "uptime_seconds": round(now - parts.started_at, 1),
        "socket": parts.socket_path,
        "config": parts.config_path,
        "log": parts.log_path,
        "roots": lookout.describe_roots(),
        "first_scan_done": lookout.first_scan_done,
        "transcripts": len(intake.entries),
        "sessions": parts.state.count_sessions(),
        "waiting_transcripts": waiting,
        "waiting_bytes": waiting_bytes,
        "lag": _lag(parts, now),
        "records": counters.records,
        "last_record_at": clock.iso(counters.last_record_at) if counters.last_record_at else None,
        "skipped": {
            "damaged_lines": counters.damaged,
            "oversized_lines": counters.oversized,
            "repeated_records": counters.repeated,
            "silenced": counters.silenced,
            "transcripts": intake.quarantined,
        },
        "redacted": counters.redacted + parts.scribe.redacted,
        "replaced": counters.replaced,
        "writes": parts.scribe.writes,
        "handoffs": parts.archivist.writes,
        "track_records": parts.recorder.records,
        "letters": _letters(parts),
        "threads": asdict(parts.core.threads.counts()),
        "idle": _idle(parts, now),
        "watched": lookout.observer.watched,
        "rescans": lookout.rescans,
        "rescan_seconds": round(lookout.rescan_seconds, 1),
        "overflows": lookout.overflows,
        "refused_peers": parts.refused_peers,
        "http": parts.door.url or None,
        "hooks": _hooks(parts, now),
        "paused": paused(parts),
        "active_projects": _active(parts, now),
    }
    return Reply(data, every_warning=True)


def paused(parts: Parts) -> list[str]:
    """Return what is paused: `*` for everything, else the projects' roots."""
    return [
        scope if scope == "*" else parts.core.project_root(scope) or scope
        for scope in parts.gate.paused_scopes()
    ]


def _lag(parts: Parts, now: float) -> list[dict[str, Any]]:
    behind = [entry for entry in parts.intake.entries.values() if entry.lag_bytes]
    behind.sort(key=lambda entry: entry.mtime_ns, reverse=True)
    return [
        {
            "transcript": entry.cursor.path,
            "bytes": entry.lag_bytes,
            "seconds": round(max(now - entry.mtime_ns / 1e9, 0.0), 1),
        }
        for entry in behind[:_LISTED]
    ]


def _active(parts: Parts, now: float) -> list[dict[str, Any]]:
    cards = sorted(parts.board.cards.values(), key=lambda card: card.touched, reverse=True)
    return [
        {
            "project": card.project.root.path,
            "changed_seconds": round(now - card.touched, 1),
            "not_written": parts.board.refusal_to_write(card) or None,
        }
        for card in cards[:_LISTED]
        if card.touched
    ]


def _letters(parts: Parts) -> dict[str, Any]:
    """Return how many notes and mails wait, and which were given up."""
    dead = parts.core.outbox.dead()
    return {
        "waiting": parts.core.outbox.waiting(),
        "given_up": [
            {"kind": letter.kind, "to": letter.target, "problem": letter.problem}
            for letter in dead[:_LISTED]
        ],
    }


def _hooks(parts: Parts, now: float) -> dict[str, Any]:
    """Return when each kind of hook was last heard, and from which version of the plugin."""
    return {
        event: {
            "at": clock.iso(at),
            "seconds": round(max(now - at, 0.0), 1),
            "plugin": plugin or None,
        }
        for event, (at, plugin) in parts.state.hooks().items()
    }


def _idle(parts: Parts, now: float) -> list[dict[str, Any]]:
    """Return when each session that is not idle yet will be, the first ones."""
    found = []
    for session_id, known in parts.archivist.watched.items():
        limit = parts.herald.idle_seconds(known.project_id)
        if limit and not known.idle and session_id not in parts.board.ended:
            left = max(limit - known.silent_seconds, 0.0)
            found.append((left, session_id, known.project_id))
    return [
        {
            "session_id": session_id,
            "project": parts.core.project_root(project_id) or "",
            "idle_at": clock.iso(now + left),
            "in_seconds": round(left),
        }
        for left, session_id, project_id in nsmallest(_LISTED, found)
    ]


def render(data: dict[str, Any], style: Style) -> str:
    home = paths.home()
    waiting = data["waiting_transcripts"]
    progress = f"{count(data['transcripts'], 'transcript')}, {count(data['sessions'], 'session')}"
    if waiting:
        progress += f", {waiting} to read ({size(data['waiting_bytes'])})"
    else:
        progress += ", all read" if data["first_scan_done"] else ", looking"
    rows = [
        ("daemon", _daemon(data)),
        ("progress", progress),
        ("last record", data["last_record_at"] or "none in this run"),
        ("watching", f"{data['watched']} directories; rescan every {data['rescan_seconds']:g} s"),
        ("written", _written(data)),
        ("skipped", _skipped(data)),
        ("redacted", count(data["redacted"], "secret")),
    ]  # fmt: skip
    if data["http"]:
        rows.append(("HTTP", f"on {data['http']}"))
    if data["threads"]["active"]:
        rows.append(("threads", _threads(data["threads"])))
    if data["letters"]["waiting"]:
        rows.append(("to be sent", count(data["letters"]["waiting"], "letter")))
    rows += [
        ("given up", f"{letter['kind']} to {letter['to']}: {letter['problem']}")
        for letter in data["letters"]["given_up"]
    ]
    if data["paused"]:
        rows.append(("PAUSED", ", ".join("everything" if p == "*" else p for p in data["paused"])))
    lines = table(rows, style.columns)
    for item in data["lag"]:
        path = shorten_path(item["transcript"], home)
        lines += table([("behind", f"{size(item['bytes'])} of {path}")], style.columns)
    missing = [root["path"] for root in data["roots"] if not root["exists"]]
    for root in missing:
        lines += ["", f"Waiting for {shorten_path(root, home)} to appear:"]
        lines += ["  start Claude Code in a project, and its sessions will show up here."]
    if data["active_projects"]:
        lines += ["", style.bold("Active projects")]
        lines += table(
            [_project_row(item, home) for item in data["active_projects"]], style.columns
        )
        lines += table([_idle_row(item) for item in data["idle"]], style.columns)
        lines += ["", style.dim("See one with: handoff show [PROJECT]")]
    return "\n".join(lines) + "\n"


def _daemon(data: dict[str, Any]) -> str:
    life = age(data["uptime_seconds"])
    return f"running, version {data['version']}, process {data['pid']}, for {life}"


def _written(data: dict[str, Any]) -> str:
    kinds = (("writes", "checkpoint"), ("handoffs", "handoff"), ("track_records", "track record"))
    return ", ".join(count(data[key], word) for key, word in kinds)


def _threads(counts: dict[str, int]) -> str:
    unread = " and ".join(f"{counts[f'unread_by_{side}']} for {side}" for side in ("chat", "code"))
    return f"{counts['active']} active; with unread entries: {unread}"


def _skipped(data: dict[str, Any]) -> str:
    found = [
        f"{count(number, _SKIPPED[name][0])} {_SKIPPED[name][1]}"
        for name, number in data["skipped"].items()
        if number
    ]
    return ", ".join(found) or "nothing"


def _project_row(item: dict[str, Any], home: str) -> tuple[str, str, str]:
    note = f"not written: {item['not_written']}" if item["not_written"] else "written"
    return (
        f"  {age(item['changed_seconds'])} ago",
        shorten_path(item["project"], home),
        note,
    )


def _idle_row(item: dict[str, Any]) -> tuple[str, str]:
    return f"  session {item['session_id'][:8]}", f"idle in {age(item['in_seconds'])}"


METHOD = Method("status", Params, handle, render)
