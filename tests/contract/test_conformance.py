"""`handoff check-contract`: our own handoffs keep the contract, and each violation is named."""

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from handoff.common.errors import HandoffError
from handoffd.contract import conformance, handoff_directory
from handoffd.contract.contract_format import Contract, render, written_path

GOOD = "# Handoff — 2026-11-15\n\nsession_id: s\npurpose: p\n\n## Done\n- x\n"
POINTS = ["location", "discovery", "metadata", "escalation", "format"]


@pytest.fixture
def directory(tmp_path) -> Path:
    path = tmp_path / "handoffs" / "-home-u-my-app"
    path.mkdir(parents=True)
    return path


def put(path: Path, data: str | bytes = GOOD, seconds: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    os.utime(path, (seconds, seconds))
    return path


def breaks(directory: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the violations by point."""
    checked = conformance.check(str(directory))
    assert POINTS == [point.name for point in checked.points]
    return {
        point.name: [(broken.file, broken.text) for broken in point.breaks]
        for point in checked.points
        if point.breaks
    }


def says(directory: Path, name: str) -> list[str]:
    points = {point.name: point for point in conformance.check(str(directory)).points}
    return points[name].says


OURS = Contract(
    date="2026-11-15",
    session_id="1a2b3c4d-0000-4000-8000-000000000000",
    purpose="Fixed it",
    cwd="/home/u/my_app",
    based_on="other.md",
    escalations=("a secret was committed",),
    sections={"Done": ["- One"], "Next": ["- Two"]},
)


@pytest.mark.parametrize("cwd", ["/home/u/my_app", "/home/u/Übung mit\nZeile", "/home/u/a\udcffb"])
@pytest.mark.seed("002", "This document specifies the stable contract")
@pytest.mark.seed("002", "Handoff directory location and path encoding")
def test_our_own_output_holds(tmp_path, cwd):
    """Our own handoffs keep every point of the contract, for paths with any characters."""
    place = handoff_directory.directory_of(f"{tmp_path}/handoffs", cwd)
    text = render(replace(OURS, cwd=written_path(cwd)))
    handoff_directory.change(place, "1a2b3c4d.md", lambda before: text)
    handoff_directory.link_v1(f"{tmp_path}/handoffs", cwd)

    code, printed = conformance.run(f"{tmp_path}/handoffs", as_json=False)

    assert 0 == code, printed
    assert "the newest is 1a2b3c4d.md" in printed
    assert "1a2b3c4d.md calls for a person: a secret was committed" in printed


@pytest.mark.seed("002", "Does not know or care whether the previous session")
@pytest.mark.seed("002", "Filename scheme")
def test_other_writers_hold(directory):
    """The origin's handoffs, automatic ones, a later version's zones and CRLF keep the contract."""
    put(directory / "close.md")
    put(directory / "auto.md", GOOD.replace("-15\n", "-15 (auto)\n"))
    put(directory / "crlf.md", GOOD.replace("\n", "\r\n"))
    put(directory / "blank.md", GOOD.replace("session_id: s", "session_id:"))
    put(
        directory / "fond.md",
        GOOD.replace("purpose: p", "purpose: p\nformat: fond-v1").replace(
            "## Done", "## For the next Claude\n\n### Done"
        ),
    )

    assert {} == breaks(directory)


def test_empty_directory_holds(directory):
    """A directory without handoffs does not break the contract."""
    assert {} == breaks(directory)
    assert ["no handoff"] == says(directory, "discovery")


# Location


@pytest.mark.parametrize("name", ["email", "home-u", "-home-u.bak", "-home-ü"])
def test_directory_name(tmp_path, name):
    """A directory whose name is not an encoded path breaks the location."""
    put(tmp_path / name / "a.md")

    assert ["location"] == list(breaks(tmp_path / name))


def test_v1_directory(tmp_path):
    """A directory of the first version is reported as such, with the remedy."""
    put(tmp_path / "-home-u-my_app/a.md")

    (((_, text),),) = breaks(tmp_path / "-home-u-my_app").values()
    assert "handoff migrate" in text


def test_cwd_must_lead_here(directory):
    """Every `cwd:` line must encode to the directory's name; a line that does not is named."""
    put(directory / "right.md", render(OURS))
    put(directory / "same.md", render(OURS).replace("cwd: /home/u/my_app", "cwd: /home/u/my/app"))
    put(directory / "wrong.md", render(OURS).replace("cwd: /home/u/my_app", "cwd: /home/u/else"))

    assert {"location": [("wrong.md", "`cwd: /home/u/else` belongs to -home-u-else")]} == breaks(
        directory
    )


# Discovery


@pytest.mark.seed("002", "Currently UUID-based (e.g.")
def test_what_ls_would_find(directory):
    """A visible entry that is not a regular `.md` file breaks the discovery; dotfiles do not."""
    put(directory / "a.md")
    put(directory / ".handoffd.lock", "")
    put(directory / "notes.txt")
    os.mkfifo(directory / "pipe.md")
    (directory / "link.md").symlink_to("a.md")
    (directory / "sub.md").mkdir()

    assert {
        "discovery": [
            ("notes.txt", "visible, but no `.md` file"),
            ("link.md", "no regular file"),
            ("pipe.md", "no regular file"),
            ("sub.md", "no regular file"),
        ]
    } == breaks(directory)


@pytest.mark.seed("002", "Most recent file by modification time")
def test_newest(directory):
    """The newest handoff is named, with the rule that decides a tie."""
    put(directory / "old.md", GOOD, 50)
    put(directory / "a.md", GOOD.replace("11-15", "11-16"))
    put(directory / "b.md")

    assert [
        "the newest is a.md",
        "2 have its time: the later date wins, then the name",
    ] == says(directory, "discovery")


def test_index_newer_than_handoffs(directory):
    """An index is no handoff; it breaks the discovery only if `ls -t` lists it first."""
    put(directory / "a.md", GOOD, 100)
    put(directory / "README.md", "x", 50)
    assert {} == breaks(directory)

    put(directory / "LEDGER.md", "x", 150)
    ((name, _),) = breaks(directory)["discovery"]
    assert "LEDGER.md" == name


# Metadata


@pytest.mark.seed("002", "`purpose` — human-readable summary.")
def test_blank_purpose(directory):
    """A blank purpose is distinguished from a missing one."""
    put(directory / "a.md", GOOD.replace("purpose: p", "purpose:"))

    assert {"metadata": [("a.md", "`purpose:` is blank")]} == breaks(directory)


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("# Handoff — 2026-11-15", "# Handoff - 2026-11-15", "# Handoff — YYYY-MM-DD"),
        ("# Handoff — 2026-11-15", "# Handoff", "# Handoff — YYYY-MM-DD"),
        ("session_id: s\n", "", "session_id:"),
        ("purpose: p", "\n\npurpose: p", "purpose:"),
        ("purpose: p", " purpose: p", "purpose:"),
    ],
)
@pytest.mark.seed("002", "# Handoff — YYYY-MM-DD")
def test_metadata(directory, old, new, missing):
    """Each metadata line must be in the first five lines, where `grep '^…'` finds it."""
    put(directory / "a.md", GOOD.replace(old, new))

    assert {"metadata": [("a.md", f"no `{missing}` in the first 5 lines")]} == breaks(directory)


