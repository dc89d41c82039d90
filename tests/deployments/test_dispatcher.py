import math

import pytest

from deployments.dispatcher import Batch, Dispatcher, Rejection
from strategies.continuous import Continuous
from strategies.dynamic import Dynamic
from strategies.naive import Naive
from strategies.strategy import EngineView, Launch, Reject, Strategy, Wait, Waiting

FOREVER = 1e9


def request(name: str, arrived_s: float = 0.0) -> Waiting:
    return Waiting(request_id=name, prompt_tokens=1, max_new_tokens=1, arrived_s=arrived_s)


def filled(strategy: Strategy, names: str, *, cap: int, joinable: bool = False, **more: int) -> Dispatcher:
    """A dispatcher in which one request waits for each letter."""
    dispatcher = Dispatcher(strategy, max_batch_size=cap, joinable=joinable, **more)
    for name in names:
        dispatcher.arrive(request(name), 0.0)
    return dispatcher


def names(requests: object) -> str:
    return "".join(request.request_id for request in requests)


def launched(dispatcher: Dispatcher, now_s: float = 0.0) -> list[str]:
    return [names(batch.requests) for batch in dispatcher.poll(now_s)]


def finish_all(dispatcher: Dispatcher, batch: Batch, now_s: float) -> None:
    ended = [dispatcher.finish(one.request_id, batch.batch_id, now_s) for one in batch.requests]
    assert ended == [False] * (len(ended) - 1) + [True]


class Scripted:
    """Gives its answers in turn, then waits for the next completion; keeps what it was asked."""

    def __init__(self, *answers: Launch | Reject | Wait) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[float, str, EngineView]] = []

    def decide(self, now_s: float, waiting: object, engine: EngineView) -> Launch | Reject | Wait:
        self.asked.append((now_s, names(waiting), engine))
        return self.answers.pop(0) if self.answers else Wait()


def test_a_batch_says_what_it_is():
    dispatcher = filled(Naive(max_batch_size=2), "abc", cap=2)
    (batch,) = dispatcher.poll(4.0)
    assert (batch.batch_id, names(batch.requests), batch.trigger) == (0, "ab", "size")
    assert (batch.cap, batch.waiting_left, batch.launched_s) == (2, 1, 4.0)
    assert (dispatcher.running, names(dispatcher.waiting), dispatcher.idle) == (2, "c", False)


def test_the_engine_is_idle_when_the_last_request_of_the_last_batch_ends():
    strategy = Scripted(Launch(2, "join"), Launch(1, "join"))
    dispatcher = filled(strategy, "abcd", cap=4, joinable=True)
    first, second = dispatcher.poll(1.0)
    assert not dispatcher.finish("a", first.batch_id, 2.0)
    assert dispatcher.finish("c", second.batch_id, 3.0)
    assert dispatcher.running == 1
    dispatcher.poll(3.0)
    assert dispatcher.finish("b", first.batch_id, 5.0)
    dispatcher.poll(6.0)
    seen = [(engine.running, engine.idle_since_s) for _, _, engine in strategy.asked[-2:]]
    assert seen == [(1, -math.inf), (0, 5.0)]


def test_the_closing_call_overtakes_the_last_request():
    dispatcher = filled(Naive(max_batch_size=4), "ab", cap=4)
    dispatcher.close(3)
    assert not dispatcher.closed
    assert launched(dispatcher) == []
    dispatcher.arrive(request("c"), 1.0)
    assert dispatcher.closed
    (batch,) = dispatcher.poll(1.0)
    assert (names(batch.requests), batch.trigger) == ("abc", "flush")


def test_the_closing_call_comes_after_the_last_request():
    dispatcher = filled(Naive(max_batch_size=4), "ab", cap=4)
    assert launched(dispatcher) == []
    dispatcher.close(2)
    assert dispatcher.closed
    assert launched(dispatcher) == ["ab"]
    assert launched(dispatcher) == []


def test_a_trial_without_requests_closes_at_once():
    dispatcher = Dispatcher(Naive(max_batch_size=4), max_batch_size=4, joinable=False)
    dispatcher.close(0)
    assert dispatcher.closed
    assert dispatcher.idle
    assert dispatcher.poll(0.0) == []


def test_poll_asks_again_only_when_the_promise_of_a_wait_ends():
    strategy = Scripted(Wait(until_s=5.0, until_waiting=3), Wait(until_s=6.0))
    dispatcher = Dispatcher(strategy, max_batch_size=4, joinable=False)
    assert dispatcher.poll(0.0) == []
    assert dispatcher.wake_s == math.inf
    dispatcher.arrive(request("a"), 1.0)
    dispatcher.poll(1.0)
    assert dispatcher.wake_s == 5.0
    dispatcher.arrive(request("b"), 2.0)
    dispatcher.poll(2.0)
    dispatcher.poll(4.9)
    dispatcher.arrive(request("c"), 4.9)
    dispatcher.poll(4.9)
    dispatcher.close(4)
    dispatcher.poll(4.95)
    dispatcher.poll(FOREVER)
    assert [(now_s, waiting) for now_s, waiting, _ in strategy.asked] == [
        (1.0, "a"),
        (4.9, "abc"),
        (4.95, "abc"),
    ]
    dispatcher.arrive(request("d"), FOREVER)
    dispatcher.poll(FOREVER)
    assert strategy.asked[-1][2].closed


