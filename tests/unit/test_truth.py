"""What a handoff says is true: goals, rewinds, queues, rules, offers, reports, plans and words."""

import pytest

from handoffd.session import insights
from handoffd.session.state import SessionState
from handoffd.session.storage import dump, load
from scripted_session import ROOT, Told, Tree, folded, snapshot

FIRST = "Write the parser of the price lists in parser.py"
LOGIN = (
    "Actually, forget the parser. Customers cannot log in with a space in their name, fix that in"
    " login.py instead"
)
REPORT = "The parser is written, and its tests pass."


def told(state: SessionState, name: str) -> list[str]:
    """Return what is told under a name, as texts."""
    value = getattr(insights, name)(state)
    if isinstance(value, list):
        return [item.path if hasattr(item, "path") else item.text for item in value]
    return [value.text] if value else []


def goal(state: SessionState) -> str:
    return "".join(told(state, "goal"))


def upcoming(state: SessionState) -> str:
    return "\n".join(told(state, "upcoming"))


def files(state: SessionState) -> list[str]:
    return [path.removeprefix(f"{ROOT}/") for path in told(state, "files")]


def everything(state: SessionState) -> str:
    names = ("goal", "now", "upcoming", "status", "questions", "offers", "dead_ends", "outcome")
    kept = [*state.decisions, *state.rules, *state.queued]
    texts = [text for name in names for text in told(state, name)]
    return "\n".join([*texts, *(value.text for value in kept)])


def parser_work() -> Told:
    """A first piece of work, done and reported."""
    return Told().prompt(FIRST).edit("parser.py").edit("test_parser.py").say(REPORT)


# Goal switches


@pytest.mark.parametrize(
    "text",
    [
        LOGIN,
        "Leave the parser for now. The login form accepts empty passwords, please repair it",
        "Scrap that, we need the login form to refuse empty passwords first",
        "Never mind the parser, let's make the login form refuse empty passwords",
        "Put the parser aside and make the login form refuse empty passwords",
        "Stop working on the parser. Make the login form refuse empty passwords",
        "Change of plans: the login form must refuse empty passwords by tonight",
        "New task: the login form accepts empty passwords, repair it",
        "Let's switch to the login form: it accepts empty passwords",
        "Okay, moving on to the login form. It accepts empty passwords, repair it",
        "Something more urgent came up: the login form accepts empty passwords",
        "Instead of the parser, work on the login form: it accepts empty passwords",
        "Hold off on the parser. The login form accepts empty passwords and has to be fixed",
        "Next topic: the login form accepts empty passwords",
        "Park this, the login form accepts empty passwords and customers complain",
        "Thanks. Now the login form: it accepts empty passwords, please repair it",
        "Vergiss den Parser, das Login-Formular nimmt leere Passwörter an, bitte repariere das",
        "Neue Aufgabe: das Login-Formular nimmt leere Passwörter an, bitte repariere das",
        "Lass den Parser erstmal liegen, das Login-Formular nimmt leere Passwörter an",
        "파서는 그만두고 로그인 폼이 빈 비밀번호를 거부하게 고쳐 줘",
        "다른 작업: 로그인 폼이 빈 비밀번호를 받아들이는 문제를 고쳐 줘",
        "Parser'ı boş ver, login formu boş parolaları kabul ediyor, onu düzelt",
        "Yeni görev: login formu boş parolaları kabul ediyor, düzelt",
        "先别管解析器了，登录表单接受空密码，请修复登录表单",
        "新任务：登录表单接受空密码，请修复",
    ],
)
def test_switches(text):
    """A request that turns to another task is the goal, once its own file is edited."""
    state = parser_work().prompt(text).edit("login.py").folded()

    assert goal(state).lower() in text.lower()
    assert "price lists" not in goal(state)
    assert FIRST not in upcoming(state)


@pytest.mark.parametrize(
    "text",
    [
        LOGIN,
        "Leave the parser for now. The login form accepts empty passwords, please repair it",
        "New task: the login form accepts empty passwords, repair it",
        "Hold off on the parser. The login form accepts empty passwords and has to be fixed",
        "Vergiss den Parser, das Login-Formular nimmt leere Passwörter an, bitte repariere das",
        "파서는 그만두고 로그인 폼이 빈 비밀번호를 거부하게 고쳐 줘",
        "Parser'ı boş ver, login formu boş parolaları kabul ediyor, onu düzelt",
        "先别管解析器了，登录表单接受空密码，请修复登录表单",
    ],
)
def test_switches_in_the_middle(text):
    """A task that is dropped half done is neither the goal nor a next step, before any edit."""
    half = Told().prompt(FIRST).edit("parser.py").say("Now I'll write its tests.")
    state = half.prompt(text).folded()

    assert "price lists" not in goal(state)
    assert FIRST not in upcoming(state)
    assert "write its tests" not in upcoming(state)


