"""Test runs: found in commands of every shape, read from real output, and never guessed."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffd.agents.test_runs import command_key, is_test_command, read_run

GOLDEN = Path(__file__).parents[1] / "golden/testruns"
FILES = sorted(GOLDEN.glob("*.txt"))

COMMANDS = {
    "pytest": [
        "pytest",
        "cd x && uv run pytest -q tests/a.py 2>&1 | tail -20",
        "python -m pytest",
        "py -m pytest",
        "mise exec -- pytest",
        "mise x python@3.12 -- pytest",
        "doppler run -- pytest -q",
        "nix-shell --run 'pytest -q'",
        "pwsh -Command 'pytest -q'",
        ".venv/bin/python -X dev -m pytest -x",
        "poetry run pytest",
        "uv run --with pytest-xdist --extra dev pytest -n 4",
        "env FOO=1 pytest",
        "FOO=/a/b BAR='x y' pytest -k 'a or b'",
        "timeout 60 pytest",
        "timeout -k 5 60s .venv/bin/pytest",
        "docker compose exec -T web pytest",
        "docker compose -f dev.yml run --rm -e A=1 web pytest -q",
        "docker exec -it web bash -c 'cd /app && pytest -q'",
        'bash -lc "source .venv/bin/activate && pytest"',
        "(cd api && pytest -q) 2>&1 | tail -3",
        "git stash list; pytest",
        "cat > a.py <<'EOF'\nx = 1\nEOF\npytest a.py",
        "coverage run -m pytest",
        "for i in 1 2 3; do pytest -q; done",
        "if pytest -q; then echo fine; fi",
        "pytest \\\n  -q \\\n  tests",
        "set -o pipefail; pytest | tee log",
        "python - <<EOF\nprint(1)\nEOF\npytest",
        "uv run python -m pytest",
        "uv run -m pytest",
        "python3 -m coverage run --branch -m pytest",
        "sudo -u app pytest",
        "ssh host 'cd x && pytest -q'",
        "kubectl exec -it pod -- pytest",
        "nix develop -c pytest",
        "git ls-files 'test_*.py' | xargs pytest",
        "pytest;",
        "time nice -n 10 pytest",
    ],
    "unittest": ["python3 -m unittest discover", "python manage.py test shop", "python3.12 -m unittest -v"],
    "jest": [
        "npx jest",
        "yarn jest --ci",
        "./node_modules/.bin/jest",
        "node --experimental-vm-modules node_modules/jest/bin/jest.js",
    ],
    "vitest": ["pnpm vitest run", "npx vitest run --coverage", "pnpm --filter web exec vitest run"],
    "mocha": ["npx mocha 'test/**/*.js'", "npx nyc mocha"],
    "node --test": ["node --test", "node --import tsx --test test/", "node --test --test-reporter=tap"],
    "playwright": ["npx playwright test"],
    "bun test": ["bun test"],
    "deno test": ["deno test -A"],
    "go test": ["go test ./...", "cd svc && go test -race -run TestX ./pkg/...", "gotestsum ./..."],
    "cargo test": ["cargo test --workspace", "RUST_BACKTRACE=1 cargo +nightly test -- --nocapture"],
    "cargo nextest": ["cargo nextest run"],
    "mvn": ["mvn -q test", "./mvnw verify", "mvn -pl core -Dtest=CartTest test"],
    "gradle": ["./gradlew test", "gradle :app:testDebugUnitTest --tests shop.CartTest", "./gradlew check"],
    "rspec": ["bundle exec rspec", "bin/rspec spec/a_spec.rb:3"],
    "minitest": ["bin/rails test test/models", "ruby -Itest test/cart_test.rb"],
    "phpunit": ["vendor/bin/phpunit", "php vendor/bin/phpunit --filter X", "vendor/bin/pest", "php artisan test"],
    "dotnet test": ["dotnet test", "dotnet test --no-build Shop.sln"],
    "ctest": ["ctest --output-on-failure", "cd build && ctest -j4"],
    "make test": ["make test", "make check", "make -C sub -j4 test", "make unit-test", "make test-unit"],
    "npm test": [
        "CI=1 npm test -- --watchAll=false",
        "pnpm run test",
        "npm test",
        "npm t",
        "npm run test:unit",
        "yarn test",
        "npm --prefix web test",
        "pnpm -r test",
        "npm run -w api test -- --ci",
        "yarn workspace api test",
        "bun run test",
    ],
    "tox": ["tox", "tox -e py311", "python -m tox"],
    "nox": ["nox -s tests"],
    "swift test": ["swift test", "xcodebuild -scheme Shop test"],
    "mix test": ["mix test", "MIX_ENV=test mix test test/a_test.exs:3"],
    "prove": ["prove -r t"],
    "bats": ["bats tests/"],
    "rake test": ["bundle exec rake test", "rake spec"],
    "task test": [
        "just test",
        "composer test",
        "mise run test",
        "mise run test:ci 2>&1 | tail -30",
        "mise r test -- -run TestCart",
        "mise test",
        "mise run lint && mise run test",
        "just -f tools/justfile lint test",
        "task -d api test",
        "invoke tests",
        "inv test",
        "uv run poe test",
        "pdm run test",
        "hatch run test:unit",
        "deno task test",
        "nx run shop:test",
        "nx run-many -t test",
        "pnpm turbo test --filter=web",
        "earthly +test",
        "moon run shop:test",
        "lein test",
    ],
    "build test": ["bazel test //shop/...", "zig build test", "stack test", "npx cypress run"],
    "gate": [
        "make verify PY=.venv/bin/python 2>&1 | tail -20",
        "just check",
        "npm run check",
        "./scripts/verify.sh",
        "bash ci.sh",
        "mvn -q install",
        "./gradlew build",
        "uv run pre-commit run -a",
    ],
    "test script": ["python tests/test_cart.py", "bash scripts/run_tests.sh", "python test_x.py"],
    "": [
        "",
        "ls",
        "cat pytest.ini",
        'git commit -m "fix pytest"',
        "git commit -m \"$(cat <<'EOF'\nfix\n\npytest -q\nEOF\n)\"",
        "git commit -m 'one\npytest -q\nthree'",
        "pip install pytest",
        "python -m pip install pytest",
        "uv add --dev pytest",
        "npm install --save-dev jest vitest",
        'grep -r "go test"',
        "grep -rn pytest .",
        "rg 'cargo test' docs",
        "echo make test",
        "vim test_x.py",
        "cat tests/test_cart.py",
        "sed -n 1,20p tests/test_cart.py",
        "cat > run.sh <<'EOF'\npytest -q\nEOF",
        "cat <<-EOF > a\n\tgo test ./...\n\tEOF",
        "which pytest",
        "# pytest",
        "ls # then pytest",
        "pytest --version",
        "pytest --collect-only -q",
        "cargo test --no-run",
        "go test -c ./cart",
        "mise install test",
        "task list",
        "just --list",
        "cat scripts/verify.sh",
        "git log --all",
        "./gradlew build -x test",
        "mvn verify -DskipTests",
        "make -n test",
        "make latest",
        "make lint",
        "npm run build",
        "npm run typecheck",
        "make check-format",
        "make test=1 build",
        "docker build -t test .",
        "yarn add jest",
        "npx create-jest",
        "go get github.com/stretchr/testify",
        "python -c 'import pytest'",
        "sh -c 'echo pytest'",
        "tail -f pytest.log",
        "find . -name '*test*' | xargs grep foo",
        "cargo check",
        "cargo build --tests",
        "npm run lint",
        "tox -e lint",
        "go vet ./...",
        "go build ./... # go test",
        "git checkout test",
        "cd test",
        "mkdir -p tests && touch tests/test_a.py",
        "[ -f x ] && test -d y",
        "ruff check",
        "rm -rf .pytest_cache",
        "git diff HEAD -- tests/test_a.py",
        "wc -l test_*.py",
        "python tests/conftest_helper.py",
    ],
}  # fmt: skip

KEYS = [
    ("cd x && uv run pytest -q tests/a.py 2>&1 | tail -20", "uv run pytest -q tests/a.py"),
    ("FOO=1 BAR=2 pytest   -q", "pytest -q"),
    ("env FOO=1 timeout 60 pytest -q > log 2>&1", "pytest -q"),
    ("pytest -k 'a or b' | grep -E 'passed|failed'", "pytest -k 'a or b'"),
    ("cd a; go test ./... && cargo test", "go test ./... && cargo test"),
    ("pytest -q; git stash pop; pytest -q", "pytest -q"),
    ("cd a && ls -l 2>/dev/null", "ls -l"),
    ("pytest " + "tests/a.py " * 50, ("pytest " + "tests/a.py " * 50)[:120]),
]

GREEN = "3 passed in 0.10s\n"
RED = "FAILED t.py::test_a - assert 0\n1 failed, 2 passed in 0.10s\n"
# command, output, failed -> green (None: no verdict)
TRICKY = [
    (
        "make test | tail -9",
        "FAIL Required test coverage of 85% not reached.\n" + GREEN,
        False,
        False,
    ),
    ("make test | tail -9", GREEN + "make: *** [Makefile:4: test] Error 1\n", False, False),
    ("npm test", GREEN + "2 lint errors\n", True, False),
    ("make verify | tail -9", GREEN + "Types are fine.\n", False, True),
    ("make verify", "Types are fine.\n", False, None),
    ("make verify", "3 lint errors\n", True, None),
    ("just check", "ok  \tshop/cart\t0.2s\n", False, True),
    ("just check", "ok  \tshop/cart\t0.2s\nFAIL\tshop/tax\t0.1s\n", True, False),
    ("mise run test", "ok  \tshop/cart\t0.2s\n", False, True),
    ("mise run test", "[test] ok  \tshop/cart\t0.2s\n", False, True),
    ("mise run test | tail -3", "[test] ERROR task failed\n", False, False),
    ("mise run test | head -3", "shop/cart\nshop/tax\nshop/till\n", False, None),
    (
        "turbo test",
        "web:test:  Test Files  1 passed (1)\nweb:test:       Tests  2 passed (2)\n",
        None,
        True,
    ),
    (
        "go test -run Cart ./... | tail",
        "ok  \ta\t0.1s [no tests to run]\nok  \tb\t0.1s\n",
        False,
        True,
    ),
    ("go test -run Cart ./... | tail", "ok  \ta\t0.1s [no tests to run]\n", False, None),
    ("python tests/test_cart.py; echo", "PASS test_total\n\n10/10 passed\n", False, True),
    ("python tests/test_cart.py; echo", "FAIL test_total\n\n9/10 passed\n", False, False),
    ("bash run_tests.sh", "Results: 12 passed, 1 failed\n", True, False),
    (
        "dotnet test | tail -3",
        "Erfolgreich!   - Fehler:     0, erfolgreich:     7, übersprungen:     0, gesamt:     7, 3 ms",
        False,
        True,
    ),
    (
        "dotnet test | tail -3",
        "Fehler!   - Fehler:     2, erfolgreich:     5, übersprungen:     0, gesamt:     7, 3 ms",
        False,
        False,
    ),
    ("pytest -q | tail -5", RED, False, False),
    ("pytest -q && ruff check", GREEN + "Found 3 errors.\n", True, True),
    ("pytest -q", "", False, True),
    ("pytest -q > log 2>&1", "", True, False),
    ("pytest -q | tail -5", "", False, None),
    ("pytest -q | tail -5", "bash: pytest: command not found", False, None),
    ("pytest -q", "bash: pytest: command not found", True, False),
    ("python -m pytest", "/usr/bin/python: No module named pytest", True, False),
    ("python -m pytest", "/usr/bin/python: No module named pytest", None, None),
    ("pytest -q", "", None, None),
    ("pytest -q || true", "", False, None),
    ("pytest -q; echo done", "done", False, None),
    ("pytest -q; echo exit=$?", "exit=0\n", False, True),
    ("pytest -q > log; echo $?", "1\n", False, False),
    ("pytest -q &", "", False, None),
    ("ruff check && pytest -q", "Found 3 errors.\n", True, None),
    ("cd api && pytest -q", "", True, False),
    ("cd api && pytest -q", "bash: cd: api: No such file or directory", True, None),
    ("pytest -q && npm run build", "", True, None),
    ("pytest a && pytest b", "", True, False),
    ("pytest -q", "Command running in background with ID: b1", False, None),
    ("pytest -q", "Command timed out after 2m 0.0s", True, None),
    ("pytest -q", "The user doesn't want to proceed with this tool use.", True, None),
    ("pytest -q", "[Request interrupted by user for tool use]", True, None),
    ("pytest -q", "collected 0 items\n", True, None),
    ("pytest -k nothing", "5 deselected in 0.01s\n", True, None),
    ("pytest -q", GREEN.replace("\n", "\r\n"), None, True),
    ("pytest -q", "\x1b[32m3 passed\x1b[0m\x1b[32m in 0.10s\x1b[0m", None, True),
    ("pytest -v | head -20", "t.py::test_a PASSED\nt.py::test_b FAILED\n", False, False),
    ("pytest -v | head -2", "t.py::test_a PASSED\nt.py::test_b PASSED\n", False, None),
    ("pytest", "<persisted-output>\nOutput too large\n\nPreview (first 2KB):\n....", False, True),
    (
        "pytest | tee x",
        "<persisted-output>\nOutput too large\n\nPreview (first 2KB):\n..",
        False,
        None,
    ),
    ("git stash && pytest -q; git stash pop", RED, False, None),
    ("pytest -q; sed -i s/a/b/ x.py; pytest -q", RED + GREEN, False, True),
    ("pytest a; pytest b", RED + GREEN, False, False),
    ("npx jest | grep Tests:", "Tests:       3 passed, 3 total\n", False, None),
    ("npx jest | grep Tests:", "Tests:       1 failed, 3 passed, 4 total\n", False, False),
    ("npx mocha | grep passing", "  3 passing (3ms)\n", False, None),
    ("go test ./... | head -2", "ok  \ta\t0.1s\nok  \tb\t0.1s\n", False, None),
    ("go test ./... | grep ok", "ok  \ta\t0.1s\n", False, None),
    ("go test ./... | tail -2", "FAIL\ta\t0.1s\nFAIL\n", False, False),
    ("go test -run Typo ./...", "ok  \ta\t0.1s [no tests to run]\n", False, None),
    ("cargo test | tail -2", "test result: ok. 0 passed; 0 failed; 0 ignored\n\n", False, None),
    ("make test", "ruff check\nFound 1 error\nmake: *** [Makefile:3: lint] Error 1\n", True, None),
    ("make test", "./run\nsomething\nmake: *** [Makefile:3: test] Error 1\n", None, False),
    ("make test", "custom tests\nall fine\n", False, True),
    ("make test", "make: 'test' is up to date.\n", False, None),
    ("make test", "", False, None),
    ("make test-deps", "installing\n", False, None),
    ("make test", RED, False, False),
    ("make check", "ruff check\nAll checks passed!\n", False, None),
    (
        "make test",
        "ok 1 - a\nnot ok 2 - b # TODO\n# tests 2\n# pass 1\n# fail 0\n# todo 1\n",
        False,
        True,
    ),
    (
        "make test",
        GREEN + "Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 total\n",
        False,
        False,
    ),
    ("git stash list; pytest -q", GREEN, False, True),
    ("git stash; git stash pop; pytest -q", GREEN, False, True),
    ("python test_x.py", "hello\n", False, None),
    ("python test_x.py", "..\nRan 2 tests in 0.1s\n\nOK\n", None, True),
    ("python3 -m unittest | tail -1", "OK\n", False, True),
    (
        "./gradlew check",
        "Execution failed for task ':spotlessCheck'.\nBUILD FAILED in 1s\n",
        True,
        None,
    ),
    ("ruff check && bash -c 'pytest -q'", "Found 3 errors.\n", True, None),
    ("cd x && bash -c 'cd y && pytest -q' | tail -3", RED, False, False),
    ("! pytest -q", "", False, None),
    ("pytest -q", "Exit code 137\nKilled\n", True, None),
    (
        "mvn test | grep 'Tests run'",
        "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n",
        False,
        True,
    ),
    ("python -m unittest 2>&1 | grep -A2 Ran", "Ran 3 tests in 0.1s\n\nOK\n", False, True),
    ("pytest -q", "9" * 5000 + " passed in 0.10s\n", None, True),
    ("ls", GREEN, False, None),
]


def golden(path: Path) -> tuple[dict[str, str], str]:
    head, output = path.read_bytes().decode().split("---\n", 1)
    return dict(line.split(": ", 1) for line in head.splitlines()), output


def expected(head: dict[str, str]):
    """Return green, passed, failed and skipped, or None if there is no verdict."""
    numbers = [None if head[k] == "none" else int(head[k]) for k in ("passed", "failed", "skipped")]
    return None if head["green"] == "none" else (head["green"] == "true", *numbers)


def right_or_silent(verdict, truth) -> bool:
    """Return True if there is no verdict, or if the verdict and its known counts are true."""
    if not verdict or not truth:
        return not verdict
    counts = zip(verdict[2:5], truth[1:], strict=True)
    return verdict.green == truth[0] and all(said in (None, true) for said, true in counts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path):
    """A runner's output gives the right verdict, red or green, and the right counts.

    Behind `| tail`, `| head` or `| grep`, where the exit status says 0 and a part of the output
    is missing, a verdict is right or is not given.
    """
    head, output = golden(path)
    verdict = read_run(head["command"], output, head["exit"] != "0")

    assert expected(head) == (verdict and verdict[1:5])
    assert_right_of_the_end(path, head, output)
    assert_right_of_the_start(head, output)
    assert_right_of_a_grep(head, output)


def assert_right_of_the_end(path, head, output):
    for lines in (1, 3, 5, 12):
        tail = "".join(output.splitlines(keepends=True)[-lines:])
        verdict = read_run(f"{head['command']} | tail -{lines}", tail, False)
        # `OK` and `BUILD SUCCESSFUL` are the runner's own words, although it ran no test.
        if (path.stem, lines) not in {("unittest-empty", 1), ("gradle-empty", 3)}:
            assert right_or_silent(verdict, expected(head)), (lines, verdict)


def assert_right_of_the_start(head, output):
    for lines in (1, 3, 5, 12):
        start = "".join(output.splitlines(keepends=True)[:lines])
        verdict = read_run(f"{head['command']} | head -{lines}", start, False)
        assert right_or_silent(verdict, expected(head)), (lines, verdict)


def assert_right_of_a_grep(head, output):
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    for words in ("passed|failed", "FAIL", "ok", "pass|fail", "Tests", "test result", "BUILD"):
        lines = [line for line in plain.splitlines() if re.search(words, line)]
        command = f"{head['command']} 2>&1 | grep -E '{words}'"
        verdict = read_run(command, "\n".join(lines), False)
        assert right_or_silent(verdict, expected(head)), (words, verdict)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_output_says_the_same_without_its_status(path):
    """Without the exit status the output alone gives the same verdict or none."""
    head, output = golden(path)
    verdict = read_run(head["command"], output, None)

    assert verdict is None or expected(head) == verdict[1:5]


@pytest.mark.parametrize(
    ("stem", "names"),
    [
        (
            "pytest-q-red",
            (
                "test_cart.py::test_total",
                "test_cart.py::TestTax::test_rate[7]",
                "test_cart.py::test_till",
            ),
        ),
        ("pytest-q-error", ("test_broken.py",)),
        (
            "unittest-red",
            ("test_till (test_cart.Cart.test_till)", "test_total (test_cart.Cart.test_total)"),
        ),
        ("jest-red", ("cart › totals", "has a till")),
        ("jest-error", ("./broken.test.js",)),
        ("vitest-red", ("cart.test.mjs > cart > totals", "cart.test.mjs > has a till")),
        ("mocha-red", ("has a till", "cart totals")),
        ("node-spec-red", ("totals", "has a till")),
        ("node-tap-red", ("totals", "has a till")),
        ("go-packages-red", ("TestTotal", "TestTax", "TestTax/seven")),
        ("cargo-red", ("tests::totals",)),
        ("nextest-red", ("shop tests::totals",)),
        ("mvn-red", ("CartTest.totals", "CartTest.till")),
        ("gradle-red", ("shop.CartTest > totals", "shop.CartTest > till")),
        ("rspec-red", ("Cart totals", "Cart has a till")),
        ("minitest-red", {"CartTest#test_till", "CartTest#test_totals"}),
        ("phpunit-red", ("CartTest::testTill", "CartTest::testTotals")),
        ("dotnet-red", ("Shop.CartTests.Totals", "Shop.CartTests.Till")),
        ("ctest-red", ("totals",)),
        ("bun-red", ("cart > totals", "has a till")),
        ("deno-red", ("totals", "till")),
        ("mix-red", ("till (ShopTest)", "totals (ShopTest)")),
        (
            "make-red",
            (
                "test_cart.py::test_total",
                "test_cart.py::TestTax::test_rate[7]",
                "test_cart.py::test_till",
            ),
        ),
    ],
)
def test_failing_tests_are_named(stem, names):
    """The failing tests have the names that the runner gave them."""
    head, output = golden(GOLDEN / f"{stem}.txt")
    verdict = read_run(head["command"], output, True)

    assert verdict
    assert names == (set(verdict.failing) if isinstance(names, set) else verdict.failing)


@pytest.mark.parametrize(
    ("stem", "runner"),
    [
        ("make-red", "pytest"),
        ("tox-red", "pytest"),
        ("npm-red", "jest"),
        ("minitest-red", "minitest"),
    ],
)
def test_the_output_tells_what_a_generic_command_ran(stem, runner):
    """For `make test` the kind of runner is found in the output."""
    head, output = golden(GOLDEN / f"{stem}.txt")

    assert runner == read_run(head["command"], output, True).runner


@pytest.mark.parametrize(
    ("runner", "command"),
    [(name, command) for name, commands in COMMANDS.items() for command in commands],
)
def test_commands(runner, command):
    """A command is recognised by the program that it runs, in any wrapper, not by its words."""
    assert runner == is_test_command(command)


@pytest.mark.parametrize(("command", "key"), KEYS)
def test_keys(command, key):
    """The key keeps the parts that select tests, and drops the rest."""
    assert key == command_key(command)


@pytest.mark.parametrize(("command", "output", "failed", "green"), TRICKY)
def test_tricky(command, output, failed, green):
    """Output wins over status, a status counts only as the tests' own, and doubt gives None."""
    verdict = read_run(command, output, failed)

    assert green == (verdict and verdict.green)


