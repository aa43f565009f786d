"""The interactive Claude Code in a pseudo-terminal: a person's screen and keyboard.

Every wait is for the screen, for the model or for the transcript, and never for a time.
"""

import codecs
import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Self

from conftest import wait_for
from e2e.claude import Claude
from e2e.screen import COLUMNS, ROWS, Screen

# A busy machine may take long to start a program of 245 MB.
PATIENCE_SECONDS = 60.0
ENTER, ESCAPE = "\r", "\x1b"
READY = r"(?m)^❯"


class Terminal:
    """A terminal in which Claude Code runs, with a first prompt if one is given."""

    def __init__(self, claude: Claude, *words: str, mode: str = "acceptEdits", **environment: str):
        self.claude = claude
        self.model = claude.model
        self.screen = Screen()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [str(claude.program), "--permission-mode", mode, *words],
            env={**claude.environment, "TERM": "xterm-256color", **environment}, cwd=claude.cwd,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reader.join(5)
        os.close(self._master)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # The last process that had it open is gone: that is an error here.
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 1 << 16):
                self.screen.write(decoder.decode(data))

    # The screen

    def until(self, condition: Callable, what: str) -> object:
        """Wait for an effect of this client."""
        try:
            return wait_for(condition, PATIENCE_SECONDS)
        except AssertionError:
            told = f"{what}\nproblems: {self.model.problems}\nscreen:\n{self.screen.text}"
            raise AssertionError(told) from None

    def sees(self, pattern: str) -> str:
        """Wait until a pattern is on the screen, and return it."""
        self.until(lambda: re.search(pattern, self.screen.text), f"not on the screen: {pattern}")
        return self.screen.text

    # The keyboard

    def write(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def type(self, text: str) -> None:
        """Type a line that is not on the screen yet, and send it once it is.

        Sent at once, it would be taken for a paste.
        """
        self.sees(READY)
        self.write(text)
        self.sees(rf"❯ {re.escape(text)}")
        self.write(ENTER)

    def asks(self, prompt: str) -> None:
        """Type a prompt, and wait until the model's script was played and nothing goes on."""
        self.rests()
        self.type(prompt)
        self.played()

    def played(self) -> None:
        """Wait until the model's script was played, and the client waits for a person."""
        self.until(lambda: not self.model.script, "the script was not played")
        self.rests()

    def rests(self) -> None:
        """Wait until the client waits for a person's next words."""
        self.until(self._is_idle, "it is not idle")

    def _is_idle(self) -> bool:
        """Return True if the client is idle, and has become so since it last asked the model.

        It says so in a file, but leaves it as it was where a turn took no time at all.
        """
        path = self.claude.config / f"sessions/{self.process.pid}.json"
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            return False
        if found.get("status") != "idle":
            return False
        since = found.get("statusUpdatedAt", 0) / 1000
        return since >= self.model.asked_at or self._turn_ended()

    def _turn_ended(self) -> bool:
        """Return True if the turn in which the model was last asked has ended in the transcript."""
        path = self.claude.transcript(self.model.requests[-1].session)
        lines = [line for line in path.read_text().splitlines() if '"turn_duration"' in line]
        if not lines:
            return False
        ended = datetime.fromisoformat(json.loads(lines[-1])["timestamp"])
        return ended.timestamp() >= self.model.asked_at

    # How it ends

    def leave(self) -> None:
        """End it as a person does."""
        self.rests()
        self.type("/exit")
        self.until(lambda: self.process.poll() is not None, "it does not end")
        assert self.process.returncode == 0

    def kill(self) -> None:
        """End it with -9, and all processes in its terminal."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
