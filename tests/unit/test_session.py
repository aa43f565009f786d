"""The fold, its receipts, and the redaction of every text."""

import json
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoffd.agents.claude_code.records import parse_line
from handoffd.agents.events import Event
from handoffd.ingest.tailer import Tail
from handoffd.redaction.redact import redact
from handoffd.session import insights
from handoffd.session.fold import _FOLDS, fold
from handoffd.session.injected import injected_lines, is_echo
from handoffd.session.state import FILES_MAX, SessionState
from handoffd.session.statements import statements
from handoffd.session.storage import context_of, dump, load
from handoffd.session.summary import read_summary
from handoffd.session.text import (
    clean,
    count_masks,
    heading,
    keep,
    opening,
    plain,
    redact_values,
    request,
    sentences,
    shorten,
)
from handoffd.store.cursor import Cursor
from scenes import SCENES
from scripted_session import ROOT, Told, folded, snapshot, view


def test_goal_has_its_receipt():
    """The word "continue" states no goal; a real request does, with a receipt for its place."""
    told = Told().prompt("continue").prompt("Add a login page to it")
    found = told.view().receipts["goal"]
    line = told.data[found.offset :].split(b"\n", 1)[0]

    assert "Add a login page to it" == told.view().document["goal"]
    assert ("s", "quoted") == (found.transcript, found.evidence)
    assert (found.uuid, found.time) == tuple(json.loads(line)[key] for key in ("uuid", "timestamp"))


@pytest.mark.parametrize(
    "text",
    ["로그인 페이지를 추가해 줘", "请添加一个登录页面到网站", "ログインページを追加してください"],
)
def test_other_scripts_state_goals(text):
    """A request in a script without spaces is a goal, too."""
    assert text == insights.goal(Told().prompt(text).folded()).text


def test_sidechains_only_add_files():
    """A sub-agent's words and prompts change only the list of files."""
    told = Told().prompt("Do the main work here")
    before = told.view().document
    edit = {"type": "tool_use", "id": "x", "name": "Write", "input": {"file_path": f"{ROOT}/x.py"}}
    told.say("I am a helper.", isSidechain=True).blocks(edit, isSidechain=True)
    told.say("boom", isSidechain=True, isApiErrorMessage=True)
    told.prompt("Do what the main one says", isSidechain=True)

    assert before | {"files": ["x.py"]} == told.view().document


def test_first_cwd_stays_and_relocation_moves():
    """A `cd` in a tool call does not move the session; a relocation record does."""
    told = Told().prompt("Do the main work here").prompt("and this", cwd="/elsewhere")

    assert ROOT == told.folded().cwd
    assert "/tree" == told.raw({"type": "relocated", "relocatedCwd": "/tree"}).folded().cwd


def test_files_are_bounded():
    """The least relevant files are dropped: those only read, then those edited long ago."""
    told = Told()
    for number in range(FILES_MAX):
        told.use("Read", file_path=f"{ROOT}/r{number}.py")
    for number in range(30):
        told.edit(f"e{number}")
    state = told.folded()
    names = [file.path.rsplit("/", 1)[1] for file in state.files]

    assert FILES_MAX == len(names)
    assert "r29.py" not in names
    assert {"r30.py", "e0", "e29"} <= set(names)


def test_fold_does_not_grow():
    """The state after ten thousand records has only some kilobytes."""
    told = Told()
    for number in range(2500):
        told.record(f"kind{number}", gitBranch="b" * number)
        told.say(f"Statement {number} " + "x" * 500)
        told.prompt(f"Please do the thing with the number {number} " + "z" * 500)
        told.edit(f"{number}" + "y" * 300, "a" * number, "b" * number)
        told.run(f"make {number} " + "w" * 300, "boom", code=1)
        told.use("TaskUpdate", taskId=str(number), subject="v" * 300, status="pending")

    assert len(dump(told.folded())) < 132_000


