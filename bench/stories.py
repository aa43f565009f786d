"""Scripted sessions with known answers: the facts that the next session needs, in exact words.

Each is told in a project and on a branch of its own; most are long, as sessions are: between the
words that matter a program reads, greps and runs things.
"""

import json
import uuid
from collections.abc import Callable
from typing import Self

from synthetic import Script

# A field, and the phrases by which it may be told; files have an entry each.
Facts = list[tuple[str, tuple[str, ...]]]
MEGABYTE = 1_000_000
_BEGAN_SECONDS, _ENDED_SECONDS = 5400.0, 120.0


class Scene(Script):
    """A session told step by step; its last record is two minutes old."""

    def __init__(self, cwd: str, branch: str, seed: int) -> None:
        super().__init__(cwd, seed, _BEGAN_SECONDS)
        self.branch = branch
        self.lines: list[bytes] = []

    def _line(self, kind: str, **fields) -> bytes:
        self.ago_seconds = max(self.ago_seconds - 0.5, _ENDED_SECONDS)
        line = super()._line(kind, **fields)
        line = line.replace(b'"gitBranch":"main"', f'"gitBranch":"{self.branch}"'.encode())
        self.lines.append(line)
        return line

    def ask(self, *texts: str) -> Self:
        for text in texts:
            self.prompt(text)
        return self

    def tell(self, text: str) -> Self:
        self.say(text)
        return self

    def use(self, name: str, **given) -> str:
        """Call a tool; returns the id of the call."""
        call = f"toolu_{uuid.UUID(int=self._random.getrandbits(128)).hex[:24]}"
        self._assistant({"type": "tool_use", "id": call, "name": name, "input": given})
        return call

    def result(self, call: str, text: str, found: object, *, failed: bool = False) -> Self:
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}
        message = {"role": "user", "content": [block]}
        self._line("user", message=message, toolUseResult=found)
        return self

    def run(self, command: str, output: str = "", code: int = 0) -> Self:
        call = self.use("Bash", command=command, description="Run it")
        if code:
            text = f"Exit code {code}\n{output}"
            return self.result(call, text, f"Error: {text}", failed=True)
        found = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return self.result(call, output, found)

    def change(self, path: str, before: str = "old", after: str = "new") -> Self:
        path = f"{self.cwd}/{path}"
        given = {"file_path": path, "old_string": before, "new_string": after}
        call = self.use("Edit", **given, replace_all=False)
        found = {"filePath": path, "oldString": before, "newString": after, "originalFile": before}
        return self.result(call, f"The file {path} has been updated.", found)

    def refuse(self, command: str, reason: str) -> Self:
        """A person rejects a call and says why."""
        call = self.use("Bash", command=command, description="Run it")
        text = (
            "The user doesn't want to proceed with this tool use. The tool use was rejected. "
            f"To tell you how to proceed, the user said:\n{reason}"
        )
        return self.result(call, text, "User rejected tool use", failed=True)

    def todos(self, *items: tuple[str, str]) -> Self:
        listed = [{"content": text, "status": status, "activeForm": text} for text, status in items]
        call = self.use("TodoWrite", todos=listed)
        return self.result(call, "Todos have been modified", {"oldTodos": [], "newTodos": listed})

    def plan(self, text: str) -> Self:
        call = self.use("ExitPlanMode", plan=text)
        found = {"plan": text, "isAgent": False}
        return self.result(call, "User has approved your plan.", found)

    def summary(self, text: str) -> Self:
        """The client compacts, and goes on with a summary of its own."""
        self.compaction()
        told = f"This session is being continued from a previous conversation.\n\nSummary:\n{text}"
        message = {"role": "user", "content": told}
        self._line("user", message=message, isCompactSummary=True)
        return self

    def noise(self, megabytes: float) -> Self:
        """Reads and runs things for so long; now and then a prompt or an answer comes between."""
        written = 0
        while written < megabytes * MEGABYTE:
            begun = len(self.lines)
            if self._random.random() < 0.03:
                self.ask(self._random.choice(("go on", "yes", "ok, continue", "looks good, go on")))
            if self._random.random() < 0.3:
                self.tell(self.words(int(self._random.lognormvariate(5.0, 0.7))))
            path = f"{self.cwd}/vendor/part{self._random.randrange(60)}.py"
            list(self._tool(path, self._random.uniform(0.25, 1.0)))
            written += sum(map(len, self.lines[begun:]))
        return self


