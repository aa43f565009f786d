"""The handoff of a session: format, ownership of lines, and files on disk."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.contract import contract_format, handoff_directory
from handoffd.contract.contract_format import (
    Contract,
    ForeignLines,
    complete,
    escalation_line,
    escalation_reasons,
    foreign_lines,
    is_foreign,
    parse,
    persons_words,
    render,
    typographic,
    written_path,
)
from handoffd.contract.handoff_directory import HandoffScope

OURS = Contract(
    date="2026-11-15",
    session_id="1a2b3c4d-0000-4000-8000-000000000000",
    purpose="Fixed the parser's quotes",
    cwd="/home/u/shop",
    sections={"Done": ["- One", "- Two"], "Next": ["- Three"]},
)

# Rendering and parsing


words = st.text(st.sampled_from("abc xyz'\"éß中:.,()#-*`_/"), min_size=1, max_size=40)
one_line = words.map(str.strip).filter(bool)


def is_plain(line: str) -> bool:
    """Return True if the line is neither a heading nor a fence."""
    return not line.startswith(("#", "```"))


items = one_line.filter(is_plain).map(lambda line: f"- {line}")
titles = one_line.filter(lambda line: not line.startswith("#"))
contracts = st.builds(
    Contract,
    date=st.dates().map(str),
    session_id=st.uuids().map(str),
    purpose=one_line.map(contract_format.typographic),
    cwd=one_line.map(lambda line: f"/{line}"),
    based_on=st.sampled_from(["", "1a2b3c4d.md"]),
    escalations=st.lists(
        one_line.filter(lambda line: line[0] not in ":*"), max_size=3, unique=True
    ).map(tuple),
    sections=st.dictionaries(
        st.one_of(st.sampled_from(["", *contract_format.SECTIONS]), titles),
        st.lists(items, min_size=1, max_size=5),
        max_size=6,
    ),
)


@given(contracts)
def test_round_trip(given_contract):
    """A rendered handoff parses to the same fields and lines."""
    assert given_contract == parse(render(given_contract))


@given(contracts)
@pytest.mark.seed("002", "# Handoff — YYYY-MM-DD")
def test_metadata_is_in_the_first_lines(given_contract):
    """Title, session and purpose are in the first five lines, for any other content."""
    head = render(given_contract).split("\n")[:5]

    assert f"# Handoff — {given_contract.date}" == head[0]
    assert head[2].startswith("session_id: ")
    assert head[3].startswith("purpose: ")


@given(st.text(max_size=2000))
def test_any_text_is_read(text):
    """No text makes the parser fail, and its result can be rendered and parsed again."""
    found = parse(text)

    assert isinstance(parse(render(found)), Contract)
    assert isinstance(found.gist, str)


@given(contracts, st.sampled_from(["\r\n", "\r"]))
def test_line_ends_do_not_matter(given_contract, end):
    """CRLF and CR are read like LF."""
    assert given_contract == parse(render(given_contract).replace("\n", end))


def test_blank_values_have_no_trailing_space():
    """An unknown session gives a blank line without a trailing space."""
    text = render(Contract(date="2026-11-15"))

    assert ["session_id:", "purpose:", "cwd:"] == text.split("\n")[2:5]
    assert Contract(date="2026-11-15") == parse(text)


@pytest.mark.seed("002", "Handoff content is organised in markdown sections.")
@pytest.mark.seed("002", "| Session learnings | `## Reflection`")
@pytest.mark.seed("002", "Number of sections, presence of optional")
@pytest.mark.seed("002", "Whether `## Reflection` is present")
def test_sections_have_their_order():
    """The usual sections come in the usual order, then the others; empty ones are left out."""
    text = render(
        Contract(sections={"Zed": ["- z"], "Next": ["- n"], "Risks": [], "Done": ["- d"]})
    )

    assert ["## Done", "## Next", "## Zed"] == [n for n in text.split("\n") if n[:3] == "## "]


# Other writers


FOND = """# Handoff — 2026-05-01

session_id: amp:T-1234
purpose: Moved the store
format: fond-v1

## For the next Claude

### Done
- Moved it

### Next
1. Test it

## For Claudes to come
Patience.
"""


@pytest.mark.seed("002", "The content matters; the exact headings are flexible.")
@pytest.mark.seed("002", "Section heading names (content matters")
def test_fond():
    """A later version's zones are read by their inner headings, and its own keys are kept."""
    found = parse(FOND)

    assert ("2026-05-01", "amp:T-1234") == (found.date, found.session_id)
    assert ["Moved it"] == found.items("Done")
    assert ["Test it"] == found.items("Next")
    assert {"format": "fond-v1"} == found.others