def test_dump_and_load():
    """A stored fold loads as the same state."""
    told = Told().prompt("Add a login page 🚀").edit("a.py", "x", "y").say("Ja, größer.")
    told.run("pytest", "1 failed", code=1).run("git commit", "[main 1a2b3c4] x")
    state = told.folded()
    insights.now(state)

    assert state == load(dump(state))


def test_copies_count_once():
    """A record that is appended again counts once, after any distance."""
    told = Told().prompt("Do the main work here").say("First.").prompt("Then do the second one")
    first = list(told.lines)
    for number in range(200):
        told.say(f"Statement {number}.")
    once = told.folded()
    told.lines += first

    assert (once.prompts, once.records) == (told.folded().prompts, told.folded().records)
    assert once == told.folded()


def test_a_clock_set_back_copies_nothing():
    """Records with earlier times that continue the latest record are new, not copies."""
    told = Told().prompt("Do the main work here")
    for _ in range(100):
        told.say("Later.")
    for number in range(3):
        told.record(
            "user",
            message={"content": f"And the work number {number}"},
            uuid=f"back{number}",
            parentUuid=f"back{number - 1}" if number else told.parent,
            timestamp="2026-02-01T09:00:00.000Z",
        )

    assert 4 == told.folded().prompts


def test_how_full_the_context_is():
    """The model and the tokens of the context are those of the last answer."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": 1000}
    told = Told().record("assistant", message={"model": "m-1", "content": [], "usage": usage})

    assert ("m-1", 1005) == (told.folded().model, context_of(told.folded()))


def test_echo():
    """A text with little beyond the injected one is an echo, and another text is not."""
    lines = injected_lines("**Goal:** Replace the payment provider by a new one\n- run the tests")

    assert is_echo("The goal is to replace the payment provider by a new one.", lines)
    assert not is_echo("Replace the colour of the button", lines)
    assert not is_echo("run it", lines)


def test_summary_of_another_form():
    """A summary without the known sections gives nothing."""
    assert {} == read_summary("We talked about many things. Then some more.")


def test_every_event_is_folded():
    """The fold handles exactly the existing kinds of events."""
    assert set(get_args(Event)) == set(_FOLDS)


def test_nothing_is_stored_unmasked():
    """Text that the fold stores to be read later is masked first, too."""
    told = Told().prompt(f"Use {TOKEN} for it").say(f"I'll use {TOKEN} now.")
    told.use("Bash", command=f"curl -H 'X: {TOKEN}' host", description=f"Call with {TOKEN}")
    told.use("Write", file_path=f"{ROOT}/{TOKEN}.py", content=TOKEN)
    told.use("AskUserQuestion", questions=[{"question": f"Is {TOKEN} right?"}])
    told.raw({"type": "ai-title", "aiTitle": TOKEN})
    told.run(f"login {TOKEN}", f"fatal: {TOKEN} is wrong", code=1)
    told.use("TaskUpdate", taskId=TOKEN, subject="x", status=TOKEN)
    told.record("assistant", uuid="u", message={"model": TOKEN, "content": [], "usage": {"x": 1}})
    brief = f'secret {TOKEN} <handoffd-context project="x">\nUse {TOKEN} for it</handoffd-context>'
    told.prompt(brief, isMeta=True)

    assert TOKEN[8:20] not in dump(told.folded()).lower()


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"])
def test_a_key_of_many_lines_is_masked(kind):
    """A private key is masked whole, although sentences and outputs are read line by line."""
    body = "\n".join(f"Qy{number}NTUxOQAAACDxyz{number}aB3cD4eF5" for number in range(9))
    key = f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"
    told = Told().prompt(f"Use this key for it:\n{key}").say(f"Here is the key again:\n{key}")
    told.run("cat key; false", key, code=1).edit("k", f"a\n{key}", "b").edit("k", "b", f"a\n{key}")
    plan = f"# Use the key\n1. {key}\n"
    told.result(told.use("ExitPlanMode", plan=plan), "ok", toolUseResult={"plan": plan})
    told.prompt(f"1. Pending Tasks:\n- {key}\n", isCompactSummary=True)

    assert "NTUxOQ" not in dump(told.folded())


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("npm" + " -p" * 60 + " ztest", ""),
        ("make " + "a_" * 60 + "! test/x", ""),
        ("sudo" + " -u" * 60 + " pytest", ""),
        ("npx mocha", "  1) a\n" + (" " * 400 + "\n") * 60),
        ("swift test", "\n" * 20_000),
        ("vendor/bin/phpunit", "FAILED a" + " " * 20_000),
        ("git commit -m x", "[" + "a" * 24_000),
        ("git checkout " + "a" * 5000 + " x", ""),
        ("pytest", "=" * 24_000),
        ("make test", "1 " * 12_000),
    ],
)
def test_no_command_takes_for_ever(command, output):
    """Commands and outputs that would make a bad pattern run for hours are read at once."""
    Told().run(command, output, code=1).run(command, output).folded()


@pytest.mark.timeout(120)
def test_no_summary_takes_for_ever():
    """A summary of one long word is read at once."""
    told = Told().prompt("1. Pending Tasks:\n" + "A" * 200_000, isCompactSummary=True)
    told.prompt("3. Files and Code Sections:\n" + "A" * 200_000, isCompactSummary=True).folded()


def test_odd_ids_do_no_harm():
    """A task whose id looks like a number and is none is an ordinary task."""
    told = Told().prompt("Paint the whole house today")
    for task in ("²", "10", "x", "", "٣"):
        told.use("TaskUpdate", taskId=task, subject=f"Task {task}", status="pending")

    assert 5 == len(told.folded().todos)


def test_a_clock_set_back_survives_a_compaction():
    """A compaction after the clock was set back starts a new chain, and no record is lost."""
    told = Told().prompt("Do the main work here")
    for _ in range(70):
        told.say("Later.")
    told.envelope["timestamp"] = ""
    early = {"timestamp": "2026-02-01T09:00:00.000Z"}
    told.record("system", subtype="compact_boundary", uuid="b0", **early | {"parentUuid": None})
    for number in range(5):
        told.record(
            "user",
            message={"content": f"And the work number {number}"},
            **early | {"uuid": f"b{number + 1}", "parentUuid": f"b{number}"},
        )

    assert 6 == told.folded().prompts


def test_no_field_is_unbounded():
    """The stored state stays small, with any field made long."""
    long = "x" * 300_000
    told = Told(gitBranch=long, entrypoint=long).prompt(long, uuid=long, timestamp=long)
    told.use("TaskUpdate", taskId=long, subject=long, status=long)
    told.record("assistant", message={"model": long, "content": [], "usage": {"input_tokens": 1}})
    told.prompt(
        f'<handoffd-context project="x">\n{long} {long} a b c</handoffd-context>', isMeta=True
    )
    told.run(long, long, code=1)
    told.raw({"type": long}).raw({"type": "custom-title", "customTitle": f"{long} {long}"})

    assert len(dump(told.folded())) < 40_000


@pytest.mark.parametrize(
    "text",
    [
        "yes please go on",
        "계속 진행해 주세요",
        "continue 👍👍",
        "ja, schön so",
        "let’s go!",
        "fix that please now",
        "weiter so bitte",
    ],
)
def test_going_on_is_no_goal(text):
    """A prompt to go on states no goal, in any language."""
    assert insights.goal(Told().prompt(text).folded()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Confirmed: the key was wrong.", "success"),
        ("All tests pass now.", "success"),
        ("Let me see whether the tests pass.", None),
        ("Not all tests pass yet.", None),
        ("If all tests pass, I will commit.", None),
        ("That is not confirmed yet.", None),
        ("Once it is fixed, I go on.", None),
        ("That did not help.", "That did not help."),
    ],
)
def test_outcome(text, expected):
    """A theory is settled by its outcome, not by hopes or fears."""
    told = Told().prompt("Find out why the cache is stale").say("I suspect the cache key is wrong.")
    found = insights.outcome(told.say(text).folded())

    assert expected == (found.text if found else None)
    assert found is None or found.receipt.evidence == (
        "inferred" if expected == "success" else "quoted"
    )


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("no, don't add a dependency", True),
        ("No. Use the old one.", True),
        ("don't touch the settings", True),
        ("stop that please", True),
        ("nein, nicht so", True),
        ("No errors now, great work!", False),
        ("no, this is fine.", False),
        ("Stop button in the player should be red", False),
        ("Wrong password should show a message", False),
        ("Undo/redo support for the editor please", False),
        ("non blocking io should be used here", False),
        ("don't forget the tests", False),
        ("别名功能也要支持", False),
    ],
)
def test_refusals(text, refused):
    """A refused approach is a dead end; words that only begin like a refusal are not."""
    told = (
        Told().prompt("Build a player for the shop").say("I'll add a library for it.").prompt(text)
    )

    assert refused == bool(insights.dead_ends(told.folded()))


@pytest.mark.parametrize(
    "text",
    [
        "The first of the five endpoints is done. The other four are missing.",
        "Noch nicht fertig.",
        "还未完成",
        "아직 완료되지 않았습니다",
        "All done? Not yet.",
    ],
)
def test_not_everything_that_names_an_end_is_one(text):
    """Unfinished work is not completed, in any language."""
    told = Told().prompt("Build five endpoints for the shop").run("pytest", "3 passed in 0.1s")

    assert "completed" != insights.status(told.say(text).folded()).text


def test_any_red_test_is_not_completed():
    """A test that is still red counts, even if another one is green."""
    told = Told().prompt("Build five endpoints for the shop").edit("a.py")
    told.run("pytest tests/unit", "1 failed in 0.1s", code=1).run(
        "pytest tests/x", "1 passed in 0.1s"
    )

    assert "completed" != insights.status(told.say("All done.").folded()).text


def test_a_question_stays_open_while_others_finish():
    """The result of another tool does not answer a question."""
    told = Told().prompt("Choose a colour for the invoices")
    told.use("AskUserQuestion", questions=[{"question": "Which one?"}])
    told.run("ls", "a.py")

    assert "blocked" == insights.status(told.folded()).text


def test_a_repeated_title_does_not_undo_a_change_of_course():
    """Clients write a title again after every turn; it counts once."""
    title = {"type": "custom-title", "customTitle": "Reports as CSV"}
    told = Told().prompt("Export the reports as CSV for me").raw(title)
    told.prompt("New task: repair the login of the shop for new customers").raw(title)

    assert "repair the login of the shop for new customers" == insights.goal(told.folded()).text


def test_only_what_was_changed_turned_it_green():
    """Files that were only read or staged are not named as changed or thrown away."""
    told = Told().prompt("Repair the tax of the basket").edit("a.py", "1", "2")
    told.run("pytest", "1 failed in 0.1s", code=1)
    told.use("Read", file_path=f"{ROOT}/a.py")
    told.edit("b.py", "3", "4").run("pytest", "1 passed in 0.1s").run("git restore --staged a.py")
    found = [value.text for value in insights.dead_ends(told.folded())]

    assert ["pytest was red (1 failed) until b.py was changed"] == found


@pytest.mark.parametrize("end", ["\n</handoffd-context>", "\n</handoffd-con", ""])
@pytest.mark.parametrize("way", ["title", "plan", "steps", "command"])
def test_our_words_do_not_come_back_by_other_ways(way, end):
    """A title, a plan or a list of steps that repeats our brief, whole or cut, is no evidence."""
    brief = f'<handoffd-context project="x">\n**Goal:** Migrate the billing service to the new store{end}'
    told = Told().prompt(brief, isMeta=True).prompt("continue")
    again = "Migrate the billing service to the new store"
    if way == "title":
        told.raw({"type": "ai-title", "aiTitle": again})
    elif way == "command":
        told = Told().prompt("continue").run("handoff inject", brief)
        told.prompt(f"1. Primary Request and Intent:\n   {again}.\n", isCompactSummary=True)
    elif way == "plan":
        told.result(
            told.use("ExitPlanMode", plan=f"# {again}"), "ok", toolUseResult={"plan": f"# {again}"}
        )
    else:
        told.say(f"Reading.\n\nNext steps:\n- {again}\n")

    assert "(not stated yet)" == told.view().document["goal"]
    assert again not in told.view().document.get("next", [])


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=60,
)
@given(data=st.data())
def test_bytes_may_come_in_any_pieces(tmp_path, data):
    """The state is the same for any split of the bytes and any restart of the reader."""
    told = SCENES[data.draw(st.sampled_from(sorted(SCENES)))]()
    whole = told.data
    cuts = data.draw(st.sets(st.integers(0, len(whole)), max_size=8))
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"")
    cursor, state, position = Cursor("s", "s", str(path)), SessionState("s"), 0
    for cut in sorted({*cuts, len(whole)}):
        with path.open("ab") as stream:
            stream.write(whole[position:cut])
        position = cut
        tail = Tail(cursor)
        for offset, line in tail.read().lines:
            for record in parse_line(offset, line).records:
                fold(state, record, "s")
        state = load(dump(state))

    assert dump(told.folded()) == dump(state)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(
        st.sampled_from([line for scene in SCENES.values() for line in scene().lines[:6]])
        | st.binary(max_size=60),
        max_size=30,
    )
)
def test_any_lines_fold(lines):
    """Folding and composing never fail, for any lines in any order."""
    state = folded(b"\n".join(lines))

    assert view(load(dump(state))).document == view(state).document


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(data=st.data())
def test_cuts_do_not_matter(data):
    """The state is the same if reading is interrupted, stored and resumed at any point."""
    told = SCENES[data.draw(st.sampled_from(sorted(SCENES)))]()
    whole = told.folded()
    cuts = data.draw(st.sets(st.integers(0, len(told.lines)), max_size=6))

    assert dump(whole) == dump(_folded_in_parts(told.lines, cuts))


def _folded_in_parts(lines, cuts) -> SessionState:
    state, offset = SessionState("s"), 0
    for number, line in enumerate(lines):
        if number in cuts:
            state = load(dump(state))
        for record in parse_line(offset, line).records:
            fold(state, record, "s")
        offset += len(line) + 1
    return state


@given(st.text(max_size=300))
def test_any_text_is_made_fit(text):
    """The kept form of any text is one bounded line without control characters."""
    kept = keep(text, 50)

    assert len(kept) <= 50
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in kept)
    kept.encode("utf-8")


def test_escapes_and_hidden_characters_are_dropped():
    """Terminal escapes, direction overrides and invisible tags are removed."""
    assert "red title end" == clean("\x1b[31mred\x1b[0m \x1b]0;evil\x07title\u202e \U000e0041end")


def begins(text: str) -> str:
    return opening(sentences(plain(text)))


def test_opening():
    """The opening has enough sentences to be meaningful, without markup and code."""
    assert (
        "Good. I fix the parser of the configuration file, then its tests. More of it."
        == begins(
            "## Good.\n\n- I fix the **parser** of the `configuration` file, then its tests. More of it."
        )
    )
    assert "Done. The list is sorted." == begins("Done.\n\n**Changes:**\n- The list is sorted.")
    assert "Done." == begins("Done.\n\n**Next steps:**\n- Sort the list.")
    assert "Das ist gut. Und das auch." == begins("Das ist gut. Und das auch.")
    assert "修复了。 然后" == begins("修复了。 然后")
    assert "" == begins("```\ncode\n```")


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("# Plan: Cache the rates\n\n1. x", "Cache the rates"),
        ("## Implementation Plan - Cache", "Cache"),
        ("Cache the rates.\nThen more.", "Cache the rates."),
        ("", ""),
    ],
)
def test_heading_of_a_plan(plan, expected):
    """A plan is named by its title without the word "plan", or by its first line."""
    assert expected == heading(plan)


def test_request():
    """The request is the plan itself, without the words before it."""
    assert "Add a login page\nWith tests." == request(
        "Implement the following plan:\n\n# Add a login page\nWith tests."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The test fails. Let me look at the parser first. It is old.", ""),
        ("It is old. Let me look at the parser first.", "Let me look at the parser first."),
        ("Done. I'll leave it at that if you agree.", ""),
        ("Good. Now I'll fix it.\n- I will also add a test.", "I will also add a test."),
        ("All tests pass.", ""),
        ("测试失败了。 现在修复解析器：", "现在修复解析器."),
        ("These are the changes:\n```\na\n```\n", ""),
        ("letting go", ""),
    ],
)
def test_last_intention(text, expected):
    """The intention is the announcement that a statement ends with; a report's colon is none."""
    assert expected == statements(Told().say(text).folded())[-1].intention