@pytest.mark.parametrize(
    "text",
    [
        "Now make the login form refuse empty passwords",
        "The login form accepts empty passwords, please repair it",
        "Next, customers want to log in with their phone number",
        "Can you now make the login form refuse empty passwords?",
        "Jetzt soll das Login-Formular leere Passwörter ablehnen",
        "이제 로그인 폼이 빈 비밀번호를 거부하게 고쳐 주세요",
        "Şimdi login formu boş parolaları reddetsin",
        "现在修复登录表单，它接受空密码",
        "接下来请修复登录表单的空密码问题",
    ],
)
def test_next_tasks(text):
    """After committed work a request about something else is the goal, once it is worked on."""
    story = parser_work().run(
        'git commit -m "Read the price lists"', "[main 1a2b3c4] Read the price lists\n 2 files"
    )
    story.say("Committed.").prompt(text)
    assert "price lists" in goal(story.folded())

    state = story.edit("login.py").folded()
    assert goal(state) == text


@pytest.mark.parametrize(
    "text",
    [
        "How many tests does the payment module have?",
        "What does the login form do with empty passwords?",
        "Also cover empty lines",
        "Use a generator instead of a list",
        "Can you add a test for lists with a byte order mark?",
        "Now run the whole test suite",
        "Please document the columns in the README",
        "It fails for lists with semicolons, fix that",
        "continue",
        "The same for the XML lists, please",
        "Don't forget the last line when it has no newline",
        "Move the helper functions to the end of parser.py",
        "Never mind the warnings, they are known",
        "Drop the last column, nobody reads it",
        "Und bitte auch die leeren Zeilen prüfen",
        "테스트도 추가해 줘",
        "Boş satırları da kontrol et",
        "再加一个空行的测试",
    ],
)
def test_follow_ups(text):
    """A question, a correction or an addition leaves the goal, whatever its words."""
    state = parser_work().prompt(text).say("I'll look.").edit("parser.py").folded()

    assert "price lists" in goal(state)


def test_a_later_question_is_no_goal():
    """A question after finished work and "continue" is neither the goal nor a next step."""
    story = parser_work().prompt("continue").say("The XML lists are read, too.")
    story.prompt("How many tests does the payment module have?")
    state = story.run("grep -c def test_payment.py", "12").say("It has 12 tests.").folded()

    assert "price lists" in goal(state)
    assert "payment" not in goal(state) + upcoming(state)


# Rewinds


def two_turns(newest: bool) -> Tree:
    tree = Tree(newest)
    tree.ask("First: write a.py for the totals").change("a.py", None).done("a.py is written.")
    tree.ask("Second: write b.py for the taxes").stand(a_py="a@v2")
    tree.change("b.py", None).change("a.py", None, known=True).change("old.py", "old@v1")
    return tree.done("b.py is written.")


VERSIONS = pytest.mark.parametrize("newest", [True, False], ids=["2.1.325", "2.1.197"])


TAKEN_BACK = {"b_py": None, "a_py": "a@v2", "old_py": "old@v1"}
STANDING = {"b_py": "b@v2", "a_py": "a@v3", "old_py": "old@v2"}


def third_turn(tree: Tree, *, conversation: bool, before: bool, entries: dict) -> SessionState:
    """Ask once more; the statement of the files stands before or after the prompt."""
    if conversation:
        tree.parent = tree.parents[1]
    if before:
        snapshot(tree, tree.next_uuid, **entries)
    tree.ask("Third: write c.py for the labels")
    if not before:
        tree.stand(**entries)
    return tree.change("c.py", None).done("c.py is written.").folded()


@VERSIONS
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("conversation", [True, False], ids=["conversation", "not"])
@pytest.mark.parametrize("code", [True, False], ids=["code", "not"])
def test_rewinds(newest, before, conversation, code):
    """A rewind takes back what was said, the files, or both, in both versions of the client."""
    entries = TAKEN_BACK if code else STANDING
    state = third_turn(two_turns(newest), conversation=conversation, before=before, entries=entries)

    expected = {"a.py", "c.py"} if code else {"a.py", "b.py", "old.py", "c.py"}
    assert set(files(state)) == expected
    known = everything(state) + str(state.requests)
    assert ("taxes" in known) == (not conversation)


