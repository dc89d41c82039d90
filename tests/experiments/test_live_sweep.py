"""A sweep on a terminal: something to look at while it runs, a clean screen after it, Ctrl-C on the way."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.experiments.command_process import START
from tests.experiments.fake_terminal import FakeTerminal

pytestmark = [pytest.mark.ray, pytest.mark.fault]

COLUMNS, ROWS = 80, 24


class OnTerminal:
    """`batchyard sweep` in a session of its own whose terminal is ours."""

    def __init__(self, config: Path, results: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            key: value for key, value in os.environ.items() if key not in ("CI", "COLUMNS", "LINES")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "sweep", str(config), "--results", str(results)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment, "TERM": "xterm-256color"},
            preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509 - it takes no lock
        )
        os.close(theirs)
        self.terminal = FakeTerminal(COLUMNS, ROWS)
        self.seen: set[str] = set()  # words that were on the screen at some time
        self._written = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                rest += os.read(self._ours, 65_536)
            except OSError:  # the last writer has closed it
                with self._written:
                    self._ended = True
                    self._written.notify_all()
                return
            cut = rest.rfind(b"\n") + 1 or len(rest)
            text, rest = rest[:cut], rest[cut:]
            with self._written:
                self.terminal.feed(text.decode().replace("\r\n", "\n"))
                self.seen.update(" ".join(self.terminal.screen).split())
                self._written.notify_all()

    def wait_for(self, *words: str) -> None:
        with self._written:
            self._written.wait_for(lambda: self._ended or set(words) <= self.seen, 120)
            assert set(words) <= self.seen, "\n".join(self.terminal.scrolled)

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def end(self) -> int:
        code = self.process.wait(120)
        self._reader.join(20)
        os.close(self._ours)
        return code


@pytest.fixture
def on_terminal(short_sweep: Callable[..., Path], tmp_path: Path) -> Iterator[Callable[[], OnTerminal]]:
    """Starts a sweep of four cells, always the same one."""
    config = short_sweep(arrival_rate=[20, 30])
    begun: list[OnTerminal] = []

    def start() -> OnTerminal:
        begun.append(OnTerminal(config, tmp_path / "results"))
        return begun[-1]

    yield start
    for one in begun:
        if one.process.poll() is None:
            one.process.kill()
            one.end()


def test_it_draws_while_it_runs_and_leaves_a_clean_screen(on_terminal: Callable[[], OnTerminal]) -> None:
    interrupted = on_terminal()
    interrupted.wait_for("lane-0", "measuring", "reservations")  # the third needs a cell that is done
    interrupted.press_ctrl_c()
    assert interrupted.end() == 130, "\n".join(interrupted.terminal.scrolled)
    screen = interrupted.terminal.screen
    assert screen[-1].endswith("goes on")
    assert "interrupted; nothing that was done is lost" in " ".join(screen[-3:])
    assert "^C" not in "".join(screen[:-3])
    assert not [line for line in screen if "lane" in line or "reservations" in line or "━" in line]
    assert interrupted.terminal.cursor_shown

    again = on_terminal()
    again.wait_for("measuring")
    assert again.end() == 0, "\n".join(again.terminal.scrolled)
    lines = [line for line in again.terminal.scrolled if line]
    assert not [line for line in lines if "lane-0" in line or "━" in line]
    assert [line for line in lines if line.startswith("going on: ")]
    assert "repeat 1: 4 of 4 cells done, page: " in " ".join(lines)
    assert again.terminal.cursor_shown
