"""Plain lines in a log, a live view on a terminal; neither ever holds a sweep up."""

import io
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from rich.console import Console

import experiments.progress
from deployments.lane_board import LaneBoard, LaneView
from deployments.places import Here
from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.progress import SweepProgress
from experiments.resolved import Resolved
from experiments.running_results import RunningResults
from results.store import Store
from tests.experiments.fake_terminal import FakeTerminal

FAILED = "model: model m cannot be loaded"
STATE: dict[str, Any] = {
    "cell_id": "x",
    "setting": "dynamic · 4 · 50 ms",
    "backend": "huggingface",
    "rate": 2.5,
    "repeat": 0,
    "lane": "lane-0",
    "elapsed_s": 12.4,
    "duration_s": 60.0,
    "sent": 31,
    "planned": 150,
    "waiting": 7,
    "running": 4,
    "tokens_per_s": 96.6,
}


@pytest.fixture
def sweep(made_config: Callable[..., SweepConfig]) -> tuple[Cell, ...]:
    config = made_config(strategies=[{"strategy": "naive", "backends": "vllm", "max_batch_size": 4}])
    return cells(config, Resolved(rates=(1.0, 4.0), durations_s=(60.0, 60.0)))


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""  # standard output is for the result
    return captured.err.splitlines()


def test_each_cell_that_ends_is_one_line_with_what_is_left(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]
):
    with SweepProgress(sweep, sweep, list) as progress:
        for cell in sweep:
            progress.cell_ended(cell.cell_id)
    told = lines(capsys)
    assert [line.split("]")[0] for line in told] == ["[1/4", "[2/4", "[3/4", "[4/4"]
    assert told[0].startswith("[1/4] done  vllm  naive · 4  1 req/s  repeat 1  about ")
    assert told[0].endswith("min left")
    assert told[-1].endswith("4 req/s  repeat 2")  # nothing is left: no estimate, no blanks


def test_a_failed_cell_is_told_and_not_counted_as_done(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]
):
    with SweepProgress(sweep, sweep, list) as progress:
        progress.cell_ended(sweep[0].cell_id, failed=FAILED)
        progress.cell_ended(sweep[1].cell_id)
    failed, done = lines(capsys)
    assert failed.startswith(f"[0/4] FAILED  vllm  naive · 4  1 req/s  repeat 1: {FAILED}  about ")
    assert done.startswith("[1/4] done")


def test_a_resumed_sweep_counts_what_was_done_before(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]
):
    with SweepProgress(sweep, sweep[2:], list) as progress:
        progress.cell_ended(sweep[2].cell_id)
    assert lines(capsys)[0].startswith("[3/4] done")


def test_a_cell_that_ends_twice_or_is_unknown_is_told_once(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]
):
    with SweepProgress(sweep, sweep, list) as progress:
        progress.cell_ended(sweep[0].cell_id)
        progress.cell_ended(sweep[0].cell_id)
        progress.cell_ended("stranger")
    assert len(lines(capsys)) == 1


def test_a_long_line_stays_whole(sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]):
    path = "/data/" + "a-long-name/" * 20 + "[report].html"
    with SweepProgress(sweep, sweep, list) as progress:
        progress.say(f"page: {path}")
    assert lines(capsys) == [f"page: {path}"]


def test_running_trials_are_told_now_and_then(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(experiments.progress, "PLAIN_EVERY_S", 0.001)
    asked_again = threading.Event()
    asked: list[int] = []

    board = LaneBoard(Here(lanes=2, gpu=False))
    board.acquire("x", "any")
    board.acquire(sweep[0].cell_id, sweep[0].lane_key)  # says nothing yet
    board.loading(1)
    board.report("x", STATE)

    def lanes() -> Sequence[LaneView]:
        asked.append(1)
        if len(asked) == 1:
            raise TimeoutError  # Ray is slow: no line, and the next is tried
        if len(asked) == 2:
            return board.view()
        asked_again.set()
        return []

    with SweepProgress(sweep, sweep, lanes):
        assert asked_again.wait(20)
    assert lines(capsys) == [
        "lane-0: huggingface  dynamic · 4 · 50 ms  2.5 req/s  12/60 s  sent 31/150  waiting 7  running 4  97 tokens/s",
        "lane-1: loading vllm · smollm2-135m · auto · 4 sequences, for 0 s now",
    ]


def test_leaving_ends_the_thread(sweep: tuple[Cell, ...]):
    with SweepProgress(sweep, sweep, list):
        assert "progress" in {thread.name for thread in threading.enumerate()}
    assert "progress" not in {thread.name for thread in threading.enumerate()}


class Terminal(io.StringIO):
    """A file that says that it is a terminal, and what is on it."""

    def isatty(self) -> bool:
        return True

    def shown(self, columns: int = 80, rows: int = 24) -> FakeTerminal:
        terminal = FakeTerminal(columns, rows)
        terminal.feed(self.getvalue())
        return terminal


def on_terminal(file: io.StringIO) -> Console:
    return Console(file=file, force_terminal=True, width=80, height=24)


class Looks:
    """Lanes of a real board; says when they have been looked at once more, and how often."""

    def __init__(self, board: LaneBoard) -> None:
        self._board, self._looked = board, threading.Condition()
        self._times = 0

    def __call__(self) -> Sequence[LaneView]:
        with self._looked:
            self._times += 1
            self._looked.notify_all()
        return self._board.view()

    def wait(self, times: int) -> None:
        """Until so many more looks have begun; all but the last have been drawn then."""
        with self._looked:
            until = self._times + times
            assert self._looked.wait_for(lambda: self._times >= until, 20)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments.progress, "LIVE_EVERY_S", 0.001)