def test_automatic_header():
    """A title with more text after the date is recognised."""
    assert "2026-05-01" == parse("# Handoff — 2026-05-01 (auto)\n").date


def test_leading_blank_lines_and_mark():
    """A byte order mark and blank lines before the title are ignored."""
    found = parse("\ufeff\n\n# Handoff — 2026-05-01\n\nsession_id: s\npurpose: p\n")

    assert ("2026-05-01", "s", "p") == (found.date, found.session_id, found.purpose)


@pytest.mark.parametrize(
    "text",
    [
        "https://example.invalid/a\ntodo: this\n",
        "# Handoff — 2026-05-01\n\nsession_id: s\n\ntodo: this\n",
    ],
)
def test_text_is_no_metadata(text):
    """A line with a colon is text unless it is among the metadata."""
    assert "todo: this" in parse(text).sections[""]


def test_without_metadata():
    """In a flat text without a purpose the first lines are the purpose."""
    found = parse("Just some notes\n- second\n* third\n\nfourth\n")

    assert ("", "", "") == (found.date, found.session_id, found.purpose)
    assert ["Just some notes", "second", "third"] == found.fallback
    assert "Just some notes" == found.gist


def test_first_done_stands_for_the_purpose():
    """Without a purpose the first done item is the gist, cut to 60 characters."""
    found = parse("## Done this week\n- [x] " + "word " * 30)

    assert 60 >= len(found.gist)
    assert found.gist.startswith("word word")


def test_apostrophe():
    """An apostrophe in a purpose is not a quote."""
    assert "Don't" == parse("# Handoff\npurpose: Don't\n").purpose


@given(one_line)
def test_quotes_of_a_purpose(purpose):
    """A purpose is written without straight quotes, and that alone makes it nobody else's."""
    ours = Contract("2026-01-01", "s", purpose, "/p")
    found = parse(render(ours))

    assert not set(found.purpose) & {"'", '"'}
    assert typographic(found.purpose) == found.purpose
    assert len(purpose) == len(found.purpose)
    assert not foreign_lines(found, ours)


def test_heading_in_a_fence_is_code():
    """A comment in a code block does not begin a section."""
    found = parse("## Done\n- x\n```sh\n## not a section\n```\n- y\n")

    assert ["Done"] == list(found.sections)
    assert "- y" in found.sections["Done"]


@pytest.mark.parametrize("text", ["", "\n", "\0", "# ", "##", "```", "# Handoff — "])
def test_nothing(text):
    """A nearly empty text is a nearly empty handoff."""
    assert "" == parse(text).purpose


def test_one_megabyte():
    """A megabyte is read in a short time."""
    assert 100_000 <= len(parse("## Done\n" + "- 1234567\n" * 100_000).sections["Done"])


# The call for a person


def grep(text: str) -> bool:
    """Search with grep, like the known consumer."""
    done = subprocess.run(
        ["grep", "-qi", "HUMAN REVIEW NEEDED"],
        input=text.encode(), check=False, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    return done.returncode == 0


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("HUMAN REVIEW NEEDED", ("",)),
        ("x\n- HUMAN REVIEW NEEDED: the key\n", ("the key",)),
        ("Look: human Review needed - soon", ("- soon",)),
        ("**HUMAN REVIEW NEEDED**: stars", ("stars",)),
        ("HUMAN REVIEW NEEDED: a\r\nHUMAN REVIEW NEEDED: b\r\n", ("a", "b")),
        ("HUMAN REVIEW NEEDED: a\nhuman review needed: a", ("a",)),
        ("HUMAN REVIEW\nNEEDED", ()),
        ("HUMAN  REVIEW NEEDED", ()),
        ("human review (needed)", ()),
        ("", ()),
    ],
)
def test_calls(text, reasons):
    """A call is found where `grep -qi` finds it: anywhere in a line, in any case."""
    assert reasons == escalation_reasons(text)
    assert grep(text) is bool(reasons)


@given(st.text(st.sampled_from("HUMANhuman REVIEWreview\nNEEDEDneeded: "), max_size=80))
def test_calls_as_grep(text):
    """Our search agrees with `grep -qi` for any surrounding text."""
    for line in (text, f"{text}human review needed{text}"):
        assert grep(line) is bool(escalation_reasons(line))


