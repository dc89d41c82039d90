"""What fits a KV budget, and what naive and dynamic make of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.dispatcher import Dispatcher
from strategies.kv_budget import Fit, KVBudget
from strategies.registry import create
from strategies.strategy import EngineView, Launch, Wait, Waiting
from tests.strategies.replay import Job, Start, drive

LOCKSTEP = {"running": 0, "idle_since_s": 0.0, "joinable": False, "closed": False}


def rows(*prompts: int, limit: int = 10) -> list[Waiting]:
    return [Waiting(str(place), tokens, limit, 0.0) for place, tokens in enumerate(prompts)]


def budget(tokens: int) -> KVBudget:
    return KVBudget(budget_bytes=7 * tokens + 6, bytes_per_token=7)  # 6: less than a token is of no use


def decided(name: str, waiting: list[Waiting], tokens: int, now_s: float = 0.0, **knobs: object) -> object:
    view = EngineView(cap=4, kv=budget(tokens), **LOCKSTEP)
    return create(name, {"max_batch_size": 4, **knobs}).decide(now_s, waiting, view)


def test_a_batch_costs_its_longest_prompt_and_its_largest_limit_in_every_row():
    assert budget(0).cost_bytes(rows(5, 90, 20)) == 3 * (90 + 10) * 7
    assert budget(0).cost_bytes([*rows(90, limit=1), *rows(3, limit=50)]) == 2 * (90 + 50) * 7
    assert budget(0).cost_bytes([]) == 0


@pytest.mark.parametrize(
    ("tokens", "prompts", "fit"),
    [
        (60, (10, 10, 10), Fit(3, full=True)),
        (59, (10, 10, 10), Fit(2, full=True)),
        (79, (10, 10, 10), Fit(3, full=True)),
        (80, (10, 10, 10), Fit(3, full=False)),  # four rows of 20 fit
        (99, (10, 40, 10), Fit(1, full=True)),  # the long one would be charged twice
        (100, (10, 40, 10), Fit(2, full=True)),
        (30, (90, 1), Fit(1, full=True)),  # alone, whatever it takes
        (0, (1,), Fit(1, full=True)),
        (60, (), Fit(0, full=False)),
    ],
)
def test_candidates_are_taken_until_the_first_that_would_break_the_budget(
    tokens: int, prompts: tuple[int, ...], fit: Fit
):
    assert budget(tokens).fit(rows(*prompts)) == fit


@given(prompts=st.lists(st.integers(1, 50), max_size=12), tokens=st.integers(0, 400))
def test_whether_all_that_wait_are_a_full_batch_does_not_depend_on_their_order(prompts, tokens):
    """What lets a strategy promise to wait, whoever is expired or urgent by then."""

    def full(ordered: list[int]) -> bool:
        return budget(tokens).fit(rows(*ordered)).full

    assert full(prompts) == full(prompts[::-1]) == full(sorted(prompts))


@given(
    prompt=st.integers(1, 100),
    limit=st.integers(1, 100),
    budget_bytes=st.integers(0, 100_000),
    each=st.integers(1, 99),
)
def test_the_largest_batch_of_equal_rows_is_the_last_that_fits(prompt, limit, budget_bytes, each):
    kv = KVBudget(budget_bytes=budget_bytes, bytes_per_token=each)
    most = kv.rows(prompt, limit)
    one = Waiting("", prompt, limit, 0.0)
    assert kv.cost_bytes([one] * most) <= budget_bytes < kv.cost_bytes([one] * (most + 1))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [((-1, 1), "budget_bytes must be at least 0, got -1"), ((1, 0), "bytes_per_token must be at least 1")],
)
def test_a_budget_that_makes_no_sense_is_refused(wrong: tuple[int, int], said: str):
    with pytest.raises(ValueError, match=said):
        KVBudget(budget_bytes=wrong[0], bytes_per_token=wrong[1])


@pytest.mark.parametrize(("name", "knobs"), [("naive", {}), ("dynamic", {"max_wait_ms": 500})])
def test_a_batch_is_launched_when_memory_holds_no_more(name: str, knobs: dict):
    assert decided(name, rows(10, 10, 10), 79, **knobs) == Launch(3, "memory")  # a fourth would not fit
    assert decided(name, rows(10, 10, 40), 100, **knobs) == Launch(2, "memory")  # the third does not
    assert decided(name, rows(90), 60, **knobs) == Launch(1, "memory")
    assert isinstance(decided(name, rows(10, 10, 10), 80, **knobs), Wait)
    assert decided(name, rows(10, 10, 10, 10), 80, **knobs) == Launch(4, "size")  # size before memory
    assert decided(name, rows(10, 10, 10, 10, 90), 80, **knobs) == Launch(4, "size")
    assert decided(name, rows(10, 90, 10, 10, 10), 80, **knobs) == Launch(1, "memory")


def test_a_batch_that_fits_is_launched_by_its_age_as_ever():
    assert decided("dynamic", rows(10, 10), 80, now_s=0.5, max_wait_ms=500) == Launch(2, "age")
    assert decided("dynamic", rows(10, 10), 80, now_s=0.4, max_wait_ms=500) == Wait(0.5, 3)


def test_the_budget_is_filled_in_the_order_that_was_asked_for():
    answer = decided("dynamic", rows(30, 10, 28, 31, 10), 120, max_wait_ms=0, order="length")
    assert answer == Launch((0, 3), "memory")  # 30, 31, then 28 would make it 3 · 41


def test_naive_flushes_what_fits_after_the_end_of_arrivals():
    trace = [Job(float(index), 0.5, prompt_tokens=prompt) for index, prompt in enumerate((4, 4, 9, 1, 1))]
    kv = KVBudget(budget_bytes=20, bytes_per_token=1)  # limit 1: three rows of 5, two of 10
    naive = create("naive", {"max_batch_size": 8})
    starts = drive(Dispatcher(naive, max_batch_size=8, joinable=False, kv=kv), trace, joinable=False)
    assert starts == [
        Start(2.0, (0, 1), "memory", 2.5),
        Start(3.0, (2, 3), "memory", 3.5),
        Start(4.0, (4,), "flush", 4.5),
    ]


def test_an_engine_that_is_joined_has_no_budget():
    seen = []

    class Looks:
        def decide(self, now_s: float, waiting: object, engine: EngineView) -> Launch:
            seen.append(engine.kv)
            return Launch(1, "size")

    for joinable in (True, False):
        dispatcher = Dispatcher(Looks(), max_batch_size=1, joinable=joinable, kv=budget(1))
        dispatcher.arrive(rows(1)[0], 0.0)
        dispatcher.poll(0.0)
    assert seen == [None, budget(1)]
