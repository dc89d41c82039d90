"""The live view in the room of a terminal: it fits, and says what it leaves out."""

import dataclasses
import io
from collections.abc import Callable

import pytest
from rich.console import Console

from deployments.lane_board import LaneBoard
from deployments.places import Here
from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.live_view import Snapshot, loads, sparkline, view
from experiments.resolved import Resolved
from experiments.running_results import Result

RATES = (2.5, 6.0, 14.0)


@pytest.fixture(scope="module")
def planned(made_config: Callable[..., SweepConfig]) -> tuple[Cell, ...]:
    config = made_config(repeats=3)
    return cells(config, Resolved(rates=RATES, durations_s=(20.0,) * 3, dtype="bfloat16"))


def board(planned: tuple[Cell, ...], lanes: int) -> LaneBoard:
    """Lanes of which the first measures, the second drains, the third loads, and others have just begun."""
    now_s = 0.0
    made = LaneBoard(Here(lanes=lanes, gpu=False), clock=lambda: now_s)
    for index in range(lanes):
        cell = planned[-1 - 2 * index]
        made.acquire(cell.cell_id, cell.lane_key)
        if index < 3:
            made.loading(index)
        if index < 2:
            made.loaded(index, cell.lane_key, {})
            made.report(
                cell.cell_id,
                {
                    "sent": 168 if index == 0 else 280,
                    "planned": 280,
                    "elapsed_s": 12.4 + 20 * index,
                    "waiting": 31,
                    "running": 4,
                    "tokens_per_s": 96.6,
                },
            )
    now_s = 75.0
    return made


def results(planned: tuple[Cell, ...], count: int) -> list[Result]:
    """The first ones are the newest."""
    keys = list(dict.fromkeys((cell.backend, cell.setting, cell.rate) for cell in planned))[:count]
    return [
        Result(
            backend=backend,
            setting=setting,
            rate=rate,
            done=1,
            repeats=3,
            tokens_per_s=1234.5,
            ttft_p50_s=0.01234,
            e2e_p50_s=None,
            reservations=("overloaded", "too-short") if place % 2 else (),
            read=len(keys) - place,
        )
        for place, (backend, setting, rate) in enumerate(keys)
    ]


def snapshot(planned: tuple[Cell, ...], lanes: int = 1, done: int = 9) -> Snapshot:
    seen = board(planned, lanes).view()
    return Snapshot(
        done=17,
        planned=54,
        failed=0,
        elapsed_s=725,
        left_s=1234,
        lanes=seen,
        cells={cell.cell_id: cell for cell in planned},
        loads=loads(planned),
        speeds={planned[-1].cell_id: (0.0, 50.0, 100.0, 100.0, 100.0, 100.0, 60.0)},
        results=results(planned, done),
    )