# Escalation


@pytest.mark.seed("002", "Plaintext, grep-able, anywhere in the body.")
def test_escalation(directory):
    """Each handoff that calls for a person is named, in any case, without secrets and escapes."""
    put(directory / "a.md", GOOD + "x human review needed: ask ghp_" + "aB3" * 12 + "\x1b[31m\n")
    put(directory / "b.md", GOOD + "HUMAN REVIEW NEEDED\n")
    put(directory / "c.md")

    first, second = says(directory, "escalation")

    assert {} == breaks(directory)
    assert first.startswith("a.md calls for a person: ask [redacted:")
    assert "\x1b" not in first
    assert "b.md calls for a person" == second


@pytest.mark.parametrize(
    "words", ["HUMAN REVIEW\nNEEDED", "HUMAN_REVIEW_NEEDED", "human\xa0review\xa0needed"]
)
@pytest.mark.seed("002", "No structured vocabulary beyond this.")
def test_call_that_grep_does_not_find(directory, words):
    """Words that look like a call, but that grep does not find, break the escalation."""
    put(directory / "a.md", GOOD + words)

    assert ["escalation"] == list(breaks(directory))


# Format


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"just a line\n", "no section (`## …`)"),
        (b"## Done\n\xff\xfe\n", "not UTF-8"),
        (GOOD.encode("utf-16"), "not UTF-8"),
        (b"## Done\n\0\n", "holds NUL bytes"),
    ],
)
@pytest.mark.seed("002", "File format: markdown with sections")
def test_format(directory, data, why):
    """A file that is not UTF-8 markdown with sections breaks the format, with a reason."""
    put(directory / "a.md", data)

    assert ("a.md", why) in breaks(directory)["format"]


