"""The topics of the sessions in these tests, and the text that we told a session."""

import contextlib
import os
import re
from collections.abc import Iterator

from conftest import DaemonSandbox, wait_for
from e2e.claude import Claude
from e2e.model import Block, Model, Request, say, use, words
from e2e.terminal import Terminal

GOAL = "Round tax per line in the invoice module"
DONE = "Tax is rounded per line in tax.py."
NEXT = "Next, I'll do the same for shipping."
_BRIEF = re.compile(r"<handoffd-context .*?</handoffd-context>", re.DOTALL)


def briefs(request: Request) -> list[str]:
    """Return our texts in a request, the newest last."""
    return _BRIEF.findall(words(request))


def brief(request: Request) -> str:
    """Return our first text in a request: the brief that a session gets at its start.

    On a busy machine its hook may answer from disk, and the next hook then repeats the news.
    """
    found, *_ = briefs(request)
    assert len(found.encode()) < 2048
    return found


def field(text: str, name: str) -> str:
    """Return a value of a brief, or an empty text: of a list, its lines.

    The brief of completed work has several values in one line.
    """
    found = re.search(rf"(?m)^\*\*{name}:\*\* ?((?:(?! \*\*\w+:\*\*).)*(?:\n- .*)*)", text)
    return found[1].strip() if found else ""


def writing(claude: Claude, name: str = "tax.py") -> Block:
    """Return the model's wish to write a file of the project."""
    return use("Write", file_path=f"{claude.cwd}/{name}", content="LINES = True\n")


def work(claude: Claude) -> None:
    """Let the model do the work of GOAL: an edit, a report of it, and the next step."""
    claude.model.will(writing(claude), say(f"{DONE} {NEXT}"))


def opened(claude: Claude, prompt: str = "Go on", *words: str) -> Request:
    """Open a session with a prompt, and return its first request; it has no other effect."""
    claude.model.will(say("Well."))
    with Terminal(claude, *words, prompt) as terminal:
        terminal.played()
    return claude.model.requests[-1]


def known(sandbox: DaemonSandbox, claude: Claude, **values: str) -> dict:
    """Wait until a project's state has these values, and return the whole state."""

    def right() -> dict | None:
        document = sandbox.document(claude.cwd)
        return document if all(v in str(document.get(k)) for k, v in values.items()) else None

    try:
        wait_for(right)
    except AssertionError:
        raise AssertionError((values, sandbox.document(claude.cwd))) from None
    sandbox.run_due()  # also for a client that will not wait for the daemon, and reads the file
    return wait_for(right)


@contextlib.contextmanager
def tool_at_work(terminal: Terminal, model: Model, said: str, name: str) -> Iterator[None]:
    """Let the model speak and start a command, which runs until this context is left."""
    fifo = terminal.claude.config.parent / f"tmp/{os.urandom(4).hex()}"
    os.mkfifo(fifo)
    model.will([say(said), use("Bash", command=f"cat {fifo}", description=name)])

    def writer() -> int | None:
        # It can be opened for writing only while it is read.
        with contextlib.suppress(OSError):
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        return None

    handle = terminal.until(writer, "the command does not run")
    try:
        yield
    finally:
        os.close(handle)
