"""status: show the daemon's progress, not only that it runs."""

import os
from dataclasses import asdict
from heapq import nsmallest
from typing import Any

from handoff import __version__
from handoff.common import paths
from handoffd.api.method import Method, MethodReply, Params, Send
from handoffd.api.terminal_text import Style, age, count, shorten_path, size, table
from handoffd.context import Context
from handoffd.runtime import clock

_LISTED = 10
# The parts of transcripts that were not read, each with its reason.
_SKIPPED = {
    "damaged_lines": ("line", "that cannot be read"),
    "oversized_lines": ("line", "that is too long"),
    "repeated_records": ("record", "that stood there before (nothing is lost)"),
    "silenced": ("record", "from a pause"),
    "transcripts": ("transcript", "that cannot be read"),
}


async def handle(context: Context, _params: Params, _send: Send) -> MethodReply:
    await context.daemon.core_keeper.wait()
    transcript_reader, transcript_watcher = (
        context.daemon.transcript_reader,
        context.daemon.transcript_watcher,
    )
    waiting, waiting_bytes = transcript_reader.backlog
    now = clock.wall()
    counters = transcript_reader.counters
    data = {
        "pid": os.getpid(),
        "version": __version__,
        "uptime_seconds": round(now - context.daemon.started_at, 1),
        "socket": context.daemon.socket_path,
        "config": context.daemon.config_path,
        "log": context.daemon.log_path,
        "roots": transcript_watcher.describe_roots(),
        "first_scan_done": transcript_watcher.first_scan_done,
        "transcripts": len(transcript_reader.entries),
        "sessions": context.daemon.state.count_sessions(),
        "waiting_transcripts": waiting,
        "waiting_bytes": waiting_bytes,
        "lag": _lag(context, now),
        "records": counters.records,
        "last_record_at": clock.iso(counters.last_record_at) if counters.last_record_at else None,
        "skipped": {
            "damaged_lines": counters.damaged,
            "oversized_lines": counters.oversized,
            "repeated_records": counters.repeated,
            "silenced": counters.silenced,
            "transcripts": transcript_reader.quarantined,
        },
        "redacted": counters.redacted + context.daemon.checkpoint_writer.redacted,
        "replaced": counters.replaced,
        "writes": context.daemon.checkpoint_writer.writes,
        "handoffs": context.contract_writer.writes,
        "track_records": context.record_maker.records,
        "letters": _letters(context),
        "threads": asdict(context.core.threads.counts()),
        "idle": _idle(context, now),
        "watched": transcript_watcher.observer.watched,
        "rescans": transcript_watcher.rescans,
        "rescan_seconds": round(transcript_watcher.rescan_seconds, 1),
        "overflows": transcript_watcher.overflows,
        "refused_peers": context.daemon.refused_peers,
        "http": context.daemon.http_listener.url or None,
        "hooks": _hooks(context, now),
        "paused": paused(context),
        "active_projects": _active(context, now),
    }
    return MethodReply(data, every_warning=True)


def paused(context: Context) -> list[str]:
    """Return the paused scopes: `*` for everything, else the projects' roots."""
    return [
        scope if scope == "*" else context.core.project_root(scope) or scope
        for scope in context.policy.paused_scopes()
    ]


def _lag(context: Context, now: float) -> list[dict[str, Any]]:
    behind = [
        entry for entry in context.daemon.transcript_reader.entries.values() if entry.lag_bytes
    ]
    behind.sort(key=lambda entry: entry.mtime_ns, reverse=True)
    return [
        {
            "transcript": entry.cursor.path,
            "bytes": entry.lag_bytes,
            "seconds": round(max(now - entry.mtime_ns / 1e9, 0.0), 1),
        }
        for entry in behind[:_LISTED]
    ]


def _active(context: Context, now: float) -> list[dict[str, Any]]:
    active_projects = sorted(
        context.project_states.active_projects.values(),
        key=lambda active: active.touched,
        reverse=True,
    )
    return [
        {
            "project": active.project.root.path,
            "changed_seconds": round(now - active.touched, 1),
            "not_written": context.project_states.refusal_to_write(active) or None,
        }
        for active in active_projects[:_LISTED]
        if active.touched
    ]


def _letters(context: Context) -> dict[str, Any]:
    """Return the number of waiting notes and mails, and those that were given up."""
    dead = context.core.outbox.dead()
    return {
        "waiting": context.core.outbox.waiting(),
        "given_up": [
            {"kind": letter.kind, "to": letter.target, "problem": letter.problem}
            for letter in dead[:_LISTED]
        ],
    }


def _hooks(context: Context, now: float) -> dict[str, Any]:
    """Return the last time of each kind of hook, and the plugin's version then."""
    return {
        event: {
            "at": clock.iso(at),
            "seconds": round(max(now - at, 0.0), 1),
            "plugin": plugin or None,
        }
        for event, (at, plugin) in context.daemon.state.hooks().items()
    }


def _idle(context: Context, now: float) -> list[dict[str, Any]]:
    """Return the sessions that become idle next, with the times."""
    found = []
    for session_id, known in context.daemon.session_liveness.watched.items():
        limit = context.daemon.trigger_detector.idle_seconds(known.project_id)
        if limit and not known.idle and session_id not in context.project_states.ended:
            left = max(limit - known.silent_seconds, 0.0)
            found.append((left, session_id, known.project_id))
    return [
        {
            "session_id": session_id,
            "project": context.core.project_root(project_id) or "",
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