def test_call_is_written_before_the_sections():
    """A call is on its own line, in capitals, before the sections, and is read with its reason."""
    text = render(Contract(escalations=("the key", ""), sections={"Done": ["- x"]}))

    assert "\n\nHUMAN REVIEW NEEDED: the key\nHUMAN REVIEW NEEDED\n\n## Done\n" in text
    assert ("the key", "") == parse(text).escalations
    assert "HUMAN REVIEW NEEDED" == escalation_line("")


def test_our_own_words_never_call():
    """Our description of a person's words is not a call: the phrase is broken up."""
    lines = contract_format.bullets(["the phrase Human Review Needed was discussed"])

    assert () == escalation_reasons("\n".join(lines))
    assert not grep("\n".join(lines))


# Ownership of lines


def test_nothing_changed():
    """Our own handoff, read again, has no foreign lines."""
    assert not foreign_lines(parse(render(OURS)), OURS)


def test_added_lines_are_theirs():
    """Added lines, sections, a purpose and a call are foreign, and they are kept."""
    text = (
        render(OURS)
        .replace("- Two\n", "- Two\n- Theirs\n")
        .replace(typographic(OURS.purpose), "Their words")
    )
    text += "\n## Reflection\nFirst.\n\nSecond.\n\nHUMAN REVIEW NEEDED: look\n"

    given_theirs = foreign_lines(parse(text), OURS)
    ours = replace(OURS, sections={"Done": ["- One", "- New"]})
    whole = complete(ours, given_theirs)

    assert {"Done": ["- Theirs"], "Reflection": ["First.", "", "Second."]} == given_theirs.sections
    assert ("Their words", ("look",)) == (given_theirs.purpose, given_theirs.escalations)
    assert ["- Theirs", "- One", "- New"] == whole.sections["Done"]
    assert ["First.", "", "Second."] == whole.sections["Reflection"]
    assert ("Their words", ("look",)) == (whole.purpose, whole.escalations)


def test_removed_lines_stay_removed():
    """A line of ours that a person removed does not come back."""
    given_theirs = foreign_lines(parse(render(OURS).replace("- Two\n", "")), OURS)

    assert frozenset({"- Two"}) == given_theirs.removed
    assert ["- One"] == complete(OURS, given_theirs).sections["Done"]


def test_call_taken_out_stays_out():
    """A call of ours that a person removed does not come back, but a different one may."""
    ours = replace(OURS, escalations=("the key",))
    given_theirs = foreign_lines(parse(render(OURS)), ours)

    assert given_theirs
    assert () == complete(ours, given_theirs).escalations
    assert ("a file",) == complete(replace(ours, escalations=("a file",)), given_theirs).escalations


def test_others_metadata_stays():
    """A key that another writer added to the metadata is kept."""
    text = render(OURS).replace("cwd:", "source: amp\ncwd:")

    assert "\nsource: amp\n" in render(complete(OURS, foreign_lines(parse(text), OURS)))


def test_rewritten_file_is_foreign():
    """A file without a line of ours is foreign; blank lines do not count as ours."""
    ours = Contract(sections={"Reflection": ["One.", "", "Two."]})

    assert is_foreign(parse("# Handoff\n\n## Done\nA.\n\nB.\n"), ours)
    assert not is_foreign(parse(render(ours) + "more\n"), ours)
    assert not is_foreign(parse(""), ours)


@given(contracts)
def test_merging_twice_is_merging_once(given_contract):
    """A person's added lines are merged once, however often we write."""
    text = render(given_contract) + "\n## Reflection\n- Mine\n"
    once = complete(OURS, foreign_lines(parse(text), OURS))
    twice = complete(OURS, foreign_lines(parse(render(once)), OURS))

    assert once == twice


def test_ours_is_shortened_not_theirs():
    """Above 6 KB our lines are dropped, from the longest section; a person's lines stay."""
    ours = Contract(sections={"Done": [f"- {n} {'x' * 90}" for n in range(200)], "Next": ["- n"]})
    whole = complete(ours, ForeignLines(sections={"Done": ["- Theirs"]}))

    assert contract_format.SIZE_MAX_BYTES >= len(render(whole).encode())
    assert "- Theirs" == whole.sections["Done"][0]
    assert ["- n"] == whole.sections["Next"]
    assert contract_format.SIZE_MAX_BYTES - 200 < len(render(whole).encode())


def test_theirs_may_be_long():
    """A person's own words are kept whole, at any length."""
    long = ["word " * 2000]
    whole = complete(OURS, ForeignLines(sections={"Reflection": long}))

    assert long == whole.sections["Reflection"]
    assert OURS.sections.items() <= whole.sections.items()


