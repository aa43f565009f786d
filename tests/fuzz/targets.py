"""What is fuzzed: each target takes any bytes, and raises if something that must hold does not.

It returns a sketch of what the input led to; an input with a new one is worth changing further.
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

from handoff import wire
from handoff.errors import HandoffError
from handoff.installing import json_text, toml_text
from handoff.peer import Lines, is_request
from handoff.plain_text import plain, plain_json
from handoffd.api import greeting, mcp, registry, server
from handoffd.api.caller import Caller
from handoffd.api.method import explain
from handoffd.api.threads import build
from handoffd.config import Threads as ThreadSettings
from handoffd.handoffs import checkpoint, contract
from handoffd.handoffs.account import Surroundings, account
from handoffd.handoffs.tracks import front_matter, index, letter, metadata, plan, settings, workers
from handoffd.handoffs.tracks import record as track
from handoffd.replay import document
from handoffd.session.fold import fold
from handoffd.session.state import SessionState
from handoffd.session.storage import dump, load
from handoffd.session.text import redact_values
from handoffd.store.core import CoreStore
from handoffd.transcript.records import parse_line
from handoffd.transcript.words import words
from hostile_channels import CALLING, CHANNELS
from hostile_text import assert_framed, unseen

# What the mutator plants; wherever a gate is, it must not come out.
SECRET = "ghp_" + "fuzzedT0kenOf4Kind9thatNobodyHas2use"


# Stuck to other letters it is a word like any other: then nobody can know it.
_APART = re.compile(rf'(?:^|(?<=[\s"])){SECRET}(?=[\s"]|$)'.encode())


def _told(text: str, data: bytes) -> bool:
    """Tell whether a text tells the secret, where the input has it only as a word of its own."""
    return SECRET in text and data.count(SECRET.encode()) == len(_APART.findall(data))


def record(data: bytes) -> Hashable:
    """Transcript lines become records, events, a state, a checkpoint and a handoff."""
    state = SessionState("s")
    seen: set[str] = set()
    offset, planted = 0, False
    for line in data.split(b"\n"):
        for found in parse_line(offset, line).records:
            words(found)
            # What names a record and where it was made is kept as it is: it is looked for by that.
            planted |= SECRET in f"{found.uuid} {found.timestamp}"
            seen |= {found.type[:12]} if fold(state, found, "s") else set()
        offset += len(line) + 1
    planted |= SECRET in state.cwd
    kept = dump(state)
    assert kept == dump(load(kept)), "a stored state is read as another one"
    shown = document(state)
    left = contract.render(account(state, state.cwd, Surroundings("2026-03-01", ended=True)))
    for text in (kept, json.dumps(shown), left):
        assert planted or not _told(text, data), "the secret came through"
    return frozenset(seen), frozenset(key for key, value in shown.items() if value)


def yaml(data: bytes) -> Hashable:
    """A person's handoff.yaml is read, or refused with a reason; what is read is written again."""
    text = data.decode("utf-8", "replace")
    try:
        found = checkpoint.parse(text)
    except checkpoint.CheckpointError as problem:
        return str(problem)[:24] or _fail("no reason")
    if found is None:
        return None
    assert not _told(json.dumps(redact_values(found)), data), "the secret came through"
    assert found == checkpoint.parse(checkpoint.render(found)), "written, it is another one"
    with contextlib.suppress(checkpoint.CheckpointError):
        again = checkpoint.render({**found, "now": "Something else"}, text)
        assert {**found, "now": "Something else"} == checkpoint.parse(again), "comments changed it"
    with contextlib.suppress(HandoffError):
        checkpoint.validate(found)
    return frozenset(type(value).__name__ for value in found.values()), "#" in text


OURS = contract.Contract(
    "2026-03-01", "s", "p", "/c", sections={"Done": ["- One"], "Next": ["- Two"]}
)


def handoff(data: bytes) -> Hashable:
    """Any markdown is a contract; ours and a person's are told apart and joined the same twice."""
    text = data.decode("utf-8", "replace")
    found = contract.parse(text)
    once = contract.render(found)
    assert contract.parse(once).escalations == found.escalations, "a call was lost"
    twice = contract.render(contract.parse(once))
    assert twice == contract.render(contract.parse(twice)), "it changes with every writing"
    assert () == contract.calls(contract.without_calls(text)), "a call is left"
    given = contract.theirs(found, OURS)
    whole = contract.complete(OURS, given)
    assert contract.complete(OURS, contract.theirs(contract.parse(contract.render(whole)), OURS))
    said = "\n".join(contract.persons_words(text)[0])
    assert not _told(said, data), "the secret came through"
    assert isinstance(found.gist, str)
    return len(found.sections), len(found.others), bool(found.escalations), bool(found.date)