def test_at_most_five_failing_tests_are_named():
    """A run with many failures names the first five."""
    output = "".join(f"FAILED t.py::test_{n} - x\n" for n in range(9)) + "9 failed in 1.00s\n"

    assert [f"t.py::test_{n}" for n in range(5)] == list(read_run("pytest", output, True).failing)


def test_parts_are_added_up_only_where_all_are_seen():
    """Cargo's summaries are added up; if `tail` may have cut some off there is no count."""
    part = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; finished in 0.00s\n"

    assert (True, 4, 0, 2) == read_run("cargo test", part * 2, False)[1:5]
    assert (True, 4, 0, 2) == read_run("cargo test | tail -9", part * 2, False)[1:5]
    assert (True, None, None, None) == read_run("cargo test | tail -2", part * 2, False)[1:5]


def test_a_summary_is_found_in_a_long_output():
    """The end of an output of several megabytes is enough."""
    assert (True, 3, 0, 0) == read_run("pytest -v", "t.py::x PASSED\n" * 200_000 + GREEN, None)[1:5]


@pytest.mark.parametrize(
    "output",
    ["a" * 20_000, " " * 20_000, "1 " * 10_000, "- - " * 5_000, "\n" * 20_000, "FAILED " * 3_000, "[" * 20_000,
     "test a ... " * 2_000, "\x1b[" * 10_000, "  1) a\n" * 3_000, "1 passed " * 2_000, "> > " * 5_000],
    ids=lambda output: repr(output[:8]),
)  # fmt: skip
@pytest.mark.parametrize("command", ["make test", "pytest"])
def test_no_output_takes_long(command, output):
    """Reading is fast for any text: the text and the work per line are bounded."""
    start = time.process_time()
    read_run(command, output, True)

    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "command",
    ["pytest " + "-x " * 7_000, "a=1 " * 5_000 + "pytest", "npm " + "-a " * 6_000 + "test", "'" * 20_001 + "test",
     '"\\' * 10_000 + "test", "<<a " * 5_000 + "\ntest", "test <<a\n" * 2_000, "make " * 4_000 + "test", "test;" * 4_000, "make " + "test-" * 4_000, "docker " + "-e a " * 5_000],
    ids=lambda command: repr(command[:8]),
)  # fmt: skip
def test_no_command_takes_long(command):
    """The search is fast for any command."""
    start = time.process_time()
    is_test_command(command)

    assert time.process_time() - start < 0.5


@given(st.text(max_size=300), st.text(max_size=300), st.none() | st.booleans())
def test_any_text_is_survived(command, output, failed):
    """No command and no output raises an exception."""
    for given_command in (command, f"pytest {command}", f"make test {command}"):
        is_test_command(given_command)
        command_key(given_command)
        read_run(given_command, output, failed)


def test_golden_files_name_their_version_and_no_machine():
    """A captured output has its runner's version, holds no path of ours, and is small."""
    for path in FILES:
        head, output = golden(path)
        assert (
            re.search(r"\d", head["runner"]) or head.get("captured") or "npm" in head["runner"]
        ), path
        assert not re.search(r"/work\b|/root\b|/tmp/|artifactory", output), path
        assert path.stat().st_size < 6_000, path