def test_persons_words_are_masked():
    """Secrets and control characters in a person's words do not get into a handoff."""
    secret = "ghp_" + "aB3" * 12
    lines, masked = persons_words(f"\n  use {secret}\x1b[31m \r\nthen\n\n")

    assert 1 == masked
    assert secret not in lines[0]
    assert "\x1b" not in "".join(lines)
    assert "then" == lines[-1]


def test_path_is_one_line():
    """A path with control characters is written as one line."""
    assert "/a/b c" == written_path("/a/b c")
    assert "/a\\nb" == written_path("/a\nb")
    assert "/a\\udcff" == written_path("/a\udcff")


# On disk


@pytest.fixture
def base(tmp_path) -> str:
    path = tmp_path / "handoffs"
    path.mkdir()
    return str(path)


def write_handoff(base: str, cwd: str, name: str, seconds: int, **given_fields) -> str:
    """Write a handoff with the given time."""
    text = render(Contract(**{"date": "2026-11-15", "cwd": cwd, **given_fields}))
    return put(f"{handoff_directory.directory_of(base, cwd)}/{name}", seconds, text)


def put(path: str, seconds: int, text: str = "## Done\n- x\n") -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as stream:
        stream.write(text)
    os.utime(path, (seconds, seconds))
    return path


def found(base: str, cwd: str, **place) -> list[str]:
    here = HandoffScope(cwd, place.pop("root", cwd), **place)
    return [os.path.basename(handoff.path) for handoff in handoff_directory.handoffs(base, here)]


def test_newest_by_time(base):
    """The most recently changed file is the newest, for any name and header."""
    write_handoff(base, "/p", "z.md", 100, date="2026-12-31")
    write_handoff(base, "/p", "a.md", 200, date="2026-01-01")
    write_handoff(base, "/p", "m.md", 150)

    assert ["a.md", "m.md", "z.md"] == found(base, "/p")
    assert "a.md" == os.path.basename(handoff_directory.newest(base, HandoffScope("/p", "/p")).path)


def test_ties(base):
    """For equal times, as after a checkout, the later date in the header wins, then the name."""
    write_handoff(base, "/p", "c.md", 100, date="2026-01-01")
    write_handoff(base, "/p", "a.md", 100, date="2026-01-02")
    write_handoff(base, "/p", "b.md", 100, date="2026-01-02")
    write_handoff(base, "/p", "d.md", 100, date="")

    assert ["b.md", "a.md", "c.md", "d.md"] == found(base, "/p")


def test_what_is_no_handoff(base):
    """Indexes, other files, dotfiles, links, FIFOs and directories are no handoffs."""
    write_handoff(base, "/p", "a.md", 1)
    directory = handoff_directory.directory_of(base, "/p")
    for name in ("README.md", "index.md", "LEDGER.md", "Readme.md", "x.txt", ".x.md", "md"):
        put(f"{directory}/{name}", 100)
    os.mkdir(f"{directory}/sub.md")
    os.mkfifo(f"{directory}/pipe.md")
    os.symlink("/etc/passwd", f"{directory}/link.md")
    put(f"{base}/stray.md", 100)
    put(f"{base}/email/thread.md", 100)

    assert ["a.md"] == found(base, "/p")


def test_none(base):
    """A project without a handoff has none, and the search creates nothing."""
    assert handoff_directory.newest(base, HandoffScope("/p", "/p")) is None
    assert [] == os.listdir(base)


def test_two_projects_in_one_directory(base):
    """Two paths with the same name share a directory; the `cwd:` line separates their handoffs."""
    write_handoff(base, "/a/b-c", "one.md", 1)
    write_handoff(base, "/a/b/c", "two.md", 2)
    put(f"{base}/-a-b-c/unsigned.md", 3)

    assert ["unsigned.md", "one.md"] == found(base, "/a/b-c")
    assert ["unsigned.md", "two.md"] == found(base, "/a/b/c")


def test_below_the_root(base, tmp_path):
    """A handoff of a subdirectory counts for the project, unless that is a project itself."""
    root = tmp_path / "p"
    (root / "src").mkdir(parents=True)
    (root / "inner/.git").mkdir(parents=True)
    (root / ".git").mkdir()
    put(
        f"{handoff_directory.directory_of(base, str(root))}/a.md",
        1,
        render(Contract(cwd=f"{root}/src")),
    )
    put(
        f"{handoff_directory.directory_of(base, str(root))}/b.md",
        2,
        render(Contract(cwd=f"{root}/inner")),
    )

    assert ["a.md"] == found(base, str(root))