def drawn(taken: Snapshot, width: int, rows: int) -> list[str]:
    """As a terminal of that width gets it: no line may wrap."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=rows, color_system=None)
    for line in view(taken, width, rows):
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("width", "rows"), [(80, 20), (200, 40), (100, 15), (60, 10), (40, 6), (20, 2), (5, 1)]
)
@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("done", [0, 1, 100])
def test_it_fits(planned: tuple[Cell, ...], width: int, rows: int, lanes: int, done: int) -> None:
    lines = drawn(snapshot(planned, lanes, done), width, rows)
    assert 1 <= len(lines) <= rows
    assert all(len(line) <= width for line in lines)


def test_in_80_by_24_everything_is_there(planned: tuple[Cell, ...]) -> None:
    lines = drawn(snapshot(planned), 80, 20)
    assert lines == [
        "━" * 38 + "  17 of 54 cells  12:05  about 21 min left",
        "lane   does       for loaded",
        "lane-0 measuring 1:15 vllm · smollm2-135m · bfloat16 · 4 sequences",
        "trial                req/s rep    time    sent queue runs tok/s",
        "vllm  continuous · 4    14   3 12/20 s 168/280    31    4    92  ▄████▅",
        *lines[5:],
    ]
    titles = "backend     setting             req/s rep tok/s TTFT p50 E2E p50 reservations"
    assert lines[5] == titles
    assert lines[6].split("  ")[0] == "huggingface naive · 4"
    assert lines[6].endswith(" 2.5 1/3 1,234 0.0123 s       –")
    assert lines[7].split()[-2] == "overloaded,"  # the worse one first, where both do not fit
    assert len(lines) == 6 + 9


def test_with_more_room_more_is_shown_and_nothing_cut(planned: tuple[Cell, ...]) -> None:
    taken = snapshot(planned, lanes=4, done=100)
    small, large = drawn(taken, 80, 20), drawn(taken, 200, 60)
    assert len(small) == 20
    assert small[-1].startswith("… ")
    settings = {(cell.backend, cell.setting, cell.rate) for cell in planned}
    assert len(large) == 1 + 5 + 5 + 1 + len(settings)
    assert "…" not in "".join(large)


def test_each_lane_says_what_it_does(planned: tuple[Cell, ...]) -> None:
    lines = drawn(snapshot(planned, lanes=4), 200, 60)
    assert [line.split()[:3] for line in lines[2:6]] == [
        ["lane-0", "measuring", "1:15"],
        ["lane-1", "draining", "1:15"],
        ["lane-2", "loading", "1:15"],
        ["lane-3", "preparing", "1:15"],
    ]
    assert "1:15  → vllm · smollm2-135m · bfloat16" in lines[4]  # what it loads
    assert "1:15  → vllm · smollm2-135m · bfloat16" in lines[5]  # and will load
    measuring, draining, loading, _ = lines[7:11]
    assert "12/20 s" in measuring
    assert "32/20 s" in draining
    assert loading.split()[-5:] == ["s", "–", "–", "–", "–"]


def test_a_lane_shows_what_comes_while_what_it_had_is_being_closed(planned: tuple[Cell, ...]) -> None:
    before, after = planned[0], planned[-1]
    assert (before.backend, after.backend) == ("huggingface", "vllm")
    made = LaneBoard(Here(lanes=1, gpu=False))

    def lane() -> str:
        line = drawn(dataclasses.replace(snapshot(planned), lanes=made.view()), 100, 20)[2]
        return " ".join(line.split())

    assert lane() == "lane-0 idle 0:00 nothing yet"
    made.acquire(before.cell_id, before.lane_key)
    assert " → huggingface" in lane()
    made.loading(0)
    assert " → huggingface" in lane()
    made.loaded(0, before.lane_key, {})
    assert " 0:00 huggingface" in lane()
    made.release(before.cell_id)
    assert " 0:00 huggingface" in lane()
    made.acquire(after.cell_id, after.lane_key)
    assert " → vllm" in lane()
    made.loading(0)
    assert " → vllm" in lane()


def test_the_newest_results_stay_in_the_order_of_the_sweep(planned: tuple[Cell, ...]) -> None:
    taken = snapshot(planned, done=100)
    lines = drawn(taken, 120, 12)
    shown = lines[6:-1]
    wanted = [result for result in taken.results if result.read > len(taken.results) - len(shown)]
    assert [line.split("  ")[0] for line in shown] == [result.backend for result in wanted]
    assert lines[-1] == f"… {len(taken.results) - len(shown)} more"
    assert len(shown) >= 4


def test_the_bar_is_as_full_as_the_sweep_and_names_failures(planned: tuple[Cell, ...]) -> None:
    taken = dataclasses.replace(snapshot(planned), done=27, failed=2, left_s=0.0)
    bar = view(taken, 80, 20)[0]
    assert bar.plain.endswith("  27 of 54 cells, 2 failed  12:05")
    green = [span for span in bar.spans if span.style == "green"]
    bright = [span for span in bar.spans if span.style == "bright_black"]
    assert abs((green[0].end - green[0].start) - (bright[0].end - bright[0].start)) <= 1


@pytest.mark.parametrize(
    ("values", "line"),
    [((), ""), ((0, 0), "  "), ((1,), "█"), ((0, 1, 2, 4, 8), " ▁▂▄█"), ((5, 5, 5), "███")],
)
def test_a_sparkline_reaches_from_nothing_to_the_largest(values: tuple[float, ...], line: str) -> None:
    assert sparkline(values) == line
