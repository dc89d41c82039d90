"""A terminal small enough to trust: what a person would see after a program has written to it."""

import re

_PART = re.compile(r"\x1b\[(?P<arguments>\??[\d;]*)(?P<command>[A-Za-z])|(?P<text>[^\x1b])", re.DOTALL)


class FakeTerminal:
    """Wraps, scrolls, moves the cursor and erases; an escape sequence that it does not know is an error."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cursor_shown = True
        self._lines: list[list[str]] = [[]]  # all that was ever seen, the screen is the end of it
        self._row = self._column = 0

    @property
    def scrolled(self) -> list[str]:
        """Every line, those that have left the screen too."""
        return ["".join(line).rstrip() for line in self._lines]

    @property
    def screen(self) -> list[str]:
        """The lines on the screen, without the empty ones at its end."""
        shown = self.scrolled[self._top :]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    @property
    def _top(self) -> int:
        return max(0, len(self._lines) - self.rows)

    def feed(self, written: str) -> None:
        """Take in what a program wrote."""
        position = 0
        while position < len(written):
            part = _PART.match(written, position)
            assert part, f"not understood: {written[position : position + 20]!r}"
            position = part.end()
            if part["text"]:
                self._character(part["text"])
            else:
                self._command(part["command"], part["arguments"])

    def _character(self, character: str) -> None:
        if character == "\n":
            self._row, self._column = self._row + 1, 0
        elif character == "\r":
            self._column = 0
        else:
            if self._column == self.columns:
                self._row, self._column = self._row + 1, 0
            line = self._line()
            line.extend(" " * (self._column + 1 - len(line)))
            line[self._column] = character
            self._column += 1
        self._line()

    def _line(self) -> list[str]:
        while len(self._lines) <= self._row:
            self._lines.append([])
        return self._lines[self._row]

    def _command(self, command: str, arguments: str) -> None:
        match command, arguments:
            case "m", _:
                pass
            case "A", count:
                self._row = max(self._top, self._row - int(count or 1))
            case "K", "2":
                self._line().clear()
            case "J", "2":
                del self._lines[self._top :]
                self._lines += [[] for _ in range(self.rows)]
            case "H", "":
                self._row, self._column = self._top, 0
            case (("h" | "l"), "?25"):
                self.cursor_shown = command == "h"
            case _:
                raise AssertionError(f"not understood: {arguments}{command}")
