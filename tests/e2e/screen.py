"""The text, without colour, that a terminal of a fixed size shows of a program's output."""

import re

ROWS, COLUMNS = 50, 160
# A command with its numbers, a title or another message to the terminal, a character set, a
# command of one letter, or a control character.
_TOKEN = re.compile(
    r"\x1b\[(?P<given>[0-9;?<>=]*)[ -/]*(?P<command>[@-~])"
    r"|\x1b\].*?(?:\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\|\x1b[()*+].|\x1b(?P<letter>(?![\[\]PX^_])[0-~])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])|(?P<text>[^\x00-\x1f\x7f]+)",
    re.DOTALL,
)


class Screen:
    """Takes a program's output, in pieces of any size, and holds the visible text."""

    def __init__(self) -> None:
        self._cells = [[" "] * COLUMNS for _ in range(ROWS)]
        self._row = self._column = 0
        self._saved = (0, 0)
        self._rest = ""

    @property
    def text(self) -> str:
        # The client prints some of its spaces as ones that do not break.
        lines = ("".join(row).replace("\xa0", " ").rstrip() for row in self._cells)
        return "\n".join(lines).strip("\n")

    def write(self, data: str) -> None:
        data, position = self._rest + data, 0
        while found := _TOKEN.match(data, position):
            position = found.end()
            self._take(found)
        # The beginning of a command alone is no token: the next piece completes it.
        self._rest = data[position:]

    def _take(self, found: re.Match) -> None:
        if found["text"]:
            self._print(found["text"])
        elif found["command"]:
            self._obey(found["command"], found["given"])
        elif found["letter"] == "7":
            self._saved = (self._row, self._column)
        elif found["letter"] == "8":
            self._row, self._column = self._saved
        elif found["control"]:
            self._control(found["control"])

    def _print(self, text: str) -> None:
        for character in text:
            if self._column >= COLUMNS:
                self._column = 0
                self._feed()
            self._cells[self._row][self._column] = character
            self._column += 1

    def _control(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._feed()
        elif character == "\b":
            self._column = max(self._column - 1, 0)

    def _feed(self) -> None:
        if self._row + 1 < ROWS:
            self._row += 1
        else:
            self._cells = [*self._cells[1:], [" "] * COLUMNS]

    def _obey(self, command: str, given: str) -> None:
        numbers = [int(number or 0) for number in given.split(";")] if given[:1].isdigit() else []
        first = numbers[0] if numbers else 0
        steps = max(first, 1)
        if command in "AB":
            self._move(self._row + (steps if command == "B" else -steps), self._column)
        elif command in "CD":
            self._move(self._row, self._column + (steps if command == "C" else -steps))
        elif command == "G":
            self._move(self._row, steps - 1)
        elif command in "Hf":
            column = numbers[1] if len(numbers) > 1 else 1
            self._move(steps - 1, max(column, 1) - 1)
        elif command in "JK":
            self._erase(command, first)

    def _move(self, row: int, column: int) -> None:
        self._row = min(max(row, 0), ROWS - 1)
        self._column = min(max(column, 0), COLUMNS - 1)

    def _erase(self, command: str, part: int) -> None:
        """Erase to the end (0), from the beginning (1) or all (2), of the line or of the screen."""
        column = min(self._column, COLUMNS - 1)
        begin, end = {0: (column, COLUMNS), 1: (0, column + 1)}.get(part, (0, COLUMNS))
        self._cells[self._row][begin:end] = [" "] * (end - begin)
        if command == "J":
            rows = {0: range(self._row + 1, ROWS), 1: range(self._row)}.get(part, range(ROWS))
            for row in rows:
                self._cells[row] = [" "] * COLUMNS
