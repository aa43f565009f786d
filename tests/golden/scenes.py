"""Scripted sessions, one per behaviour; the expected checkpoint is the file with the same name."""

from scripted_session import ROOT, Told, Tree

TODOS = [
    {"content": "Write the parser", "status": "completed"},
    {"content": "Write its tests", "status": "in_progress"},
    {"content": "Describe the format", "status": "pending"},
]
BRIEF = f"""<handoffd-context project="{ROOT}" at="2026-02-28T09:00:00.000Z">
A record of earlier work in this project, kept by handoffd.

**Goal:** Replace the payment provider by a new one
**Now:** Comparing the fees of both providers for small orders
</handoffd-context>"""


# Goal


def words_that_go_on() -> Told:
    """Prompts to go on, agreement and small corrections leave the goal unchanged."""
    told = Told().prompt("Add a page where customers can change their address")
    told.say("I'll start with the form.").prompt("yes").say("The form is there.")
    told.prompt("fix that typo").say("Fixed.").prompt("continue")
    return told


def short_request() -> Told:
    """Three words that name a task are a goal."""
    return Told().prompt("fix login bug").edit("login.py")


def change_of_course() -> Told:
    """A new substantial request replaces the goal; the previous goal is kept."""
    told = Told().prompt("Add a page where customers can change their address")
    told.edit("address.py").say("The address page is done and all its fields are validated.")
    told.prompt(
        "Now to something else: the nightly export of all orders fails since Monday. Please find"
        " out why it stops after the first thousand rows and repair it for good."
    )
    told.say("I'll read the export first.")
    return told


def titled() -> Told:
    """A title that a person gave states the purpose of the session."""
    told = Told().prompt("have a look at this stack trace and tell me what you think of it")
    told.raw({"type": "custom-title", "customTitle": "Memory leak of the importer"})
    return told.say("The importer keeps every row.")


def plan_approved() -> Told:
    """An approved plan is the goal, and a decision."""
    told = Told().prompt("the checkout is slow, think about what we can do")
    plan = "# Plan: Cache the shipping rates\n\n1. Add a `table`\n2. Fill it at night\n"
    call = told.use("ExitPlanMode", plan=plan)
    extra = {"plan": plan, "isAgent": False}
    told.result(call, "User has approved your plan.", toolUseResult=extra)
    return told.say("I begin with the table.")


def plan_waiting() -> Told:
    """A plan that is not approved yet waits for a person."""
    told = Told().prompt("the checkout is slow, think about what we can do")
    told.use("ExitPlanMode", plan="# Cache the shipping rates\n\n1. Add a table\n")
    return told


def plan_refused() -> Told:
    """A refused plan is a dead end, in the person's own words."""
    told = Told().prompt("the checkout is slow, think about what we can do")
    call = told.use("ExitPlanMode", plan="# Cache the shipping rates\n")
    told.result(
        call,
        "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell"
        " you how to proceed, the user said:\nno caches, the rates change hourly",
        error=True,
        toolUseResult="User rejected tool use",
    )
    return told


def slash_command() -> Told:
    """Text behind a user-defined command is a request; the client's own commands are not."""
    told = Told().prompt(
        "<command-name>/model</command-name><command-args>opus 4 5 6</command-args>"
    )
    return told.prompt(
        "<command-message>feature</command-message>\n<command-name>/feature</command-name>\n"
        "<command-args>let customers save several addresses</command-args>"
    )


def queued_prompt() -> Told:
    """A prompt that is typed while the assistant works counts like any prompt."""
    told = Told().prompt("Write a script that counts the orders of each customer")
    queued = {"type": "queued_command", "commandMode": "prompt", "prompt": "and sort them by name"}
    return told.record("attachment", attachment=queued)


def goal_given_to_the_client() -> Told:
    """A goal that the client itself checks becomes the goal."""
    told = Told().prompt("let us get this finished today please")
    status = {"type": "goal_status", "met": False, "condition": "Every test of the cart is green"}
    return told.record("attachment", attachment=status).say("I'll run the tests of the cart.")


def nobody_said() -> Told:
    """Without a request there is no goal, and the checkpoint says so."""
    return Told().prompt("hi").say("Hello! What shall we do?")


# Text that handoffd injected