def test_poll_is_due_at_the_moment_of_the_age_trigger():
    dispatcher = Dispatcher(Dynamic(max_batch_size=4, max_wait_ms=200), max_batch_size=4, joinable=False)
    dispatcher.arrive(request("a", 0.1), 0.1)
    assert launched(dispatcher, 0.1) == []
    assert dispatcher.wake_s == 0.1 + 0.2
    assert launched(dispatcher, math.nextafter(dispatcher.wake_s, 0)) == []
    assert launched(dispatcher, dispatcher.wake_s) == ["a"]
    assert dispatcher.wake_s == math.inf


def test_a_wait_that_has_ended_already_is_a_bug_of_the_strategy():
    with pytest.raises(AssertionError, match="ended already"):
        filled(Scripted(Wait(until_s=1.0)), "a", cap=2).poll(1.0)
    with pytest.raises(AssertionError, match="ended already"):
        filled(Scripted(Wait(until_waiting=1)), "a", cap=2).poll(1.0)


@pytest.mark.parametrize("take", [0, -1, 4, (), (3,), (-1,), (0, 0)])
def test_an_invalid_take_is_a_bug_of_the_strategy(take):
    with pytest.raises(AssertionError, match="with 3 waiting"):
        filled(Scripted(Launch(take, "size")), "abc", cap=4).poll(0.0)


@pytest.mark.parametrize(("joinable", "trigger"), [(False, "size"), (False, "join"), (True, "size")])
def test_only_a_joining_batch_may_be_larger_than_the_cap(joinable, trigger):
    with pytest.raises(AssertionError, match="larger than the cap of 2"):
        filled(Scripted(Launch(3, trigger)), "abc", cap=2, joinable=joinable).poll(0.0)


def test_a_joining_batch_may_be_larger_than_the_cap():
    assert launched(filled(Continuous(max_batch_size=2), "abc", cap=2, joinable=True)) == ["abc"]


def test_nothing_joins_an_engine_that_cannot_be_joined():
    dispatcher = filled(Scripted(Launch(1, "size"), Launch(1, "size")), "ab", cap=2)
    with pytest.raises(AssertionError, match="cannot be joined"):
        dispatcher.poll(0.0)


def test_out_of_memory_halves_from_the_size_that_failed_and_keeps_the_order():
    dispatcher = filled(Naive(max_batch_size=16), "abcdef", cap=16)
    dispatcher.close(7)
    dispatcher.arrive(request("g"), 0.0)
    (batch,) = dispatcher.poll(0.0)
    dispatcher.close(8)
    dispatcher.arrive(request("h"), 1.0)
    assert dispatcher.out_of_memory(batch.batch_id, 2.0) == []
    assert (dispatcher.cap, dispatcher.running, names(dispatcher.waiting)) == (3, 0, "abcdefgh")
    assert launched(dispatcher, 2.0) == ["abc"]


def test_out_of_memory_halves_the_cap_when_the_batch_filled_it():
    dispatcher = filled(Naive(max_batch_size=5), "abcde", cap=5)
    caps = []
    while dispatcher.cap > 1:
        (batch,) = dispatcher.poll(0.0)
        assert len(batch.requests) == batch.cap
        dispatcher.out_of_memory(batch.batch_id, 0.0)
        caps.append(dispatcher.cap)
    assert caps == [2, 1]
    assert names(dispatcher.waiting) == "abcde"


def test_the_engine_is_idle_since_the_batch_that_did_not_fit():
    dispatcher = filled(Dynamic(max_batch_size=4, max_wait_ms=1000, timer="idle"), "abcd", cap=4)
    (batch,) = dispatcher.poll(0.0)
    dispatcher.out_of_memory(batch.batch_id, 3.0)
    assert launched(dispatcher, 3.0) == ["ab"]
    dispatcher.finish("a", 1, 4.0)
    dispatcher.finish("b", 1, 5.0)
    dispatcher.out_of_memory(dispatcher.poll(5.0)[0].batch_id, 6.0)
    assert (dispatcher.cap, launched(dispatcher, 6.0)) == (1, ["c"])