@VERSIONS
def test_rewinding_the_first_prompt(newest):
    """After a rewind of the first prompt the next one is the whole session."""
    tree = two_turns(newest)
    tree.ask("Third: write c.py for the labels", None)
    tree.stand(a_py=None, b_py=None, old_py="old@v1").change("c.py", None).done("c.py is written.")
    state = tree.folded()

    assert files(state) == ["c.py"]
    assert "labels" in goal(state)
    assert "totals" not in everything(state)
    assert "taxes" not in everything(state)


def test_rewinding_without_kept_contents():
    """Without a statement of the files' contents the edits of the dead branch leave the files."""
    tree = Tree().ask("First: write a.py for the totals").edit("a.py")
    tree.done("a.py is written.").ask("Second: write b.py for the taxes").edit("b.py")
    tree.done("b.py is written.").ask("Third: write c.py for the labels", tree.parents[1])
    state = tree.edit("c.py").folded()

    assert set(files(state)) == {"a.py", "c.py"}
    assert "taxes" not in everything(state)


@VERSIONS
def test_escape_before_an_answer(newest):
    """A prompt that is taken back before the answer, and its rules, are not told."""
    tree = Tree(newest).ask("Write a.py for the totals").change("a.py", None)
    tree.done("a.py is written.")
    tree.ask("Never use floats in b.py, wrong wrods").ask(
        "Write b.py for the taxes", tree.parents[1]
    )
    state = tree.folded()

    assert "wrods" not in everything(state)
    assert not state.rules
    assert "taxes" in upcoming(state)


def test_the_race_of_the_older_client():
    """A file that is new in a turn is not taken back by the turn's own late statement."""
    tree = Tree(newest=False).ask("Write a.py for the totals").change("a.py", None)
    tree.done("a.py is written.").ask("Write b.py for the taxes")
    first, second = tree.prompts
    tree.edit("b.py")
    snapshot(tree, first, update=tree.parent or "", a_py=None, b_py=None)
    snapshot(tree, second, a_py="a@v2", b_py=None)
    state = tree.done("b.py is written.").folded()

    assert set(files(state)) == {"a.py", "b.py"}


def test_escape_with_a_queued_prompt():
    """A queued prompt that hangs beside the interrupted call's result is alive."""
    tree = Tree().ask("Write a.py for the totals").change("a.py", None)
    tree.raw({"type": "queue-operation", "operation": "enqueue", "content": "Print the taxes too"})
    call = tree.use("Bash", command="sleep 60", description="Wait")
    parent = tree.parent
    tree.raw({"type": "queue-operation", "operation": "dequeue"})
    tree.ask("Print the taxes too")
    tree.parent = parent
    tree.result(call, "The user doesn't want to proceed with this tool use.", error=True)
    tree.prompt([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    state = tree.folded()

    assert "a.py" in files(state)
    assert "Print the taxes too" in upcoming(state)
    assert not state.queued


def test_a_prompt_below_a_compaction_is_no_sibling():
    """A prompt that begins a new chain below a compaction rewinds nothing."""
    tree = Tree().ask("Write a.py for the totals").change("a.py", None).done("a.py is written.")
    tree.parent = None
    tree.compact()
    state = tree.ask("Write b.py for the taxes").change("b.py", None).folded()

    assert set(files(state)) == {"a.py", "b.py"}
    assert "totals" in str(state.requests) + goal(state)


# Queued prompts


def test_queued_prompts():
    """A prompt typed during work is next, at once; taken up or taken back it is not queued."""
    story = Told().prompt(FIRST).edit("parser.py")
    story.queue("enqueue", "Then print the labels of the parcels")
    assert told(story.folded(), "upcoming")[0] == "Then print the labels of the parcels"

    story.queue("enqueue", "Then mail them to the customers")
    story.queue("remove")
    queued = {"type": "queued_command", "commandMode": "prompt"}
    story.record(
        "attachment", attachment=queued | {"prompt": "Then print the labels of the parcels"}
    )
    state = story.folded()
    assert [value.text for value in state.queued] == ["Then mail them to the customers"]
    assert "print the labels" in upcoming(state)

    story.queue("popAll", "Then mail them to the customers")
    assert not story.folded().queued


def test_queued_notifications_are_no_prompts():
    """The end of a background command goes through the queue, and asks for nothing."""
    story = Told().prompt(FIRST).edit("parser.py")
    story.queue("enqueue", "<task-notification>\n<task-id>b1</task-id></task-notification>")
    story.queue("enqueue", "Then print the labels of the parcels")
    story.queue("dequeue")
    state = story.folded()

    assert [value.text for value in state.queued] == ["Then print the labels of the parcels"]
    assert "task-" not in upcoming(state)


# Theories


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Confirmed: the cache key lacked the user id. I ruled out the clock skew.", "success"),
        ("I ruled out the clock skew. Confirmed: the cache key lacks the user id.", "success"),
        ("I ruled out the cache key: it has the user id.", "ruled out the cache key"),
        ("That was it: the key had no user id. The clock was not the problem.", "success"),
    ],
)
def test_verdicts(said, expected):
    """A theory is settled by the sentence about it, not by one that rules out another theory."""
    story = Told().prompt("Customers see each other's basket since Monday, find out why")
    story.say("I suspect that the cache key lacks the user id.").run("grep key cache.py", "key")
    found = "".join(told(story.say(said).folded(), "outcome"))

    assert expected in found