def test_shorten_at_a_word():
    """A long line is cut at a word, with an ellipsis."""
    assert "one two…" == shorten("one two three", 10)
    assert "x" * 9 + "…" == shorten("x" * 30, 10)


# Built from pieces, so that no scanner takes this file for a leak.
TOKEN = "ghp_" + "aB3" * 12


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "-",
        "a",
        "0f",
        "eyJ-",
        "eyJa.",
        "sk-",
        "://a:",
        "key_",
        "password ",
        "\x1b]",
        "-----BEGIN ",
        "\n",
        " \n",
        "1. A: ",
        "- ",
        "```",
        "no ",
        "now ",
        "when ",
    ],
)
def test_no_text_takes_its_square(unit):
    """64 KiB of each repeated piece ends in the time limit; a backtracking rule takes minutes."""
    text = unit * (65536 // len(unit))
    redact(text)
    clean(text)
    request(text)
    statements(Told().say(text).folded())
    read_summary(f"1. Primary Request:{text}")


def test_hidden_characters_do_not_hide_a_secret():
    """A token with an invisible character in it, or behind much space, is masked, too."""
    assert "[redacted:github-token]" == redact_values(TOKEN[:2] + "\u200b" + TOKEN[2:])
    assert "aB3" not in keep("Fix " + " " * 8160 + TOKEN, 300)
    assert "hunter2x" not in redact("redis://:hunter2x@host/0")[0]


def test_a_secret_is_never_cut_before_it_is_recognised():
    """A secret at the limit is masked, not cut in half."""
    kept = keep("x" * 40 + " " + TOKEN, 100)

    assert 1 == count_masks(kept)
    assert "ghp_" not in kept


def test_going_on_leaves_what_is_pending():
    """After a compaction, "go on" continues with the summary's pending work."""
    told = SCENES["after_a_compaction"]().prompt("Go on, please.")

    assert "Move the invoices of 2024" in told.view().document["next"][0]


@pytest.mark.parametrize("text", ["stop", "No.", "forget that", "cancel everything", "that's all"])
def test_who_calls_it_off_leaves_nothing_pending(text):
    """A person who calls the work off drops its pending steps."""
    told = SCENES["after_a_compaction"]().prompt(text)

    assert [] == told.folded().steps


def test_a_file_has_one_name():
    """A file that the client tracks by its relative path is the edited file."""
    told = Told().prompt("Round the tax per line, please").edit("tax.py")
    for path in ("tax.py", "./tax.py"):
        told.record("file-history-delta", trackingPath=path)

    assert [f"{ROOT}/tax.py"] == [file.path for file in told.folded().files]


def test_a_relative_path_before_the_directory_is_known():
    """Contents that the client states before it states the session's directory name no file."""
    told = snapshot(Told(), "u", update="m", tax_py="01af@v2")

    assert [] == told.folded().files


@pytest.mark.parametrize(
    "text",
    ["Done.", "It is COMPLETE", "finished now", "It has been merged.", "All 12 tests pass",
     "Successfully created it", "ready for review", "完了", "Das ist fertig", "C'est TERMINÉ"],
)  # fmt: skip
def test_each_way_to_say_that_it_is_done(text):
    """The words of the first, quick search cover every way of calling work done."""
    told = Told().prompt("Round the tax per line, please").say(text)

    assert statements(told.folded())[-1].done
