"""The live view as lines of text: a bar with time left, the lanes, the trials in them, and the results so far.

It is made anew from one `Snapshot` for the room there is. Each block shows as many rows as fit and says how
many more there are; of the results the newest are shown, in the order of the sweep.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from deployments.lane_board import LaneView
from experiments.cells import Cell
from experiments.running_results import Result
from experiments.text_table import Column, fit, lines
from experiments.time_left import about
from results.report import numbers

BLOCKS = " ▁▂▃▄▅▆▇█"
SPARKS = 16  # samples in a sparkline, one a second
_STYLES = {"loading": "yellow", "measuring": "green", "draining": "cyan"}

_LANES = (
    Column(title="lane"),
    Column(title="does"),
    Column(title="for", right=True),
    Column(title="loaded", least=10),
)
_TRIALS = (
    Column(title="trial", least=6, turn=1),
    Column(title="req/s", right=True),
    Column(title="rep", right=True),
    Column(title="time", right=True),
    Column(title="sent", right=True),
    Column(title="queue", right=True),
    Column(title="runs", right=True),
    Column(title="tok/s", right=True),
    Column(title="", least=0),
)
_RESULTS = (
    Column(title="backend", least=13, turn=1),
    Column(title="setting", least=8, turn=2),
    Column(title="req/s", right=True),
    Column(title="rep", right=True),
    Column(title="tok/s", right=True),
    Column(title="TTFT p50", right=True),
    Column(title="E2E p50", right=True),
    Column(title="reservations", least=9),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How a sweep stands at one moment."""

    done: int
    planned: int
    failed: int
    elapsed_s: float
    left_s: float
    lanes: Sequence[LaneView]
    cells: Mapping[str, Cell]  # by id: what the lanes' holders are
    loads: Mapping[str, str]  # what a lane key is, in words (see `loads`)
    speeds: Mapping[str, Sequence[float]]  # tokens/s of the last seconds, by cell id
    results: Sequence[Result]
    cost: str = ""  # so far and left, in words; empty without a price