# Rules and decisions


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Compute the totals. Never use floats: accounting insists on cents.", "floats accounting"),
        ("Prices are stored as cents, never floats: accounting insists", "never floats accounting"),
        ("Don't touch the vendored files, they are replaced at each release", "vendored replaced"),
        ("Always run the linter before a commit, please", "linter"),
        ("The public names must not change because two partners use them", "public partners"),
        ("No new dependencies. The build server has no network.", "dependencies"),
        ("Benutze niemals Gleitkommazahlen, die Buchhaltung verbietet es", "niemals Buchhaltung"),
        ("절대 부동소수점을 쓰지 마세요, 회계팀이 금지했습니다", "부동소수점"),
        ("Asla ondalık sayı kullanma, muhasebe istemiyor", "ondalık muhasebe"),
        ("不要使用浮点数，会计不允许", "浮点数"),
    ],
)
def test_rules(text, parts):
    """What a person forbids or insists on is kept with its reason, and is no next step."""
    story = Told().prompt(FIRST).say("I'll begin.").prompt(text)
    state = story.edit("totals.py").say("Understood, the totals are computed that way.").folded()
    rules = "\n".join(value.text for value in state.rules)

    assert all(part in rules for part in parts.split())
    assert not any(rule.text in upcoming(state) for rule in state.rules)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Decision: ASCII only, because the CDN rejects others", "ASCII CDN"),
        ("We decided to keep the old numbers. Otherwise the auditors complain.", "old auditors"),
        ("Let's go with SQLite since the shop has one server", "SQLite server"),
        ("Okay, we'll use the second variant, it needs no migration", "second migration"),
        ("Entscheidung: nur ASCII, weil das CDN andere Namen ablehnt", "ASCII CDN"),
    ],
)
def test_decisions(text, parts):
    """What a person decides is kept with its reason, and survives later prompts."""
    story = Told().prompt(FIRST).say("I'll begin.").prompt(text).edit("names.py").say("Done.")
    state = story.prompt("continue").say("The names are written.").folded()
    decisions = "\n".join(value.text for value in state.decisions)

    assert all(part in decisions for part in parts.split())


@pytest.mark.parametrize(
    "text",
    [
        "Never mind, it works now",
        "It never works on Safari, find out why",
        "Why must the key not be empty?",
        "The import always fails on Mondays",
        "I have never seen this error before",
        "Nevertheless, repair the second one",
        "The log says: must not be null",
        "You should not need more than one file for this",
        "Users can not log in since this morning",
    ],
)
def test_no_rules(text):
    """A complaint, a question and a quoted message are no rules."""
    state = Told().prompt(FIRST).say("I'll begin.").prompt(text).folded()

    assert not state.rules


def test_rules_survive_compactions():
    """Rules and decisions are told after two compactions, as they were said."""
    story = Told().prompt(f"{FIRST}. Never use floats: accounting insists.")
    story.prompt("Decision: ASCII only, because the CDN rejects others").edit("parser.py")
    for _ in range(2):
        story.compact("Print the totals of each list")
        story.say("I go on with the totals.").edit("totals.py")
    state = load(dump(story.folded()))

    assert ["Never use floats: accounting insists."] == [rule.text for rule in state.rules]
    assert any("CDN" in value.text for value in state.decisions)


# Offers, questions, reports


@pytest.mark.parametrize(
    "closing",
    [
        "Let me know if you want more.",
        "Let me know if you have any questions!",
        "I can also add a page for the labels if you like.",
        "If you want, I can measure it on a larger list.",
        "Happy to explain any part of it.",
        "Say the word and I'll open a pull request.",
        "Wenn du möchtest, kann ich noch die Doku anpassen.",
        "원하시면 문서도 추가하겠습니다.",
        "İstersen testleri de yazarım.",
        "如果你需要，我可以补充文档。",
    ],
)
def test_offers_keep_nothing_open(closing):
    """Finished work with an offer is completed, and nothing is next."""
    state = Told().prompt(FIRST).edit("parser.py").say(f"{REPORT} {closing}").folded()

    assert told(state, "status") == ["completed"]
    assert told(state, "upcoming") == []


