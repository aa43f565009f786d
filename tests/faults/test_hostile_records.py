"""No content of a transcript raises an error; the lines after it are read, all are counted."""

import os

import msgspec

from conftest import wait_for
from handoffd.agents.claude_code.records import Record

# Values of every type, for fields of every type.
ODD = [
    None, True, -1, 1 << 70, 1e308, "", "\x00", "\ud800", "\U0010ffff", "x" * 5000, "/", "/\x00/a",
    "/\ud800", "..", [], {}, [[]], [None], [{}], [1, "a", None], {"": None}, {"type": 7},
    {"content": 5}, {"content": [5, None, {"type": None}, {"type": "text", "text": 5}]},
    {"content": [{"type": "tool_use", "name": 5, "input": 7, "id": {}}]},
    {"content": [{"type": "tool_result", "content": {"a": 1}, "tool_use_id": []}]},
    {"role": [], "content": "\ud800\x00", "usage": "many", "model": {}, "id": 0},
]  # fmt: skip
KINDS = ("user", "assistant", "system", "summary", "attachment", "pr-link", "mystery")


def test_every_field_with_every_value(live, record_property):
    """A known field may hold any value: every record is counted, and the last one is read."""
    project = live.project()
    names = [field.encode_name for field in msgspec.structs.fields(Record)]
    for number, name in enumerate([*names, "todos", "summary", "level", "operation"]):
        session = live.session(project)
        session.prompt("Survive whatever comes in here")
        for value in ODD:
            fields = {"message": {"role": "user", "content": "Go on"}, name: value}
            kind = fields.pop("type", KINDS[number % len(KINDS)])
            session.raw(session.line(kind, **fields))
        session.say(f"Still here, {name}.")
    total = (number + 1) * (len(ODD) + 2)

    def counted() -> int:
        status = live.call("status")
        return status["records"] + status["skipped"]["repeated_records"]

    wait_for(lambda: counted() == total)
    found = live.call("sessions", limit=100)["sessions"]
    skipped = live.call("status")["skipped"]

    assert (0, 0) == (skipped["transcripts"], skipped["damaged_lines"]), live.log.read_text()
    assert number + 1 == len(found)
    assert "error" not in live.log.read_text()
    wait_for(lambda: f"Still here, {name}." in live.document(project)["now"])
    record_property("figure", f"{total} of {total} records counted, 0 raised")


def test_every_kind_of_damage(live, record_property):
    """Broken bytes are counted, whole records are kept, and an unknown type is counted as such."""
    project = live.project()
    session = live.session(project)
    line = session.line("user", message={"content": "Say it only once please"})
    session.raw(line * 2)  # the same uuid again
    session.raw(line.replace(b"please", b"\xff\xfe\xc3(")[:-1] + b"\r\n")  # no UTF-8; and again
    session.raw(b"\x00" * 4096 + b"\n")
    session.raw(b"\x00" * 512 + session.line("user", message={"content": "After a run of NUL"}))
    session.raw(session.line("user", message={"content": "With CRLF"})[:-1] + b"\r\n")
    session.raw(b"\r\n\n \n")
    session.raw(b'{"type":"user","mess\n' + b"not json\n" + b"[" * 100_000 + b"\n")
    session.raw(session.line("never-heard-of") * 2)
    session.raw(
        session.line("assistant", message={"content": [{"type": "text", "text": "Whole."}]})
    )
    session.raw(session.line("user", message={"content": "No final newline"})[:-1])

    wait_for(lambda: "Whole." in live.document(project)["now"])
    lane = live.show(project)["lanes"][0]
    status = live.call("status")

    assert 5 == status["records"], status
    assert {"never-heard-of": 1} == lane["unknown"]
    damaged, repeated = (status["skipped"][key] for key in ("damaged_lines", "repeated_records"))
    assert (4, 3) == (damaged, repeated)
    session.raw(b"\n")
    wait_for(lambda: live.call("status")["records"] == 6)
    told = (
        f"{damaged} damaged, {repeated} repeated, {sum(lane['unknown'].values())} unknown counted"
    )
    record_property("figure", f"{told}; {live.call('status')['records']} of 6 whole ones kept")


def test_poisoned_transcript(live, record_property):
    """An unreadable transcript is left alone after three tries and reported; others are read."""
    # A directory whose name is no text cannot be stored.
    poisoned = os.fsencode(live.transcripts) + b"/-\xff\xfe"
    os.mkdir(poisoned)
    poisoned += b"/3b241101-e2bb-4255-8caf-4136c566a962.jsonl"
    project = live.project()
    session = live.session(project)

    def tries() -> int:
        return live.log.read_text().count("transcript_failed")

    for number in range(3):
        with open(poisoned, "ab") as stream:
            stream.write(session.line("user", message={"content": "From an odd directory"}))
        wait_for(lambda n=number: tries() == 3 * (n + 1))
        session.prompt(f"Request {number} from an ordinary one")
        wait_for(lambda n=number: f"Request {n}" in live.document(project)["now"])
    rescans = live.call("status")["rescans"]
    wait_for(lambda: live.call("status")["rescans"] > rescans)
    shown = live.handoff("status")

    assert 9 == tries(), "three for each change, none for a rescan"
    assert "1 transcript could not be read." in shown.stdout
    status = live.call("status")
    left, read = status["skipped"]["transcripts"], status["records"]
    assert (1, 3) == (left, read)
    told = f"{tries()} tries for {number + 1} changes, {left} counted, {read} of 3 others read"
    record_property("figure", told)
