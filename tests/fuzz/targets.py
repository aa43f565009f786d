"""Fuzz targets: each takes any bytes, and raises if an invariant does not hold.

A target returns a sketch of the result; an input with a new sketch is worth mutating further.
"""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Hashable
from typing import Any

import slow
from pydantic import ValidationError

from handoff.common import json_edit, wire
from handoff.common.errors import HandoffError
from handoff.common.plain_text import plain, plain_json
from handoff.mcp_relay.answerer import Lines, is_request
from handoff.setup import toml_edit
from handoffd.agents.claude_code.record_text import words
from handoffd.agents.claude_code.records import parse_line
from handoffd.api import mcp, mcp_initialize, registry, server
from handoffd.api.caller import Caller
from handoffd.api.method import explain
from handoffd.api.replay import document
from handoffd.checkpoint import checkpoint_format
from handoffd.contract import contract_format
from handoffd.contract.composition import Surroundings, account
from handoffd.session.fold import fold
from handoffd.session.state import SessionState
from handoffd.session.storage import dump, load
from handoffd.session.text import redact_values
from handoffd.store.core import CoreStore
from handoffd.threads.service import ThreadService
from handoffd.tracks import front_matter, index, message, metadata, parallel_workers, plan, settings
from handoffd.tracks import record as track
from hostile_channels import CALLING, CHANNELS
from hostile_text import assert_framed, unseen

# The secret that the mutator plants: no output that passes redaction may hold it.
SECRET = "ghp_" + "fuzzedT0kenOf4Kind9thatNobodyHas2use"


# Stuck to other letters the secret is an ordinary word, which redaction cannot recognise.
_APART = re.compile(rf'(?:^|(?<=[\s"])){SECRET}(?=[\s"]|$)'.encode())


def _leaks(text: str, data: bytes) -> bool:
    """Return True if the text holds the secret and the input has it only as a separate word."""
    return SECRET in text and data.count(SECRET.encode()) == len(_APART.findall(data))


def record(data: bytes) -> Hashable:
    """Transcript lines become records, events, a state, a checkpoint and a handoff."""
    state = SessionState("s")
    seen: set[str] = set()
    offset, planted = 0, False
    for line in data.split(b"\n"):
        for found in parse_line(offset, line).records:
            words(found)
            # A record's id and time are stored unmasked, because lookups need them.
            planted |= SECRET in f"{found.uuid} {found.timestamp}"
            seen |= {found.type[:12]} if fold(state, found, "s") else set()
        offset += len(line) + 1
    planted |= SECRET in state.cwd
    kept = dump(state)
    assert kept == dump(load(kept)), "a stored state is read as another one"
    shown = document(state)
    left = contract_format.render(account(state, state.cwd, Surroundings("2026-03-01", ended=True)))
    for text in (kept, json.dumps(shown), left):
        assert planted or not _leaks(text, data), "the secret came through"
    return frozenset(seen), frozenset(key for key, value in shown.items() if value)


def yaml(data: bytes) -> Hashable:
    """A person's handoff.yaml is read or refused with a reason; a read file is written again."""
    text = data.decode("utf-8", "replace")
    try:
        found = checkpoint_format.parse(text)
    except checkpoint_format.CheckpointError as problem:
        return str(problem)[:24] or _fail("no reason")
    if found is None:
        return None
    assert not _leaks(json.dumps(redact_values(found)), data), "the secret came through"
    assert found == checkpoint_format.parse(checkpoint_format.render(found)), (
        "written, it is another one"
    )
    with contextlib.suppress(checkpoint_format.CheckpointError):
        again = checkpoint_format.render({**found, "now": "Something else"}, text)
        assert {**found, "now": "Something else"} == checkpoint_format.parse(again), (
            "comments changed it"
        )
    with contextlib.suppress(HandoffError):
        checkpoint_format.validate(found)
    return frozenset(type(value).__name__ for value in found.values()), "#" in text


OURS = contract_format.Contract(
    "2026-03-01", "s", "p", "/c", sections={"Done": ["- One"], "Next": ["- Two"]}
)