def test_one_failure_of_an_engine_that_is_joined_lowers_the_cap_once_and_fails_nobody():
    dispatcher = Dispatcher(Continuous(max_batch_size=8), max_batch_size=8, joinable=True)
    batches = []
    for number, name in enumerate("abcdef"):
        dispatcher.arrive(request(name), number)
        batches += dispatcher.poll(number)
    assert [names(batch.requests) for batch in batches] == list("abcdef")
    for number, batch in enumerate(batches):
        assert dispatcher.out_of_memory(batch.batch_id, 6.0, ran=6, again=number > 0) == []
    assert (dispatcher.cap, dispatcher.running) == (3, 0)
    assert names(dispatcher.waiting) == "abcdef"
    (batch,) = dispatcher.poll(6.0)
    assert names(batch.requests) == "abc"


def test_a_request_that_runs_out_of_memory_alone_fails():
    dispatcher = filled(Naive(max_batch_size=1), "ab", cap=1)
    (batch,) = dispatcher.poll(0.0)
    assert names(dispatcher.out_of_memory(batch.batch_id, 1.0)) == "a"
    assert (dispatcher.cap, dispatcher.running, names(dispatcher.waiting)) == (1, 0, "b")
    assert launched(dispatcher, 1.0) == ["b"]


def test_a_request_that_joined_others_and_did_not_fit_tries_again_alone():
    dispatcher = filled(Continuous(max_batch_size=8), "a", cap=8, joinable=True)
    (first,) = dispatcher.poll(0.0)
    dispatcher.arrive(request("b"), 1.0)
    (second,) = dispatcher.poll(1.0)
    assert dispatcher.out_of_memory(second.batch_id, 2.0) == []
    assert launched(dispatcher, 2.0) == []
    finish_all(dispatcher, first, 3.0)
    (third,) = dispatcher.poll(3.0)
    assert names(third.requests) == "b"
    assert names(dispatcher.out_of_memory(third.batch_id, 4.0)) == "b"
    assert dispatcher.idle


def test_joining_keeps_to_the_cap_from_running_out_of_memory_until_it_has_recovered():
    dispatcher = filled(
        Continuous(max_batch_size=4), "abcdefgh", cap=4, joinable=True, clean_batches_to_recover=1
    )
    (batch,) = dispatcher.poll(0.0)
    assert len(batch.requests) == 8
    dispatcher.out_of_memory(batch.batch_id, 0.0)
    sizes = []
    while dispatcher.waiting:
        (batch,) = dispatcher.poll(0.0)
        assert dispatcher.poll(0.0) == []
        sizes.append(len(batch.requests))
        finish_all(dispatcher, batch, 0.0)
    assert sizes == [2, 3, 3]
    assert dispatcher.cap == 4
    for name in "ijklmn":
        dispatcher.arrive(request(name), 1.0)
    assert launched(dispatcher, 1.0) == ["ijklmn"]


def test_a_full_engine_is_looked_at_again_when_something_ends_not_when_a_past_wait_ends():
    dispatcher = filled(Dynamic(max_batch_size=4, max_wait_ms=500), "abcd", cap=4, joinable=True)
    (batch,) = dispatcher.poll(0.0)
    dispatcher.out_of_memory(batch.batch_id, 0.0)
    finish_all(dispatcher, dispatcher.poll(0.0)[0], 0.0)
    finish_all(dispatcher, dispatcher.poll(0.0)[0], 0.0)
    assert (dispatcher.cap, dispatcher.idle) == (2, True)
    dispatcher.arrive(request("e", 1.0), 1.0)
    assert launched(dispatcher, 1.0) == []
    assert dispatcher.wake_s == 1.5
    for name in "fg":
        dispatcher.arrive(request(name, 1.2), 1.2)
    assert launched(dispatcher, 1.2) == ["ef"]
    assert dispatcher.wake_s == math.inf


def test_batches_that_come_back_out_of_turn_find_their_place():
    strategy = Scripted(Launch((2, 0), "join"), Launch(1, "join"), Launch(1, "join"))
    dispatcher = filled(strategy, "abcde", cap=8, joinable=True)
    first, second, third = dispatcher.poll(0.0)
    assert [names(batch.requests) for batch in (first, second, third)] == ["ca", "b", "d"]
    dispatcher.out_of_memory(second.batch_id, 1.0)
    dispatcher.out_of_memory(third.batch_id, 1.0)
    assert names(dispatcher.waiting) == "bde"
    dispatcher.out_of_memory(first.batch_id, 1.0)
    assert names(dispatcher.waiting) == "abcde"


