"""What is told of test runs: a later run covers an earlier one, and doubt is never green."""

import pytest

from handoffd.agents.test_scopes import is_covered, run_key
from handoffd.session import checks
from handoffd.session.state import Receipt, SessionState

ROOT = "/home/ada/shop"
GREEN = "3 passed in 0.1s\n"
RED = "FAILED tests/test_tax.py::test_books\n1 failed, 2 passed in 0.1s\n"
HIDDEN = "tests/test_tax.py .\ntests/test_cart.py .\n"


class Runs:
    """A session that runs tests, one per record."""

    def __init__(self) -> None:
        self.state = SessionState("one", cwd=ROOT)

    def run(self, command: str, output: str, failed: bool | None = False) -> "Runs":
        self.state.records += 1
        source = Receipt("", str(self.state.records), 0, "", "observed")
        checks.note_run(self.state, command, output, failed, source)
        return self

    @property
    def told(self) -> list[str]:
        return [value.text for value in checks.tests(self.state)]


COVERED = [
    ("pytest", "pytest tests/test_tax.py::test_books"),
    ("pytest -q tests", "pytest -x"),
    ("uv run pytest -n auto", "python -m pytest tests/test_tax.py"),
    ("pytest --timeout 60", "pytest -k books"),
    ("pytest tests/a.py tests/b.py", "pytest tests/b.py::test_x"),
    ("pytest tests/b.py", f"pytest {ROOT}/tests/b.py -v"),
    (f"cd {ROOT} && pytest", "pytest tests/b.py"),
    ("go test ./...", "go test ./cart/... -run TestTax -v"),
    ("go test ./cart/...", "go test ./cart/tax/"),
    ("go test ./cart/", "go test -count=1 -run 'A|B' ./cart/"),
    ("npm test", "cd web && npm test -- tax.test.ts"),
    ("cd web && npm test", "npm --prefix web run test -- -t books"),
    ("mix test", "mix test test/tax_test.exs:12"),
    ("cargo test", "cargo test -p tax books -- --nocapture"),
    ("./gradlew test", "./gradlew :tax:test --tests Books"),
    ("dotnet test Shop.sln -c Debug", "dotnet test Shop.sln --filter Name~Books -v q"),
    ("mise run test", "mise run test -- -run TestTax -v"),
    ("make test", "make test PY=.venv/bin/python"),
    ("pytest && npm test", "npm test -- tax.test.ts"),
]
NOT_COVERED = [
    ("pytest -k books", "pytest"),
    ("pytest --lf", "pytest"),
    ("pytest tests/a.py", "pytest tests/b.py"),
    ("pytest tests/tax", "pytest tests/taxes/test_a.py"),
    ("pytest 'tests/*_api.py'", "pytest tests/test_tax.py"),
    ("go test ./...", "go test -tags integration ./..."),
    ("go test ./cart/", "go test ./cart/tax/"),
    ("cargo test", "cargo test -- --ignored"),
    ("cargo test -p cart", "cargo test"),
    ("cd web && npm test", "npm test"),
    ("cd web && npm test", "cd api && npm test"),
    ("mise run test", "mise run test:ci"),
    ("npm run test:unit", "npm test"),
    ("pytest", "pytest && npm test"),
    ("pytest", "python -m unittest"),
    ("./gradlew :tax:test", "./gradlew test"),
]


@pytest.mark.parametrize(("later", "earlier"), COVERED)
def test_covered(later, earlier):
    """A run of the same program on the same tests, or on more, covers an earlier one."""
    assert is_covered(run_key(earlier, ROOT), (run_key(later, ROOT),))


@pytest.mark.parametrize(("later", "earlier"), NOT_COVERED)
def test_not_covered(later, earlier):
    """A run of fewer, of other or of possibly other tests covers nothing."""
    assert not is_covered(run_key(earlier, ROOT), (run_key(later, ROOT),))


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (f"cd {ROOT} && CI=1 timeout 60 pytest -q 2>&1 | tail -5", "pytest -q"),
        (f"pytest {ROOT}/tests/a.py", "pytest tests/a.py"),
        ("cd web && npm test", "cd web && npm test"),
        (f"cd {ROOT}/web && npm test", "cd web && npm test"),
        ("cd web && npm test && cd ../api && npm test", "cd web && npm test && cd api && npm test"),
        ("(cd web && npm test); (cd api && npm test)", "cd web && npm test && cd api && npm test"),
        ("bash -c 'cd web && npm test'", "cd web && npm test"),
    ],
)
def test_a_key_names_the_directory(command, key):
    """The same command in another directory is another run; the session's own is not named."""
    assert key == run_key(command, ROOT)


def test_a_wider_green_removes_an_older_red():
    """A red run is told no more when a later run that includes it has passed."""
    runs = Runs().run("pytest tests/test_tax.py", RED, True).run("pytest", GREEN)

    assert runs.told == ["pytest: green, 3 passed"]
    assert not checks.is_red(runs.state)


def test_a_narrower_green_keeps_an_older_red():
    """A red run is still told when only some of its tests have passed since."""
    runs = Runs().run("pytest", RED, True).run("pytest -k cart", GREEN)

    assert runs.told[1].startswith("pytest: red, 1 failed")


def test_a_later_red_keeps_an_older_red():
    """A wider run that failed, too, does not hide which tests failed before."""
    runs = Runs().run("pytest tests/test_tax.py", RED, True).run("pytest", RED, True)

    assert len(runs.told) == 2
    assert checks.is_red(runs.state)


def test_the_parts_of_a_chain_are_covered_one_by_one():
    """A red chain of two programs is told no more when both have passed since."""
    runs = Runs().run("pytest && npm test", RED, True).run("pytest", GREEN)
    assert any("red" in text for text in runs.told)

    runs.run("npm test", GREEN)
    assert [text for text in runs.told if "red" in text] == []


def test_an_unseen_result_keeps_the_red_one():
    """A run whose result a pipe hid is unknown: the last known result stays, and says so."""
    runs = Runs().run("pytest", RED, True).run("pytest | head -2", HIDDEN)

    assert len(runs.told) == 1
    assert runs.told[0].startswith("pytest: red, 1 failed")
    assert runs.told[0].endswith("; ran again, result not seen")
    assert checks.is_red(runs.state)


def test_an_unseen_result_is_no_green_one():
    """A run without any known result is told as unknown, until a run that covers it is seen."""
    runs = Runs().run("pytest tests/test_tax.py | head -2", HIDDEN)
    assert runs.told == ["pytest tests/test_tax.py: unknown, ran, result not seen"]

    runs.run("pytest", GREEN)
    assert runs.told == ["pytest: green, 3 passed"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest", "Command running in background with ID: b1"),
        ("pytest -k nothing", "collected 0 items\n"),
        ("git stash && pytest | tail -1", ""),
        ("make verify | tail -1", "Types are fine.\n"),
        ("python tests/test_cart.py", "hello\n"),
        ("ls tests", ""),
    ],
)
def test_what_ran_no_test_is_not_told(command, output):
    """A command that ran no test of the work, or perhaps none at all, is not told as unknown."""
    assert Runs().run(command, output).told == []


def test_the_number_of_runs_is_bounded():
    """Hundreds of runs leave a few."""
    runs = Runs()
    for number in range(300):
        runs.run(f"pytest tests/test_{number}.py", RED, True)
        runs.run(f"pytest tests/test_x{number}.py | head -2", HIDDEN)

    assert len(runs.told) == 16
