"""Who has which lane, and what is loaded in it."""

from deployments.lane_board import Lane, LaneBoard
from deployments.places import Here

A, B, C = "key a", "key b", "key c"


def loaded(board: LaneBoard, trial: str, key: str) -> Lane:
    """Take a lane, load `key` in it and leave."""
    lane = board.acquire(trial, key)
    assert lane is not None
    board.loading(lane.index)
    lane = board.loaded(lane.index, key, {"device": "cpu"})
    board.release(trial)
    return lane


def test_a_lane_is_one_trials_until_it_is_released():
    board = LaneBoard(Here(lanes=1, gpu=False))
    lane = board.acquire("first", A)
    assert (lane.name, lane.holder, lane.app, lane.key) == ("lane-0", "first", None, None)
    assert board.acquire("second", A) is None
    board.release("first")
    assert board.acquire("second", A).holder == "second"


def test_every_lane_is_given_to_one():
    board = LaneBoard(Here(lanes=3, gpu=False))
    assert {board.acquire(trial, A).index for trial in ("one", "two", "three")} == {0, 1, 2}
    assert board.acquire("four", A) is None


def test_a_trial_that_comes_back_gets_the_lane_that_it_held():
    board = LaneBoard(Here(lanes=2, gpu=False))
    first = loaded(board, "earlier", A)
    mine = board.acquire("mine", B)
    assert mine.index != first.index
    assert board.acquire("mine", A) == mine  # not the free one, though that has its key loaded


def test_a_lane_that_has_the_key_loaded_comes_first_and_an_empty_one_second():
    board = LaneBoard(Here(lanes=3, gpu=False))
    a, b = board.acquire("one", A), board.acquire("two", B)
    for lane, key in ((a, A), (b, B)):
        board.loading(lane.index)
        board.loaded(lane.index, key, {})
    board.release("one")
    board.release("two")
    assert board.acquire("again", B).index == b.index
    assert board.acquire("other", C).key is None  # nothing that may be wanted again is thrown out
    assert board.acquire("last", C).index == a.index


def test_loading_gives_a_new_application_and_forgets_what_was_there():
    board = LaneBoard(Here(lanes=2, gpu=False))
    first = loaded(board, "one", A)
    again = board.loading(first.index)
    other = board.loading(1 - first.index)
    assert (again.key, again.setup) == (None, None)
    assert len({first.app, again.app, other.app}) == 3


def test_what_was_loaded_is_kept_from_trial_to_trial():
    board = LaneBoard(Here(lanes=1, gpu=False))
    first = loaded(board, "one", A)
    lane = board.acquire("two", A)
    assert (lane.app, lane.key, lane.setup, lane.holder) == (first.app, A, {"device": "cpu"}, "two")


def test_a_condemned_lane_keeps_its_application_to_be_cleared_and_loads_anew():
    board = LaneBoard(Here(lanes=1, gpu=False))
    first = loaded(board, "one", A)
    board.acquire("two", A)
    board.condemn(first.index)
    board.release("two")
    lane = board.acquire("three", A)
    assert (lane.app, lane.key, lane.setup) == (first.app, None, None)


def test_releasing_again_or_without_a_lane_harms_nobody():
    board = LaneBoard(Here(lanes=1, gpu=False))
    board.acquire("one", A)
    board.release("one")
    lane = board.acquire("two", A)
    board.release("one")
    board.release("stranger")
    assert board.acquire("two", A) == lane
    assert board.acquire("three", A) is None


def test_a_key_that_can_never_load_is_remembered_with_its_reason():
    board = LaneBoard(Here(lanes=1, gpu=False))
    assert board.break_key(0, A, "no such model")
    assert (board.broken(0, A), board.broken(0, B)) == ("no such model", None)
    assert board.acquire("one", A) is not None, "who asks is told why"


def test_the_view_says_what_each_lane_does_and_for_how_long():
    now_s = 0.0
    board = LaneBoard(Here(lanes=2, gpu=False), clock=lambda: now_s)

    def first() -> tuple[str, float, object]:
        view = board.view()[0]
        return view.doing, view.for_s, view.state

    now_s = 1.0
    assert first() == ("idle", 1.0, None)
    board.acquire("one", A)
    assert first() == ("preparing", 0.0, None)
    board.loading(0)
    now_s = 31.0
    assert first() == ("loading", 30.0, None)
    board.loaded(0, A, {})
    now_s = 33.0
    assert first() == ("preparing", 2.0, None)
    for sent in (1, 4):
        board.report("one", {"sent": sent, "planned": 5})
        now_s += 1
    assert first() == ("measuring", 2.0, {"sent": 4, "planned": 5})
    board.report("one", {"sent": 5, "planned": 5})
    assert first() == ("draining", 0.0, {"sent": 5, "planned": 5})
    board.release("one")
    assert first() == ("idle", 0.0, None)
    view = board.view()
    assert [(lane.name, lane.key, lane.holder) for lane in view] == [
        ("lane-0", A, None),
        ("lane-1", None, None),
    ]
    assert (view[1].doing, view[1].for_s) == ("idle", now_s)


def test_what_a_trial_says_after_it_gave_its_lane_back_is_forgotten():
    board = LaneBoard(Here(lanes=1, gpu=False))
    board.acquire("one", A)
    board.release("one")
    board.report("one", {"sent": 5, "planned": 5})
    board.acquire("two", A)
    board.report("two", {"sent": 5, "planned": 5})
    board.acquire("two", A)  # its process was killed: this is its next attempt
    assert [(lane.holder, lane.doing, lane.state) for lane in board.view()] == [("two", "preparing", None)]