def tax(scene: Scene) -> Facts:
    scene.ask("Round the tax per invoice line instead of once at the end, our books are off.")
    scene.tell("I'll look at how the totals are computed.").run("grep -rn total src", "3 matches")
    scene.tell("It is rounded once, in src/billing/tax.py. Which way shall it be rounded?")
    scene.ask("half up, as the law says").change("src/billing/tax.py").change("tests/test_tax.py")
    scene.run("pytest -q", "FAILED tests/test_refund.py::test_a\n2 failed, 39 passed in 1.2s", 1)
    scene.tell(
        "Two tests still expect the old totals. Next I'll correct the expected totals in "
        "tests/test_refund.py."
    )
    return [
        ("goal", ("round the tax per invoice line",)),
        ("now", ("two tests still expect the old totals",)),
        ("next", ("correct the expected totals in tests/test_refund.py",)),
        ("files", ("src/billing/tax.py",)),
        ("files", ("tests/test_tax.py",)),
        ("tests", ("2 failed", "two tests still expect")),
    ]


def socket(scene: Scene) -> Facts:
    """It is killed while a command runs."""
    scene.ask("The dashboard freezes after a wake-up: make the socket reconnect by itself")
    scene.tell("I'll read the client of the socket first.").noise(0.3)
    scene.refuse("npm install socket-poller", "no polling, the server cannot take it")
    scene.change("web/src/socket.ts")
    for _ in range(3):
        scene.run("npm run test:socket", "Error: listen EADDRINUSE 7001", 1)
    scene.tell("Port 7001 is taken by the dev server, so I'll give the tests a port of their own.")
    scene.change("web/test/socket.test.ts")
    scene.ask("and wait at most thirty seconds between two attempts")
    scene.use("Bash", command="npm run test:socket -- --port 0", description="Run the tests")
    return [
        ("goal", ("make the socket reconnect by itself",)),
        ("now", ("at most thirty seconds between two attempts",)),
        ("dead end", ("no polling, the server cannot take it",)),
        ("dead end", ("EADDRINUSE", "port 7001 is taken")),
        ("files", ("web/src/socket.ts",)),
        ("files", ("web/test/socket.test.ts",)),
    ]


def settings(scene: Scene) -> Facts:
    """A list of things to do, half of it done."""
    scene.ask("Move the user settings from the JSON column into a table of their own.")
    scene.tell("I'll create the table first.").noise(0.5)
    scene.change("migrations/0042_user_settings.sql")
    scene.refuse("./manage migrate --fake", "never fake a migration on this database")
    scene.noise(0.5).change("app/settings/store.py")
    scene.run("pytest tests/settings", "18 passed in 0.4s")
    scene.todos(
        ("Create the table user_settings", "completed"),
        ("Copy the rows in batches of 500", "in_progress"),
        ("Drop the column settings_json", "pending"),
    )
    scene.tell("The table is there and its tests pass; now the rows are copied in batches of 500.")
    scene.run("./manage copy-settings --from 7000", "copied 500 rows")
    return [
        ("goal", ("move the user settings from the JSON column into a table",)),
        ("now", ("copied in batches of 500", "copy the rows in batches of 500")),
        ("next", ("drop the column settings_json",)),
        ("dead end", ("never fake a migration on this database",)),
        ("files", ("migrations/0042_user_settings.sql",)),
        ("files", ("app/settings/store.py",)),
        ("tests", ("18 passed", "its tests pass")),
    ]


def flaky(scene: Scene) -> Facts:
    """A theory that was wrong, and the one after it."""
    scene.ask("Find out why the checkout test fails every tenth run, and repair it for good")
    scene.noise(1.5).tell("I suspect the clock of the fake payment server.")
    scene.change("tests/payment/fake_server.py", "time.time()", "FROZEN")
    scene.run("pytest tests/checkout --count 20", "1 failed, 19 passed in 31s", 1)
    scene.tell("That is not it: freezing the clock did not help.")
    scene.change("tests/payment/fake_server.py", "FROZEN", "time.time()").noise(1.5)
    scene.tell(
        "The order of the fixtures differs between runs. I think the cause is the cart fixture, "
        "which another worker empties."
    )
    scene.change("tests/conftest.py")
    scene.run("pytest tests/checkout --count 20", "1 failed, 19 passed in 30s", 1)
    scene.tell("It still fails once. Next I'll give each worker a database of its own.")
    return [
        ("goal", ("why the checkout test fails every tenth run",)),
        ("now", ("it still fails once",)),
        ("next", ("give each worker a database of its own",)),
        ("theory", ("the cause is the cart fixture",)),
        ("dead end", ("freezing the clock did not help", "taken back in tests/payment")),
        ("files", ("tests/conftest.py",)),
        ("tests", ("1 failed", "still fails once")),
    ]