def echo_of_the_brief() -> Told:
    """Text that handoffd injected is not taken for the session's own words when it is repeated."""
    added = {"type": "hook_additional_context", "content": [BRIEF], "hookEvent": "SessionStart"}
    told = Told().record("attachment", attachment=added).prompt("continue")
    return told.say(
        "I'll go on comparing the fees of both providers for small orders. The table of fees is empty."
    )


def echo_through_a_summary() -> Told:
    """Injected text does not come back through the client's summary either."""
    added = {"type": "hook_success", "content": "", "stdout": BRIEF, "hookEvent": "SessionStart"}
    told = Told().record("attachment", attachment=added).prompt("continue")
    told.record("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    return told.prompt(
        "This session is being continued from a previous conversation.\n\nSummary:\n"
        "1. Primary Request and Intent:\n   Replace the payment provider by a new one.\n"
        "2. Current Work:\n   The list of countries was being sorted by name.\n",
        isCompactSummary=True,
    )


# Compaction


def after_a_compaction() -> Told:
    """The client's own summary states the current work and the remaining work."""
    told = Told().prompt("Please move all invoices to the new store, and keep their old numbers")
    told.edit("invoices.py").say("Half of the invoices are moved.")
    told.record("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    return told.prompt(
        "This session is being continued from a previous conversation.\n\nSummary:\n"
        "1. Primary Request and Intent:\n   The user wants every invoice moved to the new store"
        " with its old number.\n"
        "2. Files and Code Sections:\n   - `invoices.py`: the mover\n   - `store/numbers.py`\n"
        "7. Pending Tasks:\n   - Move the invoices of 2024\n   - Delete the old table\n"
        "8. Current Work:\n   The invoices of 2023 were being moved in batches of a hundred.\n"
        "9. Optional Next Step:\n   Run the mover for 2024.\n",
        isCompactSummary=True,
    )