def test_the_cap_recovers_by_one_after_twenty_clean_batches_counted_anew():
    dispatcher = Dispatcher(Dynamic(max_batch_size=8, max_wait_ms=0), max_batch_size=8, joinable=False)
    for index in range(8):
        dispatcher.arrive(request(f"first {index}"), 0.0)
    (batch,) = dispatcher.poll(0.0)
    dispatcher.out_of_memory(batch.batch_id, 0.0)
    finish_all(dispatcher, dispatcher.poll(0.0)[0], 0.0)
    finish_all(dispatcher, dispatcher.poll(0.0)[0], 0.0)
    assert dispatcher.cap == 4
    caps = []
    for index in range(100):
        dispatcher.arrive(request(str(index)), 1.0 + index)
        (batch,) = dispatcher.poll(1.0 + index)
        finish_all(dispatcher, batch, 1.0 + index)
        caps.append(dispatcher.cap)
    assert caps == [4] * 17 + [5] * 20 + [6] * 20 + [7] * 20 + [8] * 23


def test_the_cap_follows_a_trace_made_by_hand():
    """Two clean batches to recover; the engine holds 3. `x` is out of memory, `.` is clean."""
    dispatcher = filled(Dynamic(max_batch_size=6, max_wait_ms=0), "", cap=6, clean_batches_to_recover=2)
    for index in range(40):
        dispatcher.arrive(request(str(index)), 0.0)
    seen = []
    while len(seen) < 13:
        (batch,) = dispatcher.poll(float(len(seen)))
        if len(batch.requests) > 3:
            dispatcher.out_of_memory(batch.batch_id, float(len(seen)))
            seen.append(f"{batch.cap}x")
        else:
            finish_all(dispatcher, batch, float(len(seen)))
            seen.append(f"{batch.cap}.")
    assert " ".join(seen) == "6x 3. 3. 4x 2. 2. 3. 3. 4x 2. 2. 3. 3."


def test_out_of_memory_ends_a_run_of_clean_batches():
    dispatcher = filled(
        Dynamic(max_batch_size=2, max_wait_ms=0), "abcdefgh", cap=2, clean_batches_to_recover=3
    )
    dispatcher.out_of_memory(dispatcher.poll(0.0)[0].batch_id, 0.0)
    for _ in range(2):
        finish_all(dispatcher, dispatcher.poll(0.0)[0], 0.0)
    dispatcher.out_of_memory(dispatcher.poll(0.0)[0].batch_id, 0.0)
    caps = []
    for _ in range(3):
        finish_all(dispatcher, dispatcher.poll(0.0)[0], 0.0)
        caps.append(dispatcher.cap)
    assert caps == [1, 1, 2]


def test_a_skip_is_counted_when_a_younger_request_is_launched():
    strategy = Scripted(Launch((3, 1), "join"), Launch((0, 1), "join"))
    dispatcher = filled(strategy, "abcdef", cap=4, joinable=True)
    first, second = dispatcher.poll(0.0)
    assert names(first.requests) == "db"
    assert [(one.request_id, one.skips) for one in second.requests] == [("a", 1), ("c", 1)]
    assert [(one.request_id, one.skips) for one in dispatcher.waiting] == [("e", 0), ("f", 0)]


def test_skips_add_up_over_launches():
    dispatcher = filled(Scripted(*[Launch((1,), "join")] * 3), "abcd", cap=4, joinable=True)
    dispatcher.poll(0.0)
    assert [(one.request_id, one.skips) for one in dispatcher.waiting] == [("a", 3)]


def test_a_rejected_request_comes_with_its_reason_and_is_gone():
    strategy = Scripted(Reject((1,), "deadline passed"), Launch(2, "size"))
    dispatcher = filled(strategy, "abc", cap=2)
    rejection, batch = dispatcher.poll(0.0)
    assert rejection == Rejection(request=request("b"), reason="deadline passed")
    assert names(batch.requests) == "ac"


def test_abandon_empties_the_queue_and_lets_what_runs_end():
    dispatcher = filled(Dynamic(max_batch_size=2, max_wait_ms=500), "abc", cap=2)
    (batch,) = dispatcher.poll(0.0)
    assert names(dispatcher.abandon()) == "c"
    assert (list(dispatcher.waiting), dispatcher.running, dispatcher.wake_s) == ([], 2, math.inf)
    finish_all(dispatcher, batch, 1.0)
    assert dispatcher.idle
    assert dispatcher.poll(FOREVER) == []
    assert dispatcher.abandon() == []


def test_abandon_forgets_the_wait_of_what_was_waiting():
    dispatcher = filled(Dynamic(max_batch_size=4, max_wait_ms=500), "a", cap=4)
    dispatcher.poll(0.0)
    assert dispatcher.wake_s == 0.5
    dispatcher.abandon()
    dispatcher.arrive(request("b", 3.0), 3.0)
    assert launched(dispatcher, 3.0) == []
    assert dispatcher.wake_s == 3.5


def test_the_same_request_twice_is_refused():
    dispatcher = filled(Naive(max_batch_size=4), "a", cap=4)
    with pytest.raises(AssertionError, match="request a is here already"):
        dispatcher.arrive(request("a"), 1.0)
