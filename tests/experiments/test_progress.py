"""Plain lines, as they end in a log: whole, with counts, and silent about what is not known."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import experiments.progress
from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.progress import SweepProgress
from experiments.resolved import Resolved

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
            progress.cell_ended(cell.cell_id, done=True)
    told = lines(capsys)
    assert [line.split("]")[0] for line in told] == ["[1/4", "[2/4", "[3/4", "[4/4"]
    assert told[0].startswith("[1/4] done  vllm  naive · 4  1 req/s  repeat 1  about ")
    assert told[0].endswith("min left")
    assert told[-1].endswith("4 req/s  repeat 2")  # nothing is left: no estimate, no blanks


def test_a_failed_cell_is_told_and_not_counted_as_done(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]
):
    with SweepProgress(sweep, sweep, list) as progress:
        progress.cell_ended(sweep[0].cell_id, done=False)
        progress.cell_ended(sweep[1].cell_id, done=True)
    failed, done = lines(capsys)
    assert failed.startswith("[0/4] FAILED  vllm  naive · 4")
    assert done.startswith("[1/4] done")


def test_a_resumed_sweep_counts_what_was_done_before(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]
):
    with SweepProgress(sweep, sweep[2:], list) as progress:
        progress.cell_ended(sweep[2].cell_id, done=True)
    assert lines(capsys)[0].startswith("[3/4] done")


def test_a_cell_that_ends_twice_or_is_unknown_is_told_once(
    sweep: tuple[Cell, ...], capsys: pytest.CaptureFixture[str]
):
    with SweepProgress(sweep, sweep, list) as progress:
        progress.cell_ended(sweep[0].cell_id, done=True)
        progress.cell_ended(sweep[0].cell_id, done=True)
        progress.cell_ended("stranger", done=True)
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

    def states() -> Sequence[Mapping[str, Any]]:
        asked.append(1)
        if len(asked) == 1:
            raise TimeoutError  # Ray is slow: no line, and the next is tried
        if len(asked) == 2:
            return [STATE]
        asked_again.set()
        return []

    with SweepProgress(sweep, sweep, states):
        assert asked_again.wait(20)
    assert lines(capsys) == [
        "lane-0: huggingface  dynamic · 4 · 50 ms  2.5 req/s  12/60 s  sent 31/150  waiting 7  running 4  97 tokens/s"
    ]


def test_time_left_can_be_asked_while_cells_end(sweep: tuple[Cell, ...]):
    class Ending:
        """A cell during whose reading another one ends, as the other thread may have it."""

        @property
        def duration_s(self) -> float:
            progress._left.pop(sweep[0].cell_id, None)
            return 60.0

    progress = SweepProgress(sweep, sweep, list)
    progress._left = {"ending": Ending(), **progress._left}  # type: ignore[dict-item]
    assert progress._eta().endswith("min left")


def test_leaving_ends_the_thread(sweep: tuple[Cell, ...]):
    with SweepProgress(sweep, sweep, list):
        assert "progress" in {thread.name for thread in threading.enumerate()}
    assert "progress" not in {thread.name for thread in threading.enumerate()}
