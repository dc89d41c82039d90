"""A drawing that is always in one place, messages above it, and a terminal that is clean afterwards."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console
from rich.text import Text

from experiments.live_screen import Draw, LiveScreen
from tests.experiments.fake_terminal import FakeTerminal


class Seen:
    """A screen, and the terminal that it writes to."""

    def __init__(self, columns: int, rows: int) -> None:
        self._file = io.StringIO()
        self.console = Console(file=self._file, force_terminal=True, width=columns, height=rows)
        self.screen = LiveScreen(self.console)
        self.terminal = FakeTerminal(columns, rows)

    def lines(self) -> list[str]:
        self.terminal.feed(self._file.getvalue())
        self._file.seek(0)
        self._file.truncate()
        return self.terminal.screen


def full(word: str, asked: list[tuple[int, int]] | None = None) -> Draw:
    """Draws as many lines as there is room for, each as wide as the terminal."""

    def draw(width: int, rows: int) -> Sequence[Text]:
        if asked is not None:
            asked.append((width, rows))
        return [Text(f"{word} {row} ".ljust(width, ".")) for row in range(rows)]

    return draw


@pytest.mark.parametrize(("columns", "rows", "room"), [(80, 24, 19), (200, 50, 39), (40, 10, 5), (20, 4, 1)])
def test_the_drawing_stays_in_its_place_and_leaves_room_for_messages(
    columns: int, rows: int, room: int
) -> None:
    seen, asked = Seen(columns, rows), []
    seen.screen.say("first")
    for time in range(3):
        seen.screen.show(full(f"look {time}", asked))
        lines = seen.lines()
        assert [line.split(" ")[2] for line in lines if line.startswith(f"look {time}")] == [
            *map(str, range(room))
        ]
        assert len([line for line in lines if "look" in line]) == room
    assert asked == [(columns, room)] * 3
    assert not seen.terminal.cursor_shown
    seen.screen.say("second")
    assert [line for line in seen.lines() if "look" not in line] == ["first", "second"][-(rows - room - 1) :]
    seen.screen.stop()
    seen.screen.stop()
    seen.lines()
    assert [line for line in seen.terminal.scrolled if line] == ["first", "second"]
    assert seen.terminal.cursor_shown


def test_a_smaller_drawing_leaves_nothing_of_a_larger_one() -> None:
    seen = Seen(80, 24)
    seen.screen.show(full("large"))
    seen.screen.show(lambda width, rows: [Text("small")])
    assert [line for line in seen.lines() if line] == ["small"]


def test_a_message_that_is_longer_than_a_line_is_not_broken() -> None:
    seen = Seen(40, 12)
    path = "/data/" + "a-long-name/" * 8 + "[report].html"
    seen.screen.show(full("look"))
    seen.screen.say(path)
    seen.screen.show(full("look"))
    lines = seen.lines()
    assert "".join(line for line in lines if "look" not in line) == path


@pytest.mark.parametrize("size", [(60, 15), (120, 40), (80, 10)])
def test_a_resized_terminal_is_drawn_anew_with_the_last_messages(size: tuple[int, int]) -> None:
    seen = Seen(80, 24)
    for number in range(5):
        seen.screen.say(f"message {number}")
    seen.screen.show(full("before"))
    seen.lines()
    seen.terminal.columns, seen.terminal.rows = size
    seen.console.size = size
    seen.screen.show(full("after"))
    lines = seen.lines()
    assert not [line for line in lines if line.startswith("before")]
    assert [line for line in lines if line.startswith("message")] == [f"message {n}" for n in (2, 3, 4)]
    assert len([line for line in lines if line.startswith("after")]) == size[1] - max(4, size[1] // 5) - 1
    seen.screen.stop()
    assert seen.lines() == [f"message {n}" for n in (2, 3, 4)]


def test_what_the_terminal_echoes_leaves_no_trace() -> None:
    seen = Seen(80, 24)
    seen.screen.show(full("look"))
    seen.lines()
    seen.terminal.feed("^C")
    seen.screen.stop()
    assert seen.lines() == []