def test_large_files(directory):
    """A megabyte is read whole; of a file over two megabytes only the beginning, cut anywhere."""
    put(directory / "a.md", GOOD + "- é12345\n" * 100_000)
    put(directory / "b.md", GOOD + "é" * (2 << 20))
    put(directory / "c.md", GOOD + "x" + "é" * (2 << 20))

    assert {} == breaks(directory)


def test_unreadable_file():
    """An unreadable file breaks the format, and the other files are still checked."""
    place = Path(tempfile.mkdtemp(prefix="ho-", dir="/tmp"))
    directory = place / "-home-u"
    put(directory / "a.md").chmod(0)
    put(directory / "b.md", "")
    is_root = os.geteuid() == 0
    place.chmod(0o755)
    directory.chmod(0o755)
    try:
        if is_root:
            os.seteuid(65534)
        found = breaks(directory)
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(place)

    assert [("a.md", "cannot be read: Permission denied"), ("b.md", "empty")] == found["format"]


# The command


def test_reading_changes_no_time(directory):
    """A check changes no time of a file or of the directory."""
    put(directory / "a.md", GOOD, 100)
    os.utime(directory, (50, 50))

    conformance.run(str(directory), as_json=False)

    assert (100, 50) == ((directory / "a.md").stat().st_mtime, directory.stat().st_mtime)


def test_all_projects(tmp_path):
    """For the base directory each project is checked; a name that encodes no path is skipped."""
    base = tmp_path / "handoffs"
    put(base / "-a/good.md")
    put(base / "-b/bad.md", "")
    put(base / "email/thread.md", "")
    put(base / "stray.md", "")
    (base / "-a_1").symlink_to("-a")

    code, text = conformance.run(str(base), as_json=True)
    data = json.loads(text)

    assert (1, 1) == (code, data["exit"])
    assert [(f"{base}/-a", True), (f"{base}/-b", False)] == [
        (item["directory"], item["holds"]) for item in data["directories"]
    ]


def test_text(directory):
    """The text for a person has one line per point, and below it each file that breaks it."""
    put(directory / "a.md", GOOD, 100)
    put(directory / "b.md", GOOD.replace("purpose: p", ""), 50)
    put(directory / "c\x1b.md", GOOD, 40)

    code, text = conformance.run(str(directory), as_json=False)

    assert 1 == code
    assert [
        f"{directory} (handoffs: 2)",
        "  ok   location",
        "  BAD  discovery: the newest is a.md",
        "         c\\u001b.md: a name that is no line",
        "  BAD  metadata",
        "         b.md: no `purpose:` in the first 5 lines",
        "  ok   escalation",
        "  ok   format",
    ] == text.splitlines()


@pytest.mark.parametrize("name", ["missing", "file"])
def test_no_directory(tmp_path, name):
    """A path that is not a directory is an error with a remedy."""
    put(tmp_path / "file")

    with pytest.raises(HandoffError, match="cannot be read"):
        conformance.run(str(tmp_path / name), as_json=False)


def test_v1_link_is_followed(directory):
    """For the link that serves old readers, the directory behind it is checked."""
    put(directory / "a.md")
    link = directory.parent / "-home-u-my_app"
    link.symlink_to(directory.name)

    assert 0 == conformance.run(str(link), as_json=False)[0]