@pytest.mark.usefixtures("often")
def test_on_a_terminal_there_is_one_drawing_and_it_is_gone_at_the_end(sweep: tuple[Cell, ...]):
    file, looks = Terminal(), Looks(board := LaneBoard(Here(lanes=1, gpu=False)))
    board.acquire(sweep[0].cell_id, sweep[0].lane_key)
    board.loading(0)
    with SweepProgress(sweep, sweep, looks, console=on_terminal(file), live=True) as progress:
        looks.wait(2)
        assert "loading" in file.shown().screen[2]
        board.loaded(0, sweep[0].lane_key, {})
        board.report(sweep[0].cell_id, {**STATE, "cell_id": sweep[0].cell_id})
        progress.say("something happened")
        looks.wait(3)
        screen = file.shown().screen
        assert screen[0] == "something happened"
        assert "0 of 4 cells" in screen[1]
        assert "measuring" in screen[3]
        assert "12/60 s" in screen[5]
        assert not file.shown().cursor_shown
        progress.cell_ended(sweep[0].cell_id)
        progress.cell_ended(sweep[1].cell_id, failed="oom")
        looks.wait(3)
        screen = file.shown().screen
        assert "1 of 4 cells, 1 failed" in screen[2]
    terminal = file.shown()
    assert terminal.cursor_shown
    assert terminal.screen[0] == "something happened"
    assert terminal.screen[1].startswith("[1/4] FAILED  vllm  naive · 4")  # a done one is a row, not a line
    assert len(terminal.screen) == 2
    assert len([line for line in terminal.scrolled if line]) == 2, "nothing scrolled away"


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_leaves_the_terminal_clean(sweep: tuple[Cell, ...], error: type[BaseException]):
    file, looks = Terminal(), Looks(LaneBoard(Here(lanes=1, gpu=False)))

    def interrupted() -> None:
        with SweepProgress(sweep, sweep, looks, console=on_terminal(file), live=True) as progress:
            looks.wait(2)
            progress.say("last words")
            raise error

    with pytest.raises(error):
        interrupted()
    assert file.shown().screen == ["last words"]
    assert file.shown().cursor_shown


@pytest.mark.usefixtures("often")
def test_an_error_in_the_drawing_costs_the_view_and_not_the_sweep(
    sweep: tuple[Cell, ...], monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("no room")

    monkeypatch.setattr(experiments.progress, "view", broken)
    file, looks = Terminal(), Looks(LaneBoard(Here(lanes=1, gpu=False)))
    with SweepProgress(sweep, sweep, looks, console=on_terminal(file), live=True) as progress:
        looks.wait(1)
        progress.cell_ended(sweep[0].cell_id)
    told = file.shown().screen
    assert told[0] == "the live view ended: ZeroDivisionError: no room"
    assert told[1].startswith("[1/4] done  vllm")


@pytest.mark.usefixtures("often")
def test_results_that_cannot_be_read_are_left_to_the_end(sweep: tuple[Cell, ...], tmp_path: Any):
    class Broken(Store):
        def trials(self, *_: object) -> Any:
            raise OSError("the disk is gone")

    file, looks = Terminal(), Looks(LaneBoard(Here(lanes=1, gpu=False)))
    results = RunningResults(Broken(tmp_path), sweep)
    with SweepProgress(sweep, sweep, looks, results, console=on_terminal(file), live=True) as progress:
        progress.cell_ended(sweep[0].cell_id)
        looks.wait(4)
        assert "1 of 4 cells" in file.shown().screen[0]
    assert file.shown().screen == []


def test_a_terminal_that_is_held_up_does_not_hold_the_sweep_up(sweep: tuple[Cell, ...]):
    go_on = threading.Event()

    class Held(Terminal):
        def write(self, text: str) -> int:
            assert go_on.wait(20)
            return super().write(text)

    file = Held()
    with SweepProgress(sweep, sweep, list, console=on_terminal(file), live=True) as progress:
        for number in range(100):
            progress.say(f"message {number}")
        progress.cell_ended(sweep[0].cell_id)
        go_on.set()
    assert [line for line in file.shown().scrolled if line] == [f"message {n}" for n in range(100)]


@pytest.mark.parametrize(
    ("environment", "file", "drawn"),
    [
        ({"TERM": "xterm"}, Terminal, True),
        ({"TERM": "xterm", "CI": "true"}, Terminal, False),
        ({"TERM": "dumb"}, Terminal, False),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, io.StringIO, False),  # colours are not a cursor
    ],
)
def test_a_view_is_drawn_only_where_somebody_looks(
    sweep: tuple[Cell, ...],
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    file: type[io.StringIO],
    drawn: bool,
):
    for name in ("CI", "FORCE_COLOR", "TERM", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    written = file()
    looks = Looks(LaneBoard(Here(lanes=1, gpu=False)))
    monkeypatch.setattr(experiments.progress, "LIVE_EVERY_S", 0.001)
    monkeypatch.setattr(experiments.progress, "PLAIN_EVERY_S", 0.001)
    with SweepProgress(sweep, sweep, looks, console=Console(file=written)):
        looks.wait(2)
    assert bool(written.getvalue()) is drawn