@pytest.mark.parametrize(
    "closing",
    [
        "Which of the two columns holds the price?",
        "Should the total include the tax, or not?",
        "Welche der beiden Spalten enthält den Preis?",
        "두 열 중 어느 것이 가격입니까?",
        "Hangi sütun fiyatı içeriyor?",
        "哪一列是价格？",
    ],
)
def test_questions_block(closing):
    """A session whose last words are a question waits for the person, and is not completed."""
    state = Told().prompt(FIRST).edit("parser.py").say(f"The parser is begun. {closing}").folded()

    assert told(state, "status") == ["blocked"]
    assert told(state, "questions") == [closing]
    assert closing in upcoming(state)


@pytest.mark.parametrize(
    "report",
    [
        "Done. The parser reads all three kinds of lists.",
        "The parser is written and committed.",
        "Here is what changed:\n- parser.py reads the lists\n- test_parser.py covers them",
        "Changes made:\n\n1. The parser skips empty lines\n2. It reports the line of an error",
        "All 14 tests pass. The three kinds of lists are read now:\n\n```\na, b, c\n```",
        "Fertig. Der Parser liest alle drei Arten von Listen.",
        "완료했습니다. 파서가 세 가지 목록을 모두 읽습니다.",
        "Tamam, parser üç listeyi de okuyor.",
        "已完成。解析器可以读取三种列表。",
    ],
)
def test_finished_reports(report):
    """A report ends its request: it is completed, and not told as the next step."""
    state = Told().prompt(FIRST).edit("parser.py").say(report).folded()

    assert told(state, "status") == ["completed"]
    assert told(state, "upcoming") == []


@pytest.mark.parametrize(
    ("report", "left"),
    [
        ("The parser is done. The pricing page is still to be done.", "pricing page"),
        ("Done.\n\nRemaining:\n- Describe the format\n- Print the labels", "Describe the format"),
        ("The parser is written. The labels are not migrated yet.", "labels"),
        ("Der Parser ist fertig. Die Preisseite ist noch offen.", "Preisseite"),
    ],
)
def test_reports_with_a_rest(report, left):
    """The rest that a report names is next, and the work is not completed."""
    state = Told().prompt(FIRST).edit("parser.py").say(report).folded()

    assert told(state, "status") == ["in_progress"]
    assert left in upcoming(state)
    assert FIRST not in upcoming(state)


# Our own commands


OURS = ["close", "create_handoff", "handoff-thread", "resume_handoff", "conductor-handoff", "open"]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("prefix", ["", "handoffd:"])
def test_our_commands_leave_no_trace(name, prefix):
    """Handing off is no work: goal, now, next and status are those from before it."""
    before = parser_work().folded()
    story = parser_work().command(prefix + name)
    story.prompt("Write the handoff of this session with the tool.", isMeta=True)
    story.say("I'll save the handoff:").run("handoff save --goal x", "saved")
    after = story.say("The handoff is saved, and the thread is closed.").folded()

    for value in ("goal", "now", "upcoming", "status"):
        assert told(after, value) == told(before, value)


def test_a_request_behind_our_command():
    """What a person writes behind "/open" is a request."""
    state = parser_work().command("handoffd:open", "print the labels of the parcels").folded()

    assert "print the labels" in upcoming(state)


def test_close_inside_a_call():
    """A handoff that the assistant makes itself leaves the finished task finished."""
    story = parser_work().prompt("we are done, close it")
    call = story.use("Skill", skill="handoffd:close", args="")
    story.result(call, "Launching skill: handoffd:close")
    story.run("handoff close", "closed").say("The session is closed.")
    state = story.folded()

    for value in ("goal", "now", "upcoming", "status"):
        assert told(state, value) == told(parser_work().folded(), value)


def test_work_before_a_handoff_in_one_request():
    """A request that led to work before it handed over is answered, and its report is told."""
    story = parser_work().prompt("sort the rows, then close the session").edit("rows.py")
    story.say("The rows are sorted.")
    call = story.use("Skill", skill="handoffd:close", args="")
    state = story.result(call, "Launching skill: handoffd:close").say("Closed.").folded()

    assert "rows.py" in files(state)
    assert told(state, "upcoming") == []
    assert "The rows are sorted." in "".join(told(state, "now"))


# Commits


