"""A part of the terminal that is drawn over and over, with messages above it; the terminal is left clean.

It takes at most four fifths of the height, so that messages can be read. All of it may be called from one
thread, except `stop`, which any may call again.
"""

import sys
from collections import deque
from collections.abc import Callable, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

LEAST_FOR_MESSAGES = 4  # lines
KEPT_MESSAGES = 3

Draw = Callable[[int, int], Sequence[Text]]  # (width, lines) → at most so many lines, none wider


class LiveScreen:
    """Drawn by `show`, once for each call: nothing moves in between, so nothing flickers."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._size = console.size
        self._messages: deque[str] = deque(maxlen=KEPT_MESSAGES)

    def show(self, draw: Draw) -> None:
        """Draw what `draw` gives for the room that there is now."""
        size = self._console.size
        if self._live is not None and size != self._size:
            self._begin_anew()
        self._size = size
        room = size.height - max(LEAST_FOR_MESSAGES, size.height // 5)
        # The cursor rests on a line of its own: the "^C" that a terminal echoes there moves no other.
        group = Group(*draw(size.width, max(room - 1, 1)), Text(""))
        if self._live is None:
            self._live = Live(
                group,
                console=self._console,
                auto_refresh=False,
                transient=True,
                vertical_overflow="crop",
                redirect_stdout=sys.stdout.isatty(),  # what goes elsewhere must not land here
            )
            self._live.start(refresh=True)
        else:
            self._live.update(group, refresh=True)

    def say(self, text: str) -> None:
        """Print a message above, whole."""
        self._messages.append(text)
        self._print(text)

    def stop(self) -> None:
        """Wipe the drawing and give the cursor back."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _begin_anew(self) -> None:
        """The terminal has moved the old lines about, so where they are is unknown: clear it all."""
        self.stop()
        self._console.clear()
        for text in self._messages:
            self._print(text)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