def umlauts(scene: Scene) -> Facts:
    """The first task is done; then the person turns to another one."""
    scene.ask("Add a button to the order page that prints the delivery note")
    scene.noise(0.5).change("shop/pages/order.py").run("pytest -q", "61 passed in 3.1s")
    scene.tell("Done: the button prints the delivery note, and all tests pass.")
    scene.run("git commit -am 'Print the delivery note'", "[main 3f2a9c1] Print the delivery note")
    scene.ask("Now something else: the export to CSV drops umlauts for our customers in Bern.")
    scene.noise(0.5).tell("The writer opens the file as latin-1 and ignores what does not fit.")
    scene.change("shop/export/csv_writer.py")
    scene.tell("I'll add a test with a name that has an umlaut.")
    return [
        ("goal", ("the export to CSV drops umlauts",)),
        ("now", ("the writer opens the file as latin-1", "a test with a name that has an umlaut")),
        ("next", ("add a test with a name that has an umlaut",)),
        ("files", ("shop/export/csv_writer.py",)),
        ("tests", ("61 passed", "all tests pass")),
    ]


def rates(scene: Scene) -> Facts:
    """A plan was approved; its second step is at work."""
    scene.ask("the checkout takes four seconds, think about what we can do").noise(0.6)
    scene.plan(
        "# Plan: Cache the shipping rates\n\n1. Add the table `rate_cache`\n"
        "2. Fill it every night from the carrier\n3. Read it in the checkout\n"
    )
    scene.change("db/rate_cache.sql").noise(0.4).change("jobs/fill_rates.py")
    scene.tell("The table is there; the job fills it at night, but the carrier limits us.")
    scene.ask("then fetch the rates country by country")
    scene.tell("I'll split the job by country.").change("jobs/fill_rates.py", "all", "one")
    return [
        ("goal", ("cache the shipping rates",)),
        ("now", ("fetch the rates country by country",)),
        ("next", ("split the job by country", "fetch the rates country by country")),
        ("files", ("jobs/fill_rates.py",)),
        ("files", ("db/rate_cache.sql",)),
    ]


def invoices(scene: Scene) -> Facts:
    """Ten megabytes, compacted once."""
    scene.ask("Please move all invoices to the new archive, and keep their old numbers.")
    scene.noise(7).change("archive/mover.py").summary(
        "1. Primary Request and Intent:\n   The user wants every invoice moved to the new archive "
        "with its old number.\n"
        "3. Files and Code Sections:\n   - archive/mover.py: moves them in batches\n"
        "7. Pending Tasks:\n   - Move the invoices of 2024\n   - Delete the old bucket\n"
        "8. Current Work:\n   The invoices of 2023 were being moved in batches of a hundred.\n"
        "9. Optional Next Step:\n   Run the mover for 2024.\n"
    )
    scene.noise(2.5).change("archive/checksum.py")
    scene.run(
        "pytest archive", "FAILED archive/test_sum.py::test_pdf\n1 failed, 8 passed in 2.4s", 1
    )
    scene.tell("The checksum of scanned pages differs since they are compressed again on upload.")
    return [
        ("goal", ("moved to the new archive", "move all invoices to the new archive")),
        ("now", ("checksum of scanned pages differs",)),
        ("next", ("move the invoices of 2024", "run the mover for 2024")),
        ("files", ("archive/mover.py",)),
        ("files", ("archive/checksum.py",)),
        ("tests", ("1 failed",)),
    ]


def bindestrich(scene: Scene) -> Facts:
    """All words are German."""
    scene.ask("Die Suche findet keine Artikel mit Bindestrich, bitte behebe das in der ganzen App.")
    scene.tell("Ich sehe mir zuerst an, wie die Suche Wörter trennt.").noise(0.2)
    scene.change("suche/tokenizer.py")
    scene.run(
        "pytest suche", "FAILED suche/test_tokenizer.py::test_a\n3 failed, 12 passed in 0.3s", 1
    )
    scene.ask("bitte auch den Unterstrich berücksichtigen")
    scene.tell(
        "Der Tokenizer trennt jetzt am Bindestrich, aber der Index ist noch der alte. "
        "Als Nächstes baue ich den Index neu auf."
    )
    return [
        ("goal", ("die Suche findet keine Artikel mit Bindestrich",)),
        ("now", ("der Tokenizer trennt jetzt am Bindestrich",)),
        ("next", ("baue ich den Index neu auf",)),
        ("files", ("suche/tokenizer.py",)),
        ("tests", ("3 failed",)),
    ]


