"""The content of the log, and its greatest length."""

import pytest

from conftest import wait_for
from handoffd.runtime.log import LOG_MAX_BYTES, LogFile

WORD = "quixotic-zanzibar"
RECORDS = 2000


@pytest.mark.parametrize("records", [RECORDS])
def test_no_words_of_a_session_in_the_log(live, records, record_property):
    """At info level no word of a transcript is in the log, with any error in the meantime."""
    project = live.project()
    session = live.session(project)
    for number in range(records // 4):
        session.prompt(f"Mend the {WORD} number {number}")
        session.say(f"I suspect the {WORD}. Next, I'll look at {WORD} {number}.")
        session.raw(b'{"type": "user", "message": {"content": "' + WORD.encode() + b'"\n')
        session.raw(session.line("user", message={"content": [{"type": 5, "text": WORD}]}))
    wait_for(lambda: f"number {records // 4 - 1}" in str(live.show(project)), 60)
    path = project / ".flow-guardian/handoff.yaml"
    wait_for(path.exists)
    path.write_text(f"goal: [{WORD}\n")
    (project / ".git/HEAD").write_text(f"{WORD}\n")
    live.handoff("save", "--goal", WORD, "--status", WORD, cwd=project)
    live.request("show", nothing=WORD)
    live.request(WORD)
    wait_for(lambda: "unreadable" in str(live.request("status")["result"]["warnings"]))
    live.stop()
    text = live.log.read_text()
    assert "started" in text
    assert WORD not in text
    record_property("figure", f"0 words after {records} records; {len(text)} bytes")


def test_the_log_stays_within_its_limit(tmp_path, record_property):
    """Twenty megabytes of lines leave a log and one old log, each within the limit."""
    log = LogFile(str(tmp_path / "log"))
    line = "x" * 499 + "\n"
    for _ in range(20 * LOG_MAX_BYTES // len(line)):
        log.write(line)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert {"log", "log.1"} == set(sizes)
    assert max(sizes.values()) <= LOG_MAX_BYTES + len(line)
    assert {0o600} == {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    record_property("figure", f"{sum(sizes.values()) >> 10} KiB of {20 * LOG_MAX_BYTES >> 10}")