@pytest.mark.parametrize(
    "line",
    [
        "git commit -q -m x",
        "git add -A && git commit -q -m x",
        'git commit -qam "x"',
        "git commit --quiet --message=x",
    ],
)
@pytest.mark.parametrize("by_person", [True, False])
def test_quiet_commits(line, by_person):
    """A commit that prints nothing counts, whoever made it."""
    story = parser_work()
    if by_person:
        story.shell(line)
    else:
        story.run(line)
    state = story.say("The change is committed.").folded()

    assert ["x"] == [value.text for value in state.commits]
    assert "price lists" in goal(state)
    assert not any("Commit" in text for text in told(state, "offers"))


def test_failed_commits():
    """A commit that failed is no commit."""
    story = parser_work()
    story.prompt("<bash-input>git commit -q -m x</bash-input>")
    story.prompt(
        "<bash-stdout></bash-stdout><bash-stderr>fatal: not a git repository</bash-stderr>"
    )

    assert not story.folded().commits


# Plans


PLAN = "# Round the taxes\n\n1. Round the drinks\n2. Print the sums\n3. Mail the accountant\n"


def planned() -> Told:
    return Told().prompt("the taxes are wrong, think about it").approve(PLAN)


@pytest.mark.parametrize(
    "text",
    [
        "continue",
        "How does the rounding of the drinks work?",
        "use half up, please",
        "and keep the old column",
        "weiter",
        "계속해줘",
    ],
)
def test_plan_steps_survive_prompts(text):
    """The steps of an approved plan stay next, whatever is said in between."""
    story = planned().say("I begin with the drinks.").prompt(text).edit("drinks.py")
    state = story.say("I rounded the first half of them.").prompt(text).folded()

    assert "Print the sums" in upcoming(state)
    assert "Mail the accountant" in upcoming(state)


def test_plan_steps_survive_compactions():
    """The steps of a plan survive two compactions whose summaries do not name them."""
    story = planned().say("I begin with the drinks.").edit("drinks.py")
    for _ in range(2):
        story.compact("Look at the rounding of the drinks once more")
        story.say("I go on with the drinks.").edit("drinks.py")
    state = load(dump(story.folded()))

    assert "Print the sums" in upcoming(state)
    assert "Mail the accountant" in upcoming(state)


def test_plan_steps_are_closed_by_work():
    """A commit or a report of a step closes that step alone; the others stay."""
    story = planned().edit("drinks.py")
    story.run(
        'git commit -m "Round the drinks"', "[main 1a2b3c4] Round the drinks\n 1 file changed"
    )
    state = story.folded()
    assert "Round the drinks" not in told(state, "upcoming")
    assert "Print the sums" in upcoming(state)

    state = story.say("The drinks are rounded and committed.").prompt("go on").folded()
    assert "Print the sums" in upcoming(state)
    assert "Mail the accountant" in upcoming(state)

    story.edit("sums.py").say("All three steps are done: drinks, sums and the mail.")
    assert told(story.folded(), "upcoming") == []


def test_announced_steps_survive_a_question():
    """The rest that a report named stays next while a question is answered."""
    story = Told().prompt(FIRST).edit("parser.py")
    story.say("The parser is done.\n\nNext steps:\n- Describe the format\n- Print the labels")
    story.prompt("Which module reads the tax table?").say("The module tax.py reads it.")

    assert "Describe the format" in upcoming(story.folded())


# A person's words


@pytest.mark.parametrize(
    "text",
    [
        "Replace the payment provider by a new one, with a circuit breaker",
        "Replace the payment provider by a new one",
        "the same in server.py, with a circuit breaker",
        "Go on comparing the fees of both providers for small orders",
    ],
)
def test_a_person_is_no_echo(text):
    """What a person typed counts, however much it resembles what we told the session."""
    brief = (
        f'<handoffd-context project="{ROOT}" at="2026-02-28T09:00:00.000Z">\n'
        "A record of earlier work in this project, kept by handoffd.\n\n"
        "**Goal:** Replace the payment provider by a new one\n"
        "**Next:** the same in server.py, with a retry\n"
        "**Now:** Comparing the fees of both providers for small orders\n</handoffd-context>"
    )
    added = {"type": "hook_additional_context", "content": [brief], "hookEvent": "SessionStart"}
    story = Told().record("attachment", attachment=added).prompt(text)
    state = story.folded()

    assert goal(state) == text
    assert text in upcoming(state)


@pytest.mark.parametrize("text", ["Set x to 3.", "Rename a to b", "3을 쓰세요", "wörter zählen"])
def test_short_requests(text):
    """The shortest request is a goal."""
    state = Told().prompt(text).edit("x.py").folded()

    assert goal(state) == text