def handoff(data: bytes) -> Hashable:
    """Any markdown is a contract; our lines and a person's merge to the same result twice."""
    text = data.decode("utf-8", "replace")
    found = contract_format.parse(text)
    once = contract_format.render(found)
    assert contract_format.parse(once).escalations == found.escalations, "a call was lost"
    twice = contract_format.render(contract_format.parse(once))
    assert twice == contract_format.render(contract_format.parse(twice)), (
        "it changes with every writing"
    )
    assert () == contract_format.escalation_reasons(contract_format.without_escalations(text)), (
        "a call is left"
    )
    given = contract_format.foreign_lines(found, OURS)
    whole = contract_format.complete(OURS, given)
    assert contract_format.complete(
        OURS,
        contract_format.foreign_lines(contract_format.parse(contract_format.render(whole)), OURS),
    )
    said = "\n".join(contract_format.persons_words(text)[0])
    assert not _leaks(said, data), "the secret came through"
    assert isinstance(found.gist, str)
    return len(found.sections), len(found.others), bool(found.escalations), bool(found.date)


def tracks(data: bytes) -> Hashable:
    """Files in conductor/ are read or refused with a reason, and edited without loss."""
    text = data.decode("utf-8", "surrogateescape")
    seen: list[Hashable] = []
    found = track.parse(text, "auth_20260301/2026-03-01_10-00-00-000_auth_manual.md")
    seen.append((found.warning, len(found.sections), len(found.others)))
    track.next_steps(found), track.files_named(found), track.summary(found)
    with contextlib.suppress(HandoffError):
        seen.append(len(metadata.parse(text).data))
        entry = metadata.HandoffEntry("2026-03-01T10:00:00Z", "manual", None, None, 1, 2, "x.md")
        changed, section = metadata.with_entry(text, entry, "active", 10)
        assert section == metadata.section_for(metadata.parse(changed), "x.md")
        others = {k: v for k, v in metadata.parse(text).data.items() if k != metadata.KEY}
        after = {k: v for k, v in metadata.parse(changed).data.items() if k != metadata.KEY}
        assert repr(others) == repr(after), "another's key was changed"
    with contextlib.suppress(front_matter.YamlError):
        front_matter.read(text)
    seen.append(plan.read_plan(text).progress.source)
    seen.append(settings.read_settings(text).problem[:20])
    seen.append(len(parallel_workers.read_state(text, 0.0, 1e9)))
    row = index.Row("2026-03-01T10:00:00Z", "manual", "", "s", "a.md")
    table, _ = index.with_rows(text, "auth", [row], "2026-03-01T10:00:00Z")
    assert "a.md" in {file.rsplit("/", 1)[-1] for file in index.files_of(table)}, "no row"
    assert table == index.with_rows(table, "auth", [row], "x")[0], "a row came twice"
    seen.append(message.read("[HANDOFF:manual] auth", text, "2026-03-01T10:00:00Z") is None)
    return repr(seen)


# In memory, where the system has such a place: durability is not tested here.
_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_directory = tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory)
_core = CoreStore(f"{_directory.name}/core.db")
_core._db.execute("PRAGMA synchronous = OFF")
_threads = ThreadService(_core.threads, _core.scrub)
_thread_id = _threads.create("t", "c", None, "chat")["handoff"]["id"]


def frame(data: bytes) -> Hashable:
    """A line is a request or an error; the daemon and the relay read it alike; answers are JSON."""
    line = data.split(b"\n", 1)[0]
    lines = Lines(64)
    fed = [part for start in range(0, len(data), 7) for part in lines.feed(data[start : start + 7])]
    parts = data.split(b"\n")[:-1]
    assert [part if len(part) <= 64 else None for part in parts] == fed, "lines were lost"
    try:
        request = wire.decode_strictly(line)
    except (ValueError, RecursionError):
        return "refused"
    assert repr(request) == repr(json.loads(line)), "the relay reads it otherwise"
    with contextlib.suppress(RecursionError):
        if "inf" not in (shown := wire.encode(request)) and "nan" not in shown:
            assert repr(json.loads(shown)) == repr(request), "written, it is another one"
    return _answered(request) if is_request(request) else type(request).__name__


