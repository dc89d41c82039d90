"""Bisection over trials that are judged: where it ends, how often it looks, and what one wrong verdict does."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.largest_rate.search import MOST_TRIALS, Bracket, Judged, Try, next_try, three_digits

Verdict = Callable[[float, int], bool]


def search(
    within: Verdict, *, width: float = 0.1, most_trials: int = MOST_TRIALS, least_rate: float = 0.0
) -> tuple[Bracket, list[Judged]]:
    """Run trials until the bracket is there."""

    def then(trials: list[Judged]) -> Try | Bracket:
        return next_try(trials, start=1.0, width=width, most_trials=most_trials, least_rate=least_rate)

    trials: list[Judged] = []
    while isinstance(found := then(trials), Try):
        assert (found.rate, found.repeat) not in {(one.rate, one.repeat) for one in trials}
        trials.append(Judged(rate=found.rate, repeat=found.repeat, within=within(found.rate, found.repeat)))
        assert len(trials) < 200
    return found, trials


@given(edge=st.floats(0.05, 300.0), width=st.floats(0.02, 0.5))
def test_without_noise_the_bracket_holds_the_edge_and_is_as_narrow_as_asked(edge: float, width: float):
    found, trials = search(lambda rate, _: rate <= edge, width=width)
    assert found.within is not None
    assert found.beyond is not None
    assert found.within <= edge < found.beyond
    assert found.beyond <= found.within * (1 + width) or found.beyond <= three_digits(found.within * 1.0101)
    assert sorted(one.rate for one in trials if one.repeat) == [found.within, found.beyond], "both, once more"


@given(edge=st.floats(0.3, 3.0), wrong=st.integers(0, 12))
def test_one_wrong_verdict_does_not_move_the_bracket_off_the_edge(edge: float, wrong: int):
    count = 0

    def mostly(rate: float, repeat: int) -> bool:
        nonlocal count
        count += 1
        return (rate <= edge) != (count - 1 == wrong)

    found, _ = search(mostly)
    assert found.within is not None
    assert found.beyond is not None
    assert found.within <= edge < found.beyond
    assert found.beyond <= 1.1 * found.within


@given(
    edge=st.floats(0.3, 3.0), by=st.one_of(st.floats(1.2, 3.0), st.floats(0.33, 0.8)), which=st.integers(0, 2)
)
def test_a_repeat_that_is_lenient_or_harsh_is_outvoted_once_and_then_asked_last(
    edge: float, by: float, which: int
):
    """With the first repeat three times as lenient, asked first at every rate, 72 trials crept to the edge."""
    found, trials = search(lambda rate, repeat: rate <= edge * (by if repeat == which else 1.0))
    assert found.settled
    assert found.within is not None
    assert found.beyond is not None
    assert found.within <= edge < found.beyond <= 1.1 * found.within
    assert len(trials) <= 27, "on a grid of 10,800 cases 26 is the most"


def test_trials_that_contradict_each_other_end_at_their_number_and_are_not_settled():
    found, trials = search(lambda rate, repeat: repeat % 2 == 0, most_trials=12)
    assert len(trials) == 12
    assert not found.settled
    settled, few = search(lambda rate, _: rate <= 2.3, most_trials=12)
    assert settled.settled
    assert len(few) < 12


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.booleans()), min_size=1))
def test_of_what_is_not_settled_no_trial_speaks_against_either_end(trials: list[tuple[int, int, bool]]):
    given_trials = [Judged(rate=rate, repeat=repeat, within=within) for rate, repeat, within in trials]
    found = next_try(given_trials, start=1.0, width=0.1, most_trials=1)
    assert isinstance(found, Bracket)
    if found.settled:
        return
    last = {(one.rate, one.repeat): one.within for one in given_trials}
    if found.beyond is not None:
        assert not any(within for (rate, _), within in last.items() if rate >= found.beyond)
    if found.within is not None:
        assert all(within for (rate, _), within in last.items() if rate == found.within)
        lowest = min(rate for (rate, _), within in last.items() if within)
        assert all(within for (rate, _), within in last.items() if lowest <= rate <= found.within)
        assert found.beyond is None or found.within < found.beyond


def test_the_order_in_which_trials_are_known_changes_nothing():
    _, trials = search(lambda rate, _: rate <= 2.3)
    for cut in range(len(trials)):
        known = trials[:cut]
        assert next_try(known, start=1.0, width=0.1) == next_try(known[::-1], start=1.0, width=0.1)


def test_a_search_goes_on_narrower_from_what_a_wider_one_tried():
    wide, trials = search(lambda rate, _: rate <= 2.3, width=0.5)
    narrower = next_try(trials, start=1.0, width=0.1)
    assert isinstance(narrower, Try)
    assert wide.within is not None
    assert wide.beyond is not None
    assert wide.within < narrower.rate < wide.beyond


@pytest.mark.parametrize(("within", "edges"), [(False, (None, True)), (True, (True, None))])
def test_where_no_rate_or_every_rate_is_within_it_ends(within: bool, edges: tuple[bool | None, bool | None]):
    found, trials = search(lambda *_: within)
    assert (found.within is not None, found.beyond is not None) == tuple(map(bool, edges))
    assert len(trials) < 20


@pytest.mark.parametrize(("slow", "edge"), [(1.1, 1.4), (0.65, 0.9), (0.45, 0.68)])
def test_what_is_too_slow_at_low_rates_as_well_is_found(slow: float, edge: float):
    found, _ = search(lambda rate, _: slow < rate <= edge)
    assert found.within is not None
    assert found.beyond is not None
    assert found.within <= edge < found.beyond <= 1.1 * found.within


def test_it_looks_a_handful_of_times():
    _, trials = search(lambda rate, _: rate <= 0.83)
    assert len(trials) <= 2 + math.ceil(math.log2(math.log(2) / math.log(1.1))) + 2


def test_no_rate_is_tried_at_which_a_trial_would_have_too_few_requests():
    """A strategy that waits for full batches would be followed down to trials of two requests."""
    found, trials = search(lambda rate, repeat: False, least_rate=0.4)
    assert found.within is None
    assert min(one.rate for one in trials) >= 0.4
    assert found.beyond == min(one.rate for one in trials)