LOG = "\n".join(
    f"2026-03-01 09:00:{number:02d} ERROR worker failed: 0x{number:04x}" for number in range(30)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"Find out why the worker stops at night\n\n{LOG}",
            "Find out why the worker stops at night",
        ),
        (
            f"{LOG}\n\nFind out why the worker stops at night",
            "Find out why the worker stops at night",
        ),
        (
            "Given this as a context:\n\nPrint the labels of all parcels on one page",
            "Print the labels of all parcels on one page",
        ),
        ("Hi! Please print the labels of all parcels", "Please print the labels of all parcels"),
        (
            "[Image #1] The button is hidden behind the footer, repair it",
            "The button is hidden behind the footer, repair it",
        ),
    ],
)
def test_pasted_text_and_preambles(text, expected):
    """The goal is what was asked for, without the pasted log and the words before it."""
    assert goal(Told().prompt(text).edit("a.py").folded()) == expected


def test_long_goals_are_not_cut():
    """A long request is told as whole sentences or clauses, never as half a word."""
    text = "Let the shop print the labels of all parcels on one page, " + ", ".join(
        f"with the column number {number} in the order of the warehouse" for number in range(9)
    )
    found = goal(Told().prompt(text).edit("a.py").folded())

    assert text.startswith(found.rstrip("…"))
    assert not found.endswith("…")


def test_stored_and_read_again():
    """Every scene of this module is the same after it was stored and read again."""
    state = planned().prompt("Never use floats: accounting insists.").edit("a.py").folded()

    assert everything(load(dump(state))) == everything(state)
    assert folded(b"").requests == []


def test_resuming_after_a_rewind():
    """A session that is resumed after a rewind has its branch again, but not the undone edits."""
    tree = two_turns(newest=True)
    snapshot(tree, "u9999-0000-4000-8000-000000000000", **TAKEN_BACK)
    snapshot(tree, tree.next_uuid, **TAKEN_BACK)
    state = tree.ask("Fourth: go on").folded()

    assert files(state) == ["a.py"]
    assert "taxes" in str(state.requests)


def test_rewinding_twice():
    """Each rewind drops what came after its place, also over several prompts."""
    tree = Tree().ask("Write a.py for the totals").change("a.py", None).done("a.py is written.")
    tree.ask("Write b.py for the taxes").stand(a_py="a@v2").change("b.py", None).done("Written.")
    tree.ask("Write c.py for the labels").stand(a_py="a@v2", b_py="b@v2").change("c.py", None)
    tree.done("Written.").ask("Write d.py for the mails", tree.parents[1])
    tree.stand(a_py="a@v2", b_py=None, c_py=None).change("d.py", None).done("d.py is written.")
    state = tree.folded()
    assert set(files(state)) == {"a.py", "d.py"}

    tree.ask("Write e.py for the stamps", tree.parents[1])
    tree.stand(a_py="a@v2", b_py=None, c_py=None, d_py=None).change("e.py", None)
    state = tree.folded()
    assert set(files(state)) == {"a.py", "e.py"}
    assert not [word for word in ("taxes", "labels", "mails") if word in everything(state)]


def test_a_rewound_switch_brings_the_goal_back():
    """If the prompt that changed the goal is rewound, the goal before it is told again."""
    tree = Tree().ask(FIRST).change("parser.py", None).done(REPORT)
    tree.ask(LOGIN).stand(parser_py="p@v2").change("login.py", None).done("The login works.")
    tree.ask("Also read empty lines", tree.parents[1]).stand(parser_py="p@v2", login_py=None)
    state = tree.change("parser.py", None, known=True).folded()

    assert "price lists" in goal(state)
    assert "log in" not in everything(state)


def test_a_rewound_rule_is_none():
    """Rules, decisions, plans, tests and todos of a dropped branch are not told."""
    tree = Tree().ask(FIRST).change("parser.py", None).done(REPORT)
    tree.ask("Never use floats. Decision: ASCII only, because the CDN rejects others")
    tree.approve(PLAN)
    tree.run("pytest -q", "1 failed in 0.1s", code=1)
    tree.use("TodoWrite", todos=[{"content": "Round the beans", "status": "pending"}])
    tree.done("The taxes are planned.").ask("Read empty lines, too", tree.parents[1])
    state = tree.folded()

    assert not [*state.rules, *state.decisions, *state.checks, *state.todos, *state.steps]
    assert "taxes" not in everything(state)