def tracks(data: bytes) -> Hashable:
    """What lies in conductor/ is read or refused with a reason, and edited without loss."""
    text = data.decode("utf-8", "surrogateescape")
    seen: list[Hashable] = []
    found = track.parse(text, "auth_20260301/2026-03-01_10-00-00-000_auth_manual.md")
    seen.append((found.warning, len(found.sections), len(found.others)))
    track.next_steps(found), track.files_named(found), track.summary(found)
    with contextlib.suppress(HandoffError):
        seen.append(len(metadata.parse(text).data))
        entry = metadata.Entry("2026-03-01T10:00:00Z", "manual", None, None, 1, 2, "x.md")
        changed, section = metadata.with_entry(text, entry, "active", 10)
        assert section == metadata.section_for(metadata.parse(changed), "x.md")
        others = {k: v for k, v in metadata.parse(text).data.items() if k != metadata.KEY}
        after = {k: v for k, v in metadata.parse(changed).data.items() if k != metadata.KEY}
        assert repr(others) == repr(after), "another's key was changed"
    with contextlib.suppress(front_matter.YamlError):
        front_matter.read(text)
    seen.append(plan.read_plan(text).progress.source)
    seen.append(settings.read_settings(text).problem[:20])
    seen.append(len(workers.read_state(text, 0.0, 1e9)))
    row = index.Row("2026-03-01T10:00:00Z", "manual", "", "s", "a.md")
    table, _ = index.with_rows(text, "auth", [row], "2026-03-01T10:00:00Z")
    assert "a.md" in {file.rsplit("/", 1)[-1] for file in index.files_of(table)}, "no row"
    assert table == index.with_rows(table, "auth", [row], "x")[0], "a row came twice"
    seen.append(letter.read("[HANDOFF:manual] auth", text, "2026-03-01T10:00:00Z") is None)
    return repr(seen)


# In memory, where there is such a place: nobody asks here whether it reaches the disk.
_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
_directory = tempfile.TemporaryDirectory(prefix="fuzz-", dir=_memory)
_core = CoreStore(f"{_directory.name}/core.db")
_core._db.execute("PRAGMA synchronous = OFF")
_threads = build(_core, ThreadSettings(), lambda *_: None)
_thread_id = _threads.create("t", "c", None, "chat")["handoff"]["id"]


def frame(data: bytes) -> Hashable:
    """A line of the socket is a request or an error; both doors read the same; answers are JSON."""
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
    return name if name in greeting.METHODS else "?", str(found.get("error", found))[:60]


def _with_thread(request: dict[str, Any]) -> dict[str, Any]:
    """Name a thread that there is, where the id stands for one."""
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
    """Setup's editors of JSON and TOML change what they are told to, and nothing else."""
    text = data.decode("utf-8", "replace")
    return _edit_json(text), _edit_toml(text)


def _edit_json(text: str) -> Hashable:
    try:
        old = json_text.load(text)
    except json_text.BrokenJsonError as problem:
        return str(problem)[:12]
    if not isinstance(old, dict):
        return type(old).__name__
    new = json_text.put(text, ("zz", "y"), ["x"]) if isinstance(old.get("zz", {}), dict) else text
    if new is not text:
        assert ["x"] == json_text.get(new, ("zz", "y")), "it was not put there"
        back = json_text.take(json_text.take(new, ("zz", "y")), ("zz",))
        rest = {key: value for key, value in old.items() if key != "zz"}
        assert repr(rest) == repr(json_text.load(back)), "it changed something else"
    for key in old:
        taken = json_text.load(json_text.take(text, (key,)))
        assert taken.keys() in ({*old}, {*old} - {key}), "it took something else"
    json_text.differences(text, new)
    return len(old), new == text


def _edit_toml(text: str) -> Hashable:
    try:
        toml_text.load(text)
        new = toml_text.add(text, "claude", "config_dirs", "/x")
        assert "/x" in toml_text.load(new)["claude"]["config_dirs"]
        taken = toml_text.take(new, "claude", "config_dirs", "/x")
        assert "/x" not in toml_text.load(taken).get("claude", {}).get("config_dirs", [])
        toml_text.put(text, "checkpoint", "write", "none")
    except HandoffError as problem:
        return str(problem)[:16]
    return True


def told(data: bytes) -> Hashable:
    """Text of others reaches a session inside one frame, harmless; the first byte is the channel."""
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