def coupons(scene: Scene) -> Facts:
    """It ends with an unanswered question."""
    scene.ask("Write a script that removes the expired coupons from the shop's database").noise(0.2)
    scene.change("scripts/clean_coupons.py")
    scene.run("python scripts/clean_coupons.py --dry-run", "312 expired, 41 still referenced")
    scene.tell(
        "The script works: 312 coupons are expired. Shall I also delete the 41 that open orders "
        "still refer to?"
    )
    return [
        ("goal", ("removes the expired coupons",)),
        ("now", ("312 coupons are expired", "the 41 that open orders still refer to")),
        ("question", ("delete the 41 that open orders still refer to",)),
        ("files", ("scripts/clean_coupons.py",)),
    ]


def menu(scene: Scene) -> Facts:
    """A change made it worse and was taken back."""
    scene.ask("Bring the start page below 200 ms, at the moment it takes 900.").noise(1)
    scene.tell("Most of it is the menu. I'll cache it.").change("app/cache.py", "pass", "cached()")
    scene.run("./bench start-page", "median 1150 ms")
    scene.ask("that made it slower, take it back").change("app/cache.py", "cached()", "pass")
    scene.noise(2).tell("The query of the menu reads every item twice.")
    scene.change("app/menu/query.py").run("./bench start-page", "median 310 ms")
    scene.tell("It is down to 310 ms. Next: add an index on menu_items(parent_id).")
    return [
        ("goal", ("bring the start page below 200 ms",)),
        ("now", ("down to 310 ms",)),
        ("next", ("add an index on menu_items(parent_id)",)),
        ("dead end", ("that made it slower, take it back", "taken back in app/cache.py")),
        ("files", ("app/menu/query.py",)),
    ]


def wishlist(scene: Scene) -> Facts:
    """The work is done and committed; something is left for later."""
    scene.ask("Build a wishlist for every customer of the shop").noise(0.4)
    scene.change("shop/wishlist.py").change("shop/templates/wishlist.html")
    scene.run("pytest -q", "57 passed in 2.8s")
    scene.run("git commit -am 'Add the wishlist'", "[main 81c0de2] Add the wishlist")
    scene.tell(
        "Done. The wishlist is built, tested and committed.\n\nRemaining:\n"
        "- Let Anna review the wording\n- Deploy it to staging"
    )
    return [
        ("goal", ("build a wishlist for every customer",)),
        ("now", ("the wishlist is built, tested and committed",)),
        ("next", ("let Anna review the wording",)),
        ("next", ("deploy it to staging",)),
        ("files", ("shop/wishlist.py",)),
        ("tests", ("57 passed", "tested and committed")),
    ]


def report(scene: Scene) -> Facts:
    """One task in many small requests."""
    scene.ask("Make a monthly report of all overdue invoices that the accountants can print")
    for wish in (
        "use the new font",
        "the logo belongs to the right",
        "leave out those below five francs",
        "add the phone number of each customer",
        "group them by country please",
    ):
        scene.noise(0.5).change("reports/overdue.py", wish, wish[::-1]).tell("That is in.")
        scene.ask(wish)
    scene.change("reports/print.css").run("pytest reports", "22 passed in 0.9s")
    scene.tell("The countries have headings of their own now.")
    scene.ask("sort each group by due date, the oldest first")
    scene.tell("The rows come sorted by number from the view, so I'll sort them in the report.")
    return [
        ("goal", ("monthly report of all overdue invoices",)),
        ("now", ("sort each group by due date",)),
        ("next", ("sort each group by due date", "I'll sort them in the report")),
        ("files", ("reports/overdue.py",)),
        ("files", ("reports/print.css",)),
        ("tests", ("22 passed",)),
    ]


SCENES: dict[str, Callable[[Scene], Facts]] = {
    "fix/tax-per-line": tax,
    "feature/reconnect": socket,
    "settings-table": settings,
    "flaky-checkout": flaky,
    "csv-umlauts": umlauts,
    "perf/shipping-rates": rates,
    "invoice-archive": invoices,
    "suche/bindestrich": bindestrich,
    "chore/coupons": coupons,
    "perf/start-page": menu,
    "feature/wishlist": wishlist,
    "overdue-report": report,
}


def hook_event(name: str, cwd: str, session_id: str, transcript: str) -> bytes:
    """Return the input that Claude Code gives a hook."""
    given = {
        "session_id": session_id,
        "transcript_path": transcript,
        "cwd": cwd,
        "hook_event_name": name,
        "source": "startup",
    }
    return json.dumps(given).encode() + b"\n"