def test_v1_directory_counts_meanwhile(base):
    """A v1 directory is read until its migration; the link that follows is not read twice."""
    write_handoff(base, "/a_b", "new.md", 1)
    put(f"{base}/-a_b/old.md", 2)

    assert ["old.md", "new.md"] == found(base, "/a_b")

    from handoffd.contract import migration

    migration.migrate(base)
    assert ["old.md", "new.md"] == found(base, "/a_b")


def test_reading_changes_no_time(base):
    """Reading changes no time of a file or directory."""
    path = write_handoff(base, "/p", "a.md", 100)
    os.utime(os.path.dirname(path), (50, 50))

    handoff_directory.newest(base, HandoffScope("/p", "/p"))

    assert 100 == os.stat(path).st_mtime
    assert 50 == os.stat(os.path.dirname(path)).st_mtime


def test_unreadable_is_passed_over(base, monkeypatch):
    """An unreadable handoff is skipped; a file with broken UTF-8 is read as far as possible."""
    write_handoff(base, "/p", "a.md", 1)
    path = f"{base}/-p/b.md"
    with open(path, "wb") as stream:
        stream.write(b"# Handoff \xff\n\n## Done\n- \xc3x\n")
    os.utime(path, (2, 2))

    assert ["b.md", "a.md"] == found(base, "/p")
    monkeypatch.setattr(handoff_directory, "read", lambda path: None)
    assert [] == found(base, "/p")


@pytest.mark.parametrize(
    ("session", "taken", "name"),
    [
        ("1a2b3c4d-5555-4000", [], "1a2b3c4d.md"),
        ("1a2b3c4d-5555-4000", ["1a2b3c4d.md"], "1a2b3c4d-555.md"),
        ("", [], "2026-11-15-1200.md"),
        ("", ["2026-11-15-1200.md"], "2026-11-15-1200-2.md"),
        ("../../etc", [], "2026-11-15-1200.md"),
        ("readme", [], "readme-2.md"),
        ("abc", ["abc.md", "abc-2.md"], "abc-3.md"),
    ],
)
def test_names(session, taken, name):
    """A file is named after its session, longer if taken; an unusable session id is not used."""
    assert name == handoff_directory.file_name(session, taken, "2026-11-15-1200")


def test_put(tmp_path):
    """Our file and its directory are private, only dotfiles are beside it, a repeat is no write."""
    base = f"{tmp_path}/claude/handoffs"
    directory = handoff_directory.directory_of(base, "/p")
    text = render(OURS)

    first = handoff_directory.change(directory, "a.md", lambda before: text)
    again = handoff_directory.change(directory, "a.md", lambda before: text)
    kept = handoff_directory.change(directory, "a.md", lambda before: None)

    assert first == again == kept
    assert text == Path(directory, "a.md").read_text()
    assert 0o600 == os.stat(f"{directory}/a.md").st_mode & 0o777
    assert 0o700 == os.stat(directory).st_mode & 0o777
    assert 0o700 == os.stat(base).st_mode & 0o777
    assert ["a.md"] == [name for name in os.listdir(directory) if not name.startswith(".")]


def test_put_sees_what_is_there(base):
    """The writer sees the current file, and sees it again if it changed in between."""
    directory = handoff_directory.directory_of(base, "/p")
    seen = []

    def compute(before):
        seen.append(before.text if before else None)
        if len(seen) == 1:
            put(f"{directory}/a.md", 5, "from elsewhere")
        return f"{before.text if before else ''} and ours"

    done = handoff_directory.change(directory, "a.md", compute)

    assert [None, "from elsewhere"] == seen
    assert "from elsewhere and ours" == done.text


def test_v1_link(base):
    """If the versions differ, a relative link serves old readers; otherwise there is none."""
    write_handoff(base, "/a_b", "a.md", 1)

    assert handoff_directory.link_v1(base, "/a_b")
    assert not handoff_directory.link_v1(base, "/a_b")
    assert not handoff_directory.link_v1(base, "/a-b")
    assert "-a-b" == os.readlink(f"{base}/-a_b")
    assert {"-a-b", "-a_b"} == set(os.listdir(base))


def test_v1_link_replaces_nothing(base):
    """An existing v1 directory stays unchanged."""
    put(f"{base}/-a_b/old.md", 1)

    assert not handoff_directory.link_v1(base, "/a_b")
    assert ["old.md"] == os.listdir(f"{base}/-a_b")