@pytest.mark.parametrize(
    ("asked", "said", "left"),
    [
        (
            "Schreibe den Parser",
            "Der Parser ist da.\n\nNächste Schritte:\n- Das Format beschreiben\n- Etiketten drucken",
            "Das Format beschreiben",
        ),
        (
            "파서를 작성해 주세요",
            "파서를 작성했습니다.\n\n다음 단계:\n- 형식을 문서로 설명하기\n- 라벨을 인쇄하기",
            "형식을 문서로 설명하기",
        ),
        (
            "Parser'ı yaz lütfen",
            "Parser yazıldı.\n\nSonraki adımlar:\n- Biçimi belgele\n- Etiketleri yazdır",
            "Biçimi belgele",
        ),
        ("请编写解析器", "解析器已写好。\n\n下一步：\n- 编写格式文档\n- 打印标签", "编写格式文档"),
        (
            "Schreibe den Parser",
            "Der Parser liest die Kopfzeile. Jetzt lese ich die Zeilen:",
            "Zeilen",
        ),
        ("파서를 작성해 주세요", "머리글을 읽습니다. 이제 행을 읽겠습니다:", "행을 읽겠습니다"),
        ("Schreibe den Parser", "Ich lese jetzt die Zeilen.", "Schreibe den Parser"),
    ],
)
def test_next_in_other_languages(asked, said, left):
    """Open work is next in any language."""
    story = Told().prompt(asked).edit("parser.py").say(said)
    if left == asked:
        story.edit("rows.py")

    assert left in upcoming(story.folded())


@pytest.mark.parametrize(
    "said",
    [
        "I've added the parser. Here is how it reads a list:\n\n```\nname;price\n```",
        "The parser works. To try it, run:\n\n```\npython parser.py list.csv\n```",
        "Summary:\n\n| file | change |\n|---|---|\n| parser.py | new |",
        "**What changed:** the parser reads rows.\n\n**Why:** the lists have them.",
    ],
)
def test_colons_announce_nothing(said):
    """A heading, a block of code or a table behind a colon ends a report."""
    state = Told().prompt(FIRST).edit("parser.py").say(said).folded()

    assert told(state, "upcoming") == []
    assert told(state, "status") == ["completed"]


@pytest.mark.parametrize(
    "text", ["thanks!", "Danke dir", "perfect, thank you", "great work", "고마워", "谢谢"]
)
def test_thanks_open_nothing(text):
    """Thanks after a report leave the work finished."""
    state = parser_work().prompt(text).say("You're welcome!").folded()

    assert "price lists" in goal(state)
    assert told(state, "status") == ["completed"]
    assert told(state, "upcoming") == []


def test_thanks_in_flight():
    """Thanks that are not answered yet open nothing, either."""
    state = parser_work().prompt("thanks!").folded()

    assert told(state, "upcoming") == []


@pytest.mark.parametrize(
    "text",
    ["Run the mover for 2024", "what does it print?", "continue", "Please also sort them"],
)
def test_nothing_stands_twice(text):
    """No two next items say the same, and none repeats what now says, word for word."""
    story = parser_work().prompt(text).say("I'll do that now.").edit("mover.py")
    state = story.say(f"{text} is what I do now:").folded()
    items = told(state, "upcoming")

    assert len(items) == len(set(items))


def test_an_answer_is_told_with_its_question():
    """A short answer in flight is told with the question that it answers."""
    story = Told().prompt(FIRST).edit("parser.py")
    story.say("Should the parser skip empty lines, or refuse them?").prompt("skip them")
    state = story.folded()

    assert "Should the parser skip empty lines" in upcoming(state)
    assert any("skip them" in value.text for value in state.decisions)


def test_items_of_a_list_are_told_apart():
    """The items of a list stand apart in goal, now and questions."""
    story = Told().prompt("Please do this:\n- Rename basket to cart\n- Test the tax\n- Print it")
    assert goal(story.folded()) == "Please do this: Rename basket to cart; Test the tax; Print it"

    story.say("Two ways:\n\n1. Rename all files\n2. Rename the class\n\nWhich one?")
    assert "Rename all files; Rename the class; Which one?" in "".join(told(story.folded(), "now"))


def test_recaps():
    """The client's recap is told without its advertisement, until something was done since."""
    story = Told().prompt(FIRST).edit("parser.py").say("The parser reads the header.")
    recap = "You want a parser of the price lists. Next: read the rows. (disable recaps in /config)"
    story.record("system", subtype="away_summary", content=recap)
    state = story.folded()
    assert "config" not in everything(state)
    assert told(state, "upcoming") == ["Next: read the rows."]

    story.prompt("go on").edit("rows.py").say("The rows are read, and everything is done.")
    assert told(story.folded(), "upcoming") == []