def summary_written_late() -> Told:
    """Statements after a compaction stand, even if the summary follows them in the file."""
    told = Told().prompt("Please move all invoices to the new store, and keep their old numbers")
    told.edit("invoices.py")
    told.record("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
    told.say("All invoices of 2023 are moved.", timestamp="2026-03-01T09:00:06.000Z")
    return told.prompt(
        "This session is being continued from a previous conversation.\n\nSummary:\n"
        "7. Pending Tasks:\n   - Move the invoices of 2024\n"
        "8. Current Work:\n   The invoices of 2023 were being moved in batches of a hundred.\n",
        isCompactSummary=True,
        timestamp="2026-03-01T09:00:05.000Z",
    )


# Todos


def todo_write() -> Told:
    """Open todos come next, the one in progress first."""
    told = Told().prompt("Read the price lists of our suppliers into the shop")
    call = told.use("TodoWrite", todos=TODOS)
    return told.result(call, "ok", toolUseResult={"oldTodos": [], "newTodos": TODOS})


def task_tools() -> Told:
    """Tasks are created, changed and deleted one by one; only the tool result holds the id."""
    told = Told().prompt("Read the price lists of our suppliers into the shop")
    for number, subject in enumerate(("Parse them", "Store them", "Mail them"), 1):
        call = told.use("TaskCreate", subject=subject, description="")
        extra = {"task": {"id": str(number), "subject": subject}}
        told.result(call, f"Task #{number} created", toolUseResult=extra)
    for task, status in (("1", "completed"), ("2", "in_progress"), ("3", "deleted")):
        call = told.use("TaskUpdate", taskId=task, status=status)
        told.result(call, "ok", toolUseResult={"success": True, "taskId": task})
    return told


def reminder() -> Told:
    """A reminder repeats the whole list and replaces the known one."""
    told = Told().prompt("Read the price lists of our suppliers into the shop")
    told.use("TodoWrite", todos=TODOS[:1])
    items = [{"id": "4", "subject": "Print the labels", "status": "pending"}]
    return told.record("attachment", attachment={"type": "task_reminder", "content": items})


# Questions


def answered() -> Told:
    """Answers are decisions, and the session no longer waits for a person."""
    told = Told().prompt("Choose a colour scheme for the invoices")
    asked = {"questions": [{"question": "Which colour?", "header": "Colour", "options": []}]}
    call = told.use("AskUserQuestion", **asked)
    told.result(call, "ok", toolUseResult=asked | {"answers": {"Which colour?": "dark blue"}})
    return told.say("I'll use dark blue for the headings.")


def asks_at_the_end() -> Told:
    """A turn that ends with a question waits for a person."""
    told = Told().prompt("Remove the old discount codes from the database")
    return told.say("There are 312 old codes. Shall I also delete those that are still valid?")


def interrupted() -> Told:
    """After an interruption the session waits for the person who stopped the work."""
    told = Told().prompt("Remove the old discount codes from the database")
    told.use("Bash", command="./clean", description="Delete the old codes")
    return told.prompt([{"type": "text", "text": "[Request interrupted by user for tool use]"}])


def half_way() -> Told:
    """A sentence before a tool call does not end the turn, even if it sounds like an end."""
    told = Told().prompt("The tax of the basket is wrong for books, please repair it")
    told.edit("tax.py").run("pytest -q", "3 passed in 0.01s")
    text = {"type": "text", "text": "All tests pass and the tax is done."}
    message = {"role": "assistant", "content": [text], "stop_reason": "tool_use"}
    return told.record("assistant", message=message)


def done_but_not_all() -> Told:
    """The remaining part of finished work is next, not the finished part."""
    told = Told().prompt("Build the wishlist of the shop for every customer")
    told.edit("wishlist.py").run("pytest -q", "3 passed in 0.01s")
    return told.say(
        "Done. The wishlist is built and tested.\n\nRemaining:\n- Let Anna review it\n- Deploy it to staging"
    )


def pleasantries() -> Told:
    """Thanks and the reply to them say nothing about the work."""
    told = Told().prompt("Rename the module basket to cart everywhere in the shop")
    told.edit("cart.py").say("Renamed the module in all eleven files that import it.")
    return told.prompt("thanks!").say("You're welcome!")


# Work


def red_turned_green() -> Told:
    """The change that turned a red test green is recorded."""
    told = Told().prompt("The tax of the basket is wrong for books, please repair it")
    red = "FAILED tests/test_tax.py::test_books - assert 19 == 7\n1 failed, 11 passed in 0.12s"
    told.run("pytest -q tests", red, code=1)
    told.edit("tax.py", "rate = 19", "rate = RATES[kind]")
    told.run("pytest -q tests", "12 passed in 0.10s")
    return told.say("All 12 tests pass: the tax of books is repaired and done.")


def still_red() -> Told:
    """A red test is recorded with its counts and names."""
    told = Told().prompt("The tax of the basket is wrong for books, please repair it")
    red = "FAILED tests/test_tax.py::test_books - assert 19 == 7\n1 failed, 11 passed in 0.12s"
    return told.run("cd /home/ann/shop && pytest -q tests 2>&1 | tail -5", red)


def running_in_circles() -> Told:
    """A command that fails repeatedly is a dead end, with its reason."""
    told = Told().prompt("Start the shop in a container on this machine")
    for _ in range(3):
        told.run("docker compose up -d", "Error: port 5432 is already allocated", code=1)
        told.edit("compose.yaml", "a", "b")
    return told


def taken_back() -> Told:
    """An edit that is undone later is a dead end."""
    told = Told().prompt("Make the search of the shop faster than it is today")
    told.edit("search.py", "rows = all()", "rows = cached(all())")
    told.say("The cache makes it slower.")
    return told.edit("search.py", "rows = cached(all())", "rows = all()")


def thrown_away() -> Told:
    """Edits that git discards are dead ends, too."""
    told = Told().prompt("Make the search of the shop faster than it is today")
    told.edit("search.py", "rows = all()", "rows = cached(all())")
    return told.run("git checkout -- search.py")


def refused() -> Told:
    """An approach that a person turns down is a dead end."""
    told = Told().prompt("Let customers log in with their phone number")
    told.say("I'll add a new dependency for sending the messages.")
    return told.prompt("no, don't add any dependency, use the gateway that we have")


def denied() -> Told:
    """A tool call that a person refuses with a reason is a dead end; its edit never happened."""
    told = Told().prompt("Let customers log in with their phone number")
    given = {"file_path": f"{ROOT}/settings.py", "old_string": "a", "new_string": "b"}
    call = told.use("Edit", **given)
    return told.result(
        call,
        "x",
        error=True,
        toolDenialKind="user-rejected",
        userFeedback="leave the settings alone",
    )


def failed_edit() -> Told:
    """A failed edit changes no file."""
    told = Told().prompt("Let customers log in with their phone number")
    told.edit("login.py", "a", "b", error=True)
    return told.edit("phone.py", "c", "d")


def old_generation() -> Told:
    """The oldest clients give no exit code, only the fact that a command failed."""
    told = Told(entrypoint="").prompt("Please repair the build of the shop for me")
    call = told.use("Bash", command="make test")
    red = "FAILED tests/test_a.py::test_a\n=== 2 failed, 3 passed in 1.00s ==="
    return told.result(call, red, error=True, toolUseResult=f"Error: {red}")


def person_ran_tests() -> Told:
    """Tests that a person runs with `!` count, too."""
    told = Told().prompt("The tax of the basket is wrong for books, please repair it")
    told.prompt("<bash-input>pytest -q</bash-input>")
    return told.prompt("<bash-stdout>3 passed in 0.01s</bash-stdout><bash-stderr></bash-stderr>")


def committed() -> Told:
    """Work that is reported as done, and was committed, is completed."""
    told = Told().prompt("Rename the module basket to cart everywhere in the shop")
    told.edit("cart.py")
    told.run(
        'git commit -am "Rename basket to cart"',
        "[main 1a2b3c4] Rename basket to cart\n 1 file changed",
    )
    return told.say("Done: the module is called cart now, and the change is committed.")


def theory() -> Told:
    """A theory that is neither confirmed nor refuted is the hypothesis."""
    told = Told().prompt("Some orders are stored twice since the last release")
    told.say("I suspect that the retry of the queue sends the same order again.")
    return told.run("grep -rn retry queue.py", "12: retry(order)")


def theory_confirmed() -> Told:
    """A confirmed theory is a success."""
    return theory().say("Confirmed: the retry has no key. I'll add one.")


def theory_refuted() -> Told:
    """A refuted theory is recorded with its outcome."""
    return theory().say("Turns out the retry is guarded by a key already.")


def completed_by_words_alone() -> Told:
    """Work that is only claimed to be done, without evidence, is not completed."""
    told = Told().prompt("Rename the module basket to cart everywhere in the shop")
    return told.edit("cart.py").say("Done, everything is renamed.")


# What was rewound


def two_turns(newest: bool = True) -> Tree:
    tree = Tree(newest)
    tree.ask("Add up the totals of the orders in totals.py").change("totals.py", None)
    tree.done("The totals are added up.")
    tree.ask("Round the taxes in taxes.py. Never use floats there.").stand(totals_py="t@v2")
    tree.change("taxes.py", None).change("totals.py", None, known=True)
    return tree.done("The taxes are rounded, and the totals use them.")


def rewound() -> Told:
    """After a rewind of conversation and code the dropped request, its rule and file are gone."""
    tree = two_turns()
    tree.ask("Print the labels of the parcels in labels.py", tree.parents[1])
    tree.stand(taxes_py=None, totals_py="t@v2").change("labels.py", None)
    return tree.done("The labels are printed.")


def rewound_in_the_older_client() -> Told:
    """The older client's rewind of the first request leaves nothing of the session before it."""
    tree = two_turns(newest=False)
    tree.ask("Print the labels of the parcels in labels.py", None)
    return tree.stand(taxes_py=None, totals_py=None).change("labels.py", None)


def rewound_conversation() -> Told:
    """After a rewind of the conversation alone the files that were changed are still told."""
    tree = two_turns()
    tree.ask("Print the labels of the parcels in labels.py", tree.parents[1])
    return tree.stand(taxes_py="x@v2", totals_py="t@v3").change("labels.py", None)


def rewound_code() -> Told:
    """After a rewind of the code alone the conversation stands, and the new file is gone."""
    tree = two_turns().ask("Try it again, and round half even this time")
    return tree.stand(taxes_py=None, totals_py="t@v2")


def prompt_taken_back() -> Told:
    """A prompt that was taken back before its answer is not told."""
    tree = Tree().ask("Add up the totals of the orders").change("totals.py", None)
    tree.done("The totals are added up.").ask("Round the taxis")
    return tree.ask("Round the taxes", tree.parents[1])


# Goals that stay, and goals that change


def question_after_work() -> Told:
    """A question after finished work and "continue" is not the goal, and nothing is left of it."""
    told = Told().prompt("Let customers pay their invoices by card").edit("payment.py")
    told.say("Cards are accepted now.").prompt("continue").edit("receipt.py")
    told.say("The receipts name the card, too.")
    told.prompt("How many tests does the payment module have?")
    return told.run("grep -c 'def test' test_payment.py", "12").say("It has 12 tests.")


def dropped_for_another_task() -> Told:
    """A request that drops the current work and names another is the goal, before any edit."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    told.say("The parser reads the header. Next I'll read the rows.")
    return told.prompt(
        "Actually, forget the parser. Customers cannot log in when their name has a space, fix that"
        " in login.py instead"
    )


def dropped_in_korean() -> Told:
    """A change of task is understood in other languages, too."""
    told = Told().prompt("가격표 파서를 작성해 주세요").edit("parser.py")
    told.say("파서가 머리글을 읽습니다. 다음으로 행을 읽겠습니다:")
    return told.prompt("파서는 그만두고 로그인 폼이 빈 비밀번호를 거부하게 고쳐 주세요").edit(
        "login.py"
    )


def next_task_in_german() -> Told:
    """After committed work a request about something else is the goal, once it is worked on."""
    told = Told().prompt("Schreibe einen Parser für die Preislisten").edit("parser.py")
    told.run('git commit -m "Lies die Preislisten"', "[main 1a2b3c4] Lies die Preislisten\n 1 file")
    told.say("Fertig. Der Parser liest alle Preislisten, und alles ist eingecheckt.")
    told.prompt("Jetzt die Rechnungen: sie brauchen eine Spalte für die Steuer").edit("invoice.py")
    return told.say("Die Spalte ist eingefügt. Die Übersetzung der Überschrift ist noch offen.")


def follow_up_with_dropping_words() -> Told:
    """Words that drop a detail of the work leave the work."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    told.say("The parser reads the lists.").prompt("Drop the last column, nobody reads it")
    return told.edit("parser.py").say("The last column is left out.")


# A person's words


def request_like_the_brief() -> Told:
    """A person's request counts, however much it resembles what we told the session."""
    added = {"type": "hook_additional_context", "content": [BRIEF], "hookEvent": "SessionStart"}
    told = Told().record("attachment", attachment=added)
    return told.prompt("Replace the payment provider by a new one, with a circuit breaker")


def smallest_request() -> Told:
    """The smallest request is a goal."""
    return Told().prompt("Set x to 3.").edit("x.py", "x = 2", "x = 3").say("x is 3 now.")


def pasted_log() -> Told:
    """Of a prompt with a pasted log the words of the person are the goal."""
    log = "\n".join(f"2026-03-01 09:00:{n:02d} ERROR worker 0x{n:04x} stopped" for n in range(40))
    told = Told().prompt(f"{log}\n\nFind out why the workers stop at night, and repair it")
    return told.edit("worker.py")


def preamble() -> Told:
    """The words that introduce a context are not the goal."""
    return Told().prompt("Given this as a context:\n\nPrint the labels of all parcels on one page")


def queued_before_a_kill() -> Told:
    """A prompt that was typed during work is next, even if the client never took it up."""
    told = Told().prompt("Count the orders of each customer").edit("count.py")
    return told.queue("enqueue", "Then sort the customers by their orders")


# Theories


def confirmed_and_ruled_out() -> Told:
    """A confirmed theory is a success, although the same statement rules out another one."""
    told = Told().prompt("Customers see each other's basket since Monday, find out why")
    told.say("I suspect that the cache key lacks the user id.").run("grep key cache.py", "key")
    return told.say("Confirmed: the cache key lacked the user id. I ruled out the clock skew.")


def confirmed_beside_red_tests() -> Told:
    """A theory is no success as long as the tests are red."""
    told = Told().prompt("Customers see each other's basket since Monday, find out why")
    told.say("I suspect that the cache key lacks the user id.").edit("cache.py")
    told.run("pytest -q tests", "FAILED tests/test_cache.py::test_user\n1 failed in 0.1s", code=1)
    return told.say("Confirmed: the cache key lacked the user id. One test is still red.")


# Plans and steps


PLAN = "# Round the taxes\n\n1. Round the drinks\n2. Print the sums\n3. Mail the accountant\n"


def plan_goes_on() -> Told:
    """The steps of a plan stay next, over a question and a report of the first of them."""
    told = Told().prompt("the taxes are wrong, think about it").approve(PLAN).edit("drinks.py")
    told.say("The drinks are rounded.").prompt("Which law asks for that?")
    return told.say("The tax code of 2024 does.").prompt("go on").edit("sums.py")


def plan_over_compactions() -> Told:
    """The steps of a plan survive two compactions whose summaries do not name them."""
    told = Told().prompt("the taxes are wrong, think about it").approve(PLAN).edit("drinks.py")
    for _ in range(2):
        told.compact("Look at the drinks once more").say("I go on with the drinks.")
    return told


def plan_done() -> Told:
    """A plan whose steps are all reported leaves nothing."""
    told = Told().prompt("the taxes are wrong, think about it").approve(PLAN).edit("drinks.py")
    return told.edit("sums.py").say("All three steps are done: drinks, sums and the mail.")


def rest_survives_a_question() -> Told:
    """The rest that a report named stays next while a question is answered."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    told.say("The parser is done.\n\nNext steps:\n- Describe the format\n- Print the labels")
    return told.prompt("Which module reads the tax table?").say("The module tax.py reads it.")


# Finished, or not


def finished_with_an_offer() -> Told:
    """Finished work is completed, although the answer ends with an offer."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    told.run("pytest -q", "4 passed in 0.01s")
    return told.say(
        "The parser is written, and its tests pass. I can also read XML lists if you like. Let me"
        " know if you want more."
    )


def report_with_colons() -> Told:
    """The headings of a report announce nothing: its request is answered."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    return told.say("Here is what changed:\n\n- `parser.py`: reads them\n- `rows.py`: sorts them")


def written_and_committed() -> Told:
    """Work that is written and committed is completed."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    told.run('git commit -qm "Read the price lists"')
    return told.say("The parser is written and committed.")


def rest_in_a_sentence() -> Told:
    """What a report calls undone is next, and keeps the work open."""
    told = Told().prompt("Write the parser and the pricing page").edit("parser.py")
    return told.say("The parser is done. The pricing page is still to be done.")


def waits_for_an_answer() -> Told:
    """Work that sounds finished and ends with a question waits for the person."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    return told.say("The parser is done. Which of the two columns holds the price?")


# Handing over


def closed() -> Told:
    """Closing the session leaves goal, now and next as they were, whatever it takes."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    told.say("The parser is written.").command("handoffd:close")
    told.prompt("Write the handoff of this session.", isMeta=True).say("I'll save it:")
    return told.run("handoff close", "closed").say("The handoff is saved.")


def closed_in_a_call() -> Told:
    """A session that closes itself on request leaves nothing of it in now and next."""
    told = Told().prompt("Write a parser for the price lists").edit("parser.py")
    told.say("The parser is written.").prompt("thanks, close the session")
    call = told.use("Skill", skill="handoffd:close", args="")
    told.result(call, "Launching skill: handoffd:close")
    return told.run("handoff close", "closed").say("The handoff is saved.")


# Rules and decisions


def rules_and_decisions() -> Told:
    """What a person forbids and decides is kept with its reason, and is no step."""
    told = Told().prompt(
        "Write the invoices. Prices are in cents, never floats: accounting insists."
    )
    told.say("I'll write them.").prompt("Decision: ASCII only, because the CDN rejects others")
    told.edit("invoice.py").say("The invoices are written.").prompt("It never works on Safari")
    return told.say("I'll look at the page in Safari.")


# Tests and commits


def task_runner() -> Told:
    """Tests that a task runner starts are tests."""
    told = Told().prompt("The tax of books is wrong, please repair it").edit("tax.py")
    return told.run("mise run test", "1 failed, 11 passed in 0.12s", code=1)


def red_behind_a_pipe() -> Told:
    """A red run behind a pipe is red, though the command itself succeeds."""
    told = Told().prompt("The tax of books is wrong, please repair it").edit("tax.py")
    return told.run("pytest -q 2>&1 | tail -1", "1 failed, 11 passed in 0.12s")


def hidden_behind_a_pipe() -> Told:
    """A run whose result a pipe hides is neither green nor red."""
    told = Told().prompt("The tax of books is wrong, please repair it").edit("tax.py")
    return told.run("pytest -q 2>&1 | grep -i warning", "")


def wider_green() -> Told:
    """A red run is forgotten when a wider one is green."""
    told = Told().prompt("The tax of books is wrong, please repair it").edit("tax.py")
    red = "FAILED tests/test_tax.py::test_books\n1 failed in 0.02s"
    told.run("pytest -q tests/test_tax.py", red, code=1).edit("tax.py")
    return told.run("pytest -q tests", "31 passed in 0.40s").say("All 31 tests pass.")


def committed_by_the_person() -> Told:
    """A person's own quiet commit counts: nothing is left to commit."""
    told = Told().prompt("Rename the module basket to cart").edit("cart.py")
    told.say("The module is called cart now.").shell("git commit -q -am 'Rename basket to cart'")
    return told.say("The change is committed.")


# Work trees


def moved_into_a_worktree() -> Told:
    """The files of an agent that moved into a work tree are told from there."""
    told = Told().prompt("Translate the letters to customers into Spanish")
    tree = f"{ROOT}/.claude/worktrees/letters"
    told.raw({"type": "worktree-state", "worktreeSession": {"worktreePath": tree}})
    call = told.use("Write", file_path=f"{tree}/letters/es.txt", content="Hola")
    return told.result(call, "done").say("The letters are translated.")


# Hostile and odd input


def masked_command() -> Told:
    """A command with a secret that failed and then worked is no dead end, however it is read."""
    told = Told().prompt("Fetch the price list of our supplier")
    for code in (1, 1, 1, 0):
        told.run("curl https://bob:s3cretPw9@example.com/prices", "fatal: no route", code=code)
    return told.say("\x1b[32mdone\x1b[0m with that.").prompt(
        "Now write a parser for the price lists"
    )


def secrets_and_signals() -> Told:
    """Secrets are masked, and a mention of the escalation phrase does not escalate."""
    told = Told().prompt(
        "Log in with password=Tr0ub4dor&3x and print HUMAN REVIEW NEEDED at the end"
    )
    return told.say("\x1b[31mI'll print\x1b[0m HUMAN REVIEW NEEDED then.")


def other_languages() -> Told:
    """Text in other languages passes unchanged."""
    told = Told().prompt("장바구니의 배송비 계산을 고쳐 주세요 🚚")
    return told.say("배송비 표를 먼저 읽겠습니다：")


def copied_history() -> Told:
    """A block that was appended again, with old records at the end, changes nothing."""
    told = Told().prompt("Write the yearly report of the shop for the accountant")
    told.say("I'll begin with the turnover of each month.")
    first = list(told.lines)
    for number in range(140):
        told.say(f"Month {number} of the report is written and its sum checked.")
    told.lines += first
    return told


SCENES = {
    name: scene
    for name, scene in list(globals().items())
    if callable(scene) and getattr(scene, "__module__", None) == __name__ and scene.__doc__
}


# Several sessions of a project, the seconds since each was active, and whether it has ended


def question_in_another_session() -> list[tuple[Told, float, bool]]:
    """A question that is asked in a later session does not replace the work of the first."""
    work = Told("work").prompt("Let customers pay their invoices by card").edit("payment.py")
    work.say("Cards are accepted. The receipts are still to be done.")
    question = Told("question").prompt("How many tests does the payment module have?")
    question.run("grep -c 'def test' test_payment.py", "12").say("It has 12 tests.")
    return [(work, 900.0, True), (question, 5.0, False)]


def printed_then_continued() -> list[tuple[Told, float, bool]]:
    """A session that begins with "continue" has the goal of the program's run before it."""
    run = Told("run", entrypoint="sdk-cli").prompt("Let customers pay their invoices by card")
    run.edit("payment.py").say("Cards are accepted. The receipts are still to be done.")
    return [(run, 900.0, True), (Told("later").prompt("continue"), 5.0, False)]


def two_live_sessions() -> list[tuple[Told, float, bool]]:
    """Of two sessions at work the one that worked last is told, with its own files alone."""
    first = Told("first").prompt("Let customers pay their invoices by card").edit("payment.py")
    second = Told("second").prompt("Sort the parcels by their weight").edit("parcels.py")
    return [(first, 60.0, False), (second, 5.0, False)]


PROJECTS = {
    scene.__name__: scene
    for scene in (question_in_another_session, printed_then_continued, two_live_sessions)
}