def view(snapshot: Snapshot, width: int, rows: int) -> list[Text]:
    """At most `rows` lines of at most `width` characters."""
    running = [lane for lane in snapshot.lanes if lane.holder in snapshot.cells]
    lanes = [_lane(lane, snapshot) for lane in snapshot.lanes]
    trials = [_trial(lane, snapshot, SPARKS if width >= 100 else SPARKS // 2) for lane in running]
    results = [_result(result) for result in snapshot.results]
    cost = [Text(fit(snapshot.cost, width))] if snapshot.cost else []
    room = _share(rows - 1 - len(cost), len(lanes), len(trials), len(results))
    styles = [_STYLES.get(lane.doing, "") for lane in snapshot.lanes]
    newest = max((result.read for result in snapshot.results), default=0)
    ages = [newest - result.read for result in snapshot.results]
    return [
        _bar(snapshot, width),
        *cost,
        *_block(_LANES, lanes, width, room[0], styles),
        *_block(_TRIALS, trials, width, room[1], [""] * len(trials)),
        *_block(_RESULTS, results, width, room[2], ["" if age else "bold" for age in ages], ages),
    ][: max(rows, 1)]


def _share(room: int, lanes: int, trials: int, results: int) -> tuple[int, int, int]:
    """Lines for each block, its titles included: half of them for the results, where there are so many."""
    wanted = [1 + count if count else 0 for count in (lanes, trials, results)]
    for_results = min(wanted[2], max(room // 2, room - wanted[0] - wanted[1]))
    for_lanes = min(wanted[0], max((room - for_results) // 2, room - for_results - wanted[1]))
    return for_lanes, min(wanted[1], room - for_results - for_lanes), for_results


def _block(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    room: int,
    styles: Sequence[str],
    ages: Sequence[int] | None = None,
) -> list[Text]:
    """Titles and rows in `room` lines; where they do not fit the last line says how many more there are.

    `ages`: the rows with the smallest are kept, else the first.
    """
    if room < 2 or not rows:
        return []
    kept = range(len(rows))
    if len(rows) > room - 1:
        by_age = sorted(kept, key=lambda place: ages[place]) if ages else list(kept)
        kept = sorted(by_age[: room - 2])  # type: ignore[assignment]
    title, *texts = lines(columns, [rows[place] for place in kept], width)
    block = [
        Text(title, style="dim"),
        *(Text(text, styles[at]) for text, at in zip(texts, kept, strict=True)),
    ]
    more = len(rows) - len(kept)
    return [*block, Text(fit(f"… {more} more", width), style="dim")] if more else block


def _bar(snapshot: Snapshot, width: int) -> Text:
    failed = f", {snapshot.failed} failed" if snapshot.failed else ""
    left = about(snapshot.left_s)
    right = f"  {snapshot.done} of {snapshot.planned} cells{failed}  {_minutes(snapshot.elapsed_s)}"
    right += f"  {left}" if left else ""
    room = width - len(right)
    if room < 4:
        return Text(fit(right.strip(), width))
    filled = round(room * snapshot.done / snapshot.planned) if snapshot.planned else room
    return Text.assemble(("━" * filled, "green"), ("━" * (room - filled), "bright_black"), right)


def _lane(lane: LaneView, snapshot: Snapshot) -> tuple[str, ...]:
    coming = being_loaded(lane, snapshot.cells)
    loaded = f"→ {coming}" if coming else snapshot.loads.get(lane.key or "", "nothing yet")
    return lane.name, lane.doing, _minutes(lane.for_s), loaded


def being_loaded(lane: LaneView, cells: Mapping[str, Cell]) -> str | None:
    """What is, in words, from the moment on at which what was there before it is closed."""
    cell = cells.get(lane.holder or "")
    if cell is None:
        return None
    makes_room = lane.doing == "preparing" and lane.key != cell.lane_key
    return _load(cell) if makes_room or lane.doing == "loading" else None


def loads(cells: Iterable[Cell]) -> dict[str, str]:
    """Lane key → what a lane with it has loaded, in words."""
    return {cell.lane_key: _load(cell) for cell in cells}


def _load(cell: Cell) -> str:
    slots = cell.engine.get("max_num_seqs")
    parts = [cell.backend, *([cell.model.name, cell.model.dtype] if cell.model else ())]
    return " · ".join([*parts, f"{slots} sequences"] if slots else parts)


def _trial(lane: LaneView, snapshot: Snapshot, sparks: int) -> tuple[str, ...]:
    cell = snapshot.cells[lane.holder or ""]
    state: Mapping[str, Any] = lane.state or {}
    speeds = snapshot.speeds.get(cell.cell_id, ())
    recent = speeds[-5:]
    return (
        f"{cell.backend}  {cell.setting}",
        f"{cell.rate:g}",
        f"{cell.repeat + 1}",
        f"{state['elapsed_s']:.0f}/{cell.duration_s:.0f} s" if state else f"–/{cell.duration_s:.0f} s",
        f"{state['sent']}/{state['planned']}" if state else "–",
        f"{state['waiting']}" if state else "–",
        f"{state['running']}" if state else "–",
        f"{sum(recent) / len(recent):.0f}" if recent else "–",
        sparkline(speeds[-sparks:]),
    )


def sparkline(values: Sequence[float]) -> str:
    """One character a value, from nothing to the largest."""
    largest = max(values, default=0.0)
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round(top * value / largest)] if largest > 0 else BLOCKS[0] for value in values)


def _result(result: Result) -> tuple[str, ...]:
    return (
        result.backend,
        result.setting,
        f"{result.rate:g}",
        f"{result.done}/{result.repeats}",
        _number(result.tokens_per_s),
        _number(result.ttft_p50_s, " s"),
        _number(result.e2e_p50_s, " s"),
        ", ".join(result.reservations),
    )


def _number(value: float | None, unit: str = "") -> str:
    return numbers.NOTHING if value is None else numbers.number(value) + unit


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
