"""What the rows of a trial say of padding, caps and skips, and the figures made of it."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from results.findings import Findings
from results.padded_batches import BINS, MOST_POINTS, PaddedBatches, most_skips, padded_batches
from results.records import BATCHES
from results.report import memory, padding
from results.report.panel import Absent, Panel
from results.store import Store
from results.summary import find
from tests.results.made_sweep import batch_row, make_trial, request_row, request_table

ORDERED = {"strategy": "dynamic", "setting": "length", "max_batch_size": 4, "order": "length", "max_skips": 3}


def launch(number: int, at_s: float, **given: Any) -> dict[str, Any]:
    plain = {"batch_id": number, "launched_s": at_s, "padding_waste": 0.0, "lockstep_waste": 0.5}
    return batch_row(**(plain | {"size": 2, "cap": 8, "trigger": "size"} | given))


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=BATCHES)


def of_trial(*rows: dict[str, Any]) -> Any:
    requests = [request_row(token_s=[1.0])]
    return padded_batches(make_trial(requests), request_table(requests), table(*rows))


def test_wastes_are_counted_in_bins_of_five_per_cent():
    found = of_trial(
        launch(0, 1.0),
        launch(1, 2.0, padding_waste=0.049),
        launch(2, 3.0, padding_waste=0.999, lockstep_waste=None),
    )
    assert found.padding == (2, *[0] * (BINS - 2), 1)
    assert sum(found.lockstep) == found.lockstep[BINS // 2] == 2


def test_the_cap_is_told_where_it_changes_and_what_did_not_fit_is_not_counted_as_served():
    found = of_trial(
        launch(0, 1.0, size=8, out_of_memory=True),
        launch(1, 2.0, cap=4),
        launch(2, 3.0, cap=4, trigger="memory", size=3),
        launch(3, 9.0, cap=5),
    )
    assert found.caps == ((1.0, 8), (2.0, 4), (9.0, 5))
    assert found.out_of_memory == ((1.0, 8),)
    assert found.by_memory == ((3.0, 3),)
    assert sum(found.padding) == 3
    assert (found.ends_s, found.cap_fell, found.most_skips) == (9.0, True, None)


def test_where_nothing_pads_and_memory_did_nothing_there_is_nothing_to_show():
    plain = {"padding_waste": None, "lockstep_waste": None}
    assert of_trial(launch(0, 1.0, **plain)) is None
    assert of_trial(launch(0, 1.0, **plain, out_of_memory=True)) is not None
    assert of_trial() is None


def test_many_points_are_thinned_from_the_first_to_the_last():
    rows = [launch(number, float(number), trigger="memory") for number in range(3 * MOST_POINTS)]
    found = of_trial(*rows)
    assert len(found.by_memory) == MOST_POINTS
    assert (found.by_memory[0][0], found.by_memory[-1][0]) == (0.0, 3.0 * MOST_POINTS - 1)


@given(
    waits=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), min_size=1, max_size=20),
    batches=st.integers(1, 6),
)
def test_skips_are_the_launches_of_younger_requests_while_one_waited(waits, batches):
    """Against counting pair by pair. Requests arrive between launches, each in a launch after its arrival."""
    launched_s = [10.0 * (number + 1) + 0.5 for number in range(batches)]
    rows = []
    for index, (arrival, later) in enumerate(waits):
        arrived_s = arrival * 3.0 + index * 0.01
        possible = [number for number, at_s in enumerate(launched_s) if at_s > arrived_s]
        if possible:
            rows.append((arrived_s, possible[min(later, len(possible)) - 1]))
    requests = request_table(
        [request_row(index=n, arrived_s=at_s, batch_id=batch) for n, (at_s, batch) in enumerate(rows)]
    )
    found = most_skips(requests, table(*(launch(n, at_s) for n, at_s in enumerate(launched_s))))
    counted = [
        sum(
            arrived_s < launched_s[number] and any(b == number and a > arrived_s for a, b in rows)
            for number in range(own)
        )
        for arrived_s, own in rows
    ]
    assert found == (max(counted) if rows else None)


def test_a_trial_in_order_of_length_tells_its_skips(made_sweep: ModuleType):
    requests = [
        request_row(index=0, arrived_s=1.0, batch_id=1, token_s=[3.0]),
        request_row(index=1, arrived_s=1.5, batch_id=0, token_s=[2.5]),
    ]
    trial = make_trial(requests, knobs=ORDERED)
    found = padded_batches(trial, request_table(requests), table(launch(0, 2.0), launch(1, 3.0)))
    assert found is not None
    assert found.most_skips == 1


def test_a_table_without_launches_has_no_skips():
    assert most_skips(request_table([request_row()]), table()) is None


def with_padded(findings: Findings, padded: PaddedBatches | None, triggers: dict[str, int]) -> Findings:
    """The first cell has these batches in each repeat, the others none."""
    first, *others = findings.cells
    trials = tuple(replace(one, padded=padded, triggers=triggers) for one in first.trials)
    plain = [replace(cell, trials=tuple(replace(one, padded=None) for one in cell.trials)) for cell in others]
    return replace(findings, cells=(replace(first, trials=trials), *plain))


def test_the_page_states_a_fallen_cap_and_draws_it_over_time(made_store: Store):
    findings = find(made_store)
    fell = of_trial(
        launch(0, 1.0, size=8, out_of_memory=True),
        launch(1, 2.0, cap=4, size=4, trigger="memory"),
        launch(2, 6.0, cap=5, size=5),
    )
    made = memory.panel(with_padded(findings, fell, {"memory": 1, "size": 1}))
    assert isinstance(made, Panel)
    repeats = len(findings.cells[0].trials)
    assert made.first.heading.startswith("The cap fell from 8 to 4 with ")
    assert made.first.heading.endswith(f"{repeats} batches ran out of memory")
    drawn = made.first.charts[0].figure.data
    line, points = drawn[0], drawn[repeats:]
    assert (line.x, line.y, line.line.shape) == ((1, 2, 6, 6), (8, 4, 5, 5), "hv")
    assert {one.name: (set(one.x), set(one.y)) for one in points} == {
        "launched by memory": ({2.0}, {4}),
        "ran out of memory": ({1.0}, {8}),
    }


def test_without_memory_or_a_twin_the_page_has_no_such_figures(made_store: Store):
    plain = with_padded(find(made_store), of_trial(launch(0, 1.0)), {"size": 1})
    assert isinstance(memory.panel(plain), Absent)
    assert isinstance(padding.panel(plain), Absent)
