"""Tests that a sub-agent runs, that run in the background, and that a person runs."""

import pytest

from handoffd.session.checks import tests as told_tests
from scripted_session import Told

GREEN = "............\n12 passed in 0.31s"
RED = "FAILED tests/test_tax.py::test_books\n1 failed, 11 passed in 0.31s"
FILE = "/tmp/claude-1000/-home-ada-shop/5f/tasks/b7.output"


def told(session: Told) -> list[str]:
    return [value.text for value in told_tests(session.folded())]


def begun(command: str = "pytest -q | tail -20") -> tuple[Told, str]:
    session = Told().prompt("Run the tests of the shop in the background")
    call = session.use("Bash", command=command, run_in_background=True)
    text = "Command running in background with ID: b7"
    session.result(call, text, toolUseResult={"stdout": "", "backgroundTaskId": "b7"})
    return session, call


def notified(session: Told, call: str, status: str = "completed") -> Told:
    return session.prompt(
        f"<task-notification>\n<task-id>b7</task-id>\n<tool-use-id>{call}</tool-use-id>\n"
        f"<output-file>{FILE}</output-file>\n<status>{status}</status>\n"
        "<summary>Background command ended</summary>\n</task-notification>"
    )


def fetched(session: Told, status: str, output: str, code: int = 0) -> Told:
    call = session.use("TaskOutput", task_id="b7", block=True)
    text = (
        "<retrieval_status>success</retrieval_status>\n\n<task_id>b7</task_id>\n\n"
        f"<status>{status}</status>\n\n<exit_code>{code}</exit_code>\n\n"
        f"<output>{output}\n</output>"
    )
    return session.result(call, text, toolUseResult={"retrieval_status": "success", "task": {}})


def test_the_output_of_a_task_shows_its_result():
    """A tool that fetches the output of a command in the background shows its result."""
    session, _ = begun()

    assert told(fetched(session, "completed", GREEN)) == ["pytest -q: green, 12 passed"]


def test_a_running_task_has_no_result():
    """A command that still runs has no result, whatever it printed so far."""
    session, _ = begun()

    assert told(fetched(session, "running", GREEN)) == []


@pytest.mark.parametrize("reader", ["cat", "tail -5"])
def test_a_shell_reads_the_output_file(reader):
    """A shell command that prints the output file shows the result of the task."""
    session, _ = begun()
    session.run(f"{reader} {FILE}", RED)

    assert told(session) == ["pytest -q: red, 1 failed, 11 passed (tests/test_tax.py::test_books)"]


def test_the_output_file_is_read():
    """The client's own reader shows the output file with line numbers."""
    session, _ = begun()
    call = session.use("Read", file_path=FILE)
    session.result(call, "     1\t............\n     2\t12 passed in 0.31s\n")

    assert told(session) == ["pytest -q: green, 12 passed"]


def test_a_notification_behind_a_pipe_proves_nothing():
    """The end of a piped command is not the end of its tests: their result is unknown."""
    session, call = begun()

    assert told(notified(session, call)) == ["pytest -q: unknown, ran, result not seen"]


def test_a_look_after_the_notification_shows_the_result():
    """An unknown result becomes known when the output is read."""
    session, call = begun()
    notified(session, call).run(f"tail -3 {FILE}", GREEN)

    assert told(session) == ["pytest -q: green, 12 passed"]


def test_a_notification_does_not_replace_the_output():
    """The notification that comes after the output says less, and changes nothing."""
    session, call = begun("pytest -q")
    fetched(session, "completed", GREEN)

    assert told(notified(session, call)) == ["pytest -q: green, 12 passed"]


def test_a_notification_alone_tells_the_exit_status():
    """Without a pipe the status of a command in the background is that of its tests."""
    session, call = begun("pytest -q")

    assert told(notified(session, call, "failed")) == ["pytest -q: red, failed"]


@pytest.mark.parametrize(
    ("output", "code", "result"), [(GREEN, 0, "green, 12 passed"), (RED, 1, "red, 1 failed")]
)
def test_a_sub_agents_run_is_told(output, code, result):
    """The tests that a sub-agent ran are told like the session's own."""
    session = Told().prompt("Let a helper repair the tax of books").say("A helper does it.")
    use = {"type": "tool_use", "id": "a1", "name": "Bash", "input": {"command": "pytest -q"}}
    session.blocks(use, isSidechain=True)
    text = f"Exit code {code}\n{output}" if code else output
    session.result("a1", text, error=bool(code), isSidechain=True)

    assert told(session)[0].startswith(f"pytest -q: {result}")


def test_a_sub_agents_other_commands_are_not_kept():
    """A sub-agent's commands that run no test leave no trace."""
    session = Told().prompt("Let a helper look around").say("A helper does it.")
    use = {"type": "tool_use", "id": "a1", "name": "Bash", "input": {"command": "ls"}}
    session.blocks(use, isSidechain=True)

    assert session.folded().calls == {}


def test_a_persons_own_run_is_told():
    """A person's own `!mise run test` is told by its output."""
    session = Told().prompt("<bash-input>mise run test</bash-input>")
    session.prompt(f"<bash-stdout>{RED}</bash-stdout><bash-stderr></bash-stderr>")

    assert told(session)[0].startswith("mise run test: red, 1 failed")
