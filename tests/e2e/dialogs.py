"""The client's dialogs: a choice in one of them, and the one that takes work back."""

import re

from conftest import wait_for
from e2e.terminal import ENTER, Terminal

BOTH, CONVERSATION, CODE = "1", "2", "3"
_UP, _ERASE_LINE = "\x1b[A", "\x15"
_MENU = "Restore code and conversation"
_EMPTY = r"(?m)^❯\s*$"


def press(terminal: Terminal, key: str, shown: str) -> None:
    """Press a key until a text is gone from the screen: a key that comes too early is dropped."""
    terminal.sees(re.escape(shown))
    for _ in range(10):
        terminal.write(key)
        try:
            wait_for(lambda: shown not in terminal.screen.text, 3)
        except AssertionError:
            continue
        return
    raise AssertionError(terminal.screen.text)


def rewind(terminal: Terminal, prompt: str, what: str) -> None:
    """Go back to before a prompt, which must be the last one, and leave the line empty."""
    terminal.rests()
    terminal.type("/rewind")
    press(terminal, _UP, "❯ (current)")
    # The prompt itself stands at the margin, its line in the dialog does not.
    terminal.sees(rf"(?m)^ +❯ {re.escape(prompt)}")
    press(terminal, ENTER, "(current)")
    press(terminal, what, _MENU)
    if what != CODE:
        # The prompt is in the line again, to be edited.
        terminal.sees(rf"(?m)^❯ {re.escape(prompt)}$")
        terminal.write(_ERASE_LINE)
    terminal.sees(_EMPTY)
