import argparse
import json
import os
import shutil
from typing import Any

from handoff import __version__, fast, local, paths, service
from handoff.cli import add_json
from handoff.client import Client
from handoff.errors import EXIT_FAILED, EXIT_NOT_FRESH, EXIT_NOT_RUNNING, HandoffError

EXAMPLE = "handoff doctor --json"
# A transcript that grew this long ago and is still unread is not fresh.
FRESH_SECONDS = 10.0


def arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(given: argparse.Namespace) -> int:
    findings: list[dict[str, str]] = []
    code = _check_daemon(findings)
    _check_surroundings(findings)
    if not code and any(finding["level"] == "bad" for finding in findings):
        code = EXIT_FAILED
    if given.json:
        print(json.dumps({"findings": findings, "exit": code}, indent=2))
        return code
    for finding in findings:
        mark = {"ok": "ok  ", "note": "note", "bad": "BAD "}[finding["level"]]
        print(f"{mark} {finding['text']}")
        if finding.get("remedy"):
            print(f"       -> {finding['remedy']}")
    return code


def _add(findings: list[dict[str, str]], level: str, text: str, remedy: str = "") -> None:
    findings.append({"level": level, "text": text, "remedy": remedy})


def _check_daemon(findings: list[dict[str, str]]) -> int:
    try:
        result = Client().call("status")
    except HandoffError as problem:
        _add(findings, "bad", problem.title, problem.hint)
        return problem.exit_code or EXIT_NOT_RUNNING
    data = result["data"]
    _add(findings, "ok", f"daemon {data['version']} answers at {data['socket']}")
    if data["version"] != __version__:
        _add(findings, "note", f"this client is {__version__}", "Run: handoff restart")
    code = _check_freshness(findings, data)
    for warning in result["warnings"]:
        _add(findings, "bad", warning["text"], f"docs/troubleshooting.md#{warning['anchor']}")
        code = code or EXIT_FAILED
    return code


def _check_freshness(findings: list[dict[str, str]], data: dict[str, Any]) -> int:
    stale = [item for item in data["lag"] if item["seconds"] > FRESH_SECONDS]
    for root in data["roots"]:
        if not root["exists"]:
            _add(findings, "note", f"{root['path']} is not there yet", "Start Claude Code once.")
    if data["paused"]:
        paused = ", ".join("everything" if item == "*" else item for item in data["paused"])
        _add(findings, "note", f"paused: {paused}", "Run: handoff unpause")
    if not data["first_scan_done"] or stale:
        behind = sum(item["bytes"] for item in stale)
        text = f"not fresh: transcripts behind: {len(stale)}, by {behind} bytes"
        _add(findings, "bad", text, "Wait a moment; if it stays, see: handoff logs")
        return EXIT_NOT_FRESH
    _add(findings, "ok", f"{data['transcripts']} transcripts, all read")
    return 0


def _check_surroundings(findings: list[dict[str, str]]) -> None:
    if shutil.which("git") is None:
        _add(findings, "note", "git is not on PATH", "Install it to see branches and files.")
    problem = local.daemon_code().config_problem()
    config = paths.config_file()
    if problem:
        _add(findings, "bad", "the configuration is broken", problem)
    else:
        known = f"config {config}" if os.path.exists(config) else "default configuration"
        _add(findings, "ok", known)
        _check_handoffs(findings)
    _check_flow(findings)
    if service.has_systemd_unit():
        _add(findings, "ok", f"service unit {service.UNIT} is installed")


def _check_handoffs(findings: list[dict[str, str]]) -> None:
    """Say what is wrong with handoff directories, and with the programs that are told."""
    try:
        findings += local.daemon_code().contract_findings()
        findings += local.daemon_code().link_findings(fast.working_directory() or "/")
    except HandoffError as problem:
        _add(findings, "note", problem.title, problem.hint)


def _check_flow(findings: list[dict[str, str]]) -> None:
    """Say when two programs are called `flow`, and which one wins."""
    ours: list[str] = []
    others: list[str] = []
    for directory in dict.fromkeys(os.environ.get("PATH", "").split(":")):
        path = f"{directory}/flow"
        if directory and os.access(path, os.X_OK) and os.path.isfile(path):
            is_ours = os.path.basename(os.path.realpath(path)) == "handoff"
            (ours if is_ours else others).append(path)
    if not ours or not others:
        return
    order = os.environ.get("PATH", "").split(":")
    first = min((*ours, *others), key=lambda path: order.index(os.path.dirname(path)))
    if first in ours:
        text = f"our `flow` ({first}) shadows another program: {', '.join(others)}"
        _add(findings, "note", text, f"If you need the other one, remove {first}; use `handoff`.")
    else:
        text = f"another program named `flow` ({first}) shadows ours ({ours[0]})"
        _add(findings, "note", text, "Use `handoff save` and `handoff inject` instead.")