def _answered(request: dict[str, Any]) -> Hashable:
    name = request["method"]
    if name in registry.NAMES:
        return _validated(registry.method(name), request.get("params"))
    given = _with_thread(request) if name == "tools/call" else request
    reply = mcp.answer(given, Caller(), _threads, lambda _used: None)
    sent = server.encode(reply)
    found = json.loads(sent, parse_constant=_refuse)
    assert sent.count(b"\n") == 1, "an answer is a line"
    assert ("result" in found) != ("error" in found), "an answer is one of both"
    assert "handoffd failed" not in sent.decode(), "an internal error"
    return name if name in mcp_initialize.METHODS else "?", str(found.get("error", found))[:60]


def _with_thread(request: dict[str, Any]) -> dict[str, Any]:
    """Replace a placeholder id by the id of an existing thread."""
    text = json.dumps(request).replace("hof_0000000000000000000000", _thread_id)
    return json.loads(text)


def _validated(method: Any, given: Any) -> Hashable:
    if not isinstance(given, dict):
        return method.name, "no object"
    try:
        method.params.model_validate(given)
    except ValidationError as problem:
        return method.name, problem.errors()[0]["type"], len(explain(method.name, problem))
    return method.name, "valid"


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


def _fail(why: str) -> Hashable:
    raise AssertionError(why)


def editors(data: bytes) -> Hashable:
    """Setup's editors of JSON and TOML change the requested value and nothing else."""
    text = data.decode("utf-8", "replace")
    return _edit_json(text), _edit_toml(text)


def _edit_json(text: str) -> Hashable:
    try:
        old = json_edit.load(text)
    except json_edit.BrokenJsonError as problem:
        return str(problem)[:12]
    if not isinstance(old, dict):
        return type(old).__name__
    new = json_edit.put(text, ("zz", "y"), ["x"]) if isinstance(old.get("zz", {}), dict) else text
    if new is not text:
        assert ["x"] == json_edit.get(new, ("zz", "y")), "it was not put there"
        back = json_edit.take(json_edit.take(new, ("zz", "y")), ("zz",))
        rest = {key: value for key, value in old.items() if key != "zz"}
        assert repr(rest) == repr(json_edit.load(back)), "it changed something else"
    for key in old:
        taken = json_edit.load(json_edit.take(text, (key,)))
        assert taken.keys() in ({*old}, {*old} - {key}), "it took something else"
    json_edit.differences(text, new)
    return len(old), new == text


def _edit_toml(text: str) -> Hashable:
    try:
        toml_edit.load(text)
        new = toml_edit.add(text, "claude", "config_dirs", "/x")
        assert "/x" in toml_edit.load(new)["claude"]["config_dirs"]
        taken = toml_edit.take(new, "claude", "config_dirs", "/x")
        assert "/x" not in toml_edit.load(taken).get("claude", {}).get("config_dirs", [])
        toml_edit.put(text, "checkpoint", "write", "none")
    except HandoffError as problem:
        return str(problem)[:16]
    return True


def told(data: bytes) -> Hashable:
    """Text from others reaches a session harmless, in one frame; the first byte is the channel."""
    name = list(CHANNELS)[data[0] % len(CHANNELS)] if data else "words"
    text = data[1:].decode("utf-8", "replace")
    assert_framed(CHANNELS[name](text), calls=CALLING.get(name, 0))
    shown = plain_json(text)
    assert text == json.loads(shown), "JSON changed it"
    assert [] == unseen(shown), "JSON shows it raw"
    return name, len(plain(text)) - len(text), plain(text).count("[")


TARGETS: dict[str, Callable[[bytes], Hashable]] = {
    target.__name__: target for target in (record, yaml, handoff, tracks, frame, editors, told)
}
TARGETS["text"] = slow.text
