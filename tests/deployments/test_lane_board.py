"""Who has which lane, and what is loaded in it."""

from collections import Counter

from deployments.lane_board import Lane, LaneBoard
from deployments.places import Here, Place

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


def test_how_long_a_trial_has_had_its_lane_is_known_of_one_that_was_killed_too():
    now_s = [10.0]
    board = LaneBoard(Here(lanes=1, gpu=True, gpus=2, kind="NVIDIA L4"), clock=lambda: now_s[0])
    board.acquire("mine", A)
    now_s[0] = 15.0
    held_s, place = board.held("mine")
    assert (held_s, place.gpus, place.kind) == (5.0, 2, "NVIDIA L4")
    board.acquire("mine", A)  # its next attempt
    assert board.held("mine")[0] == 0.0
    board.release("mine")
    assert board.held("mine") is None


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


class Nodes:
    """A cluster that a test changes."""

    def __init__(self, *places: Place) -> None:
        self.now_s = 0.0
        self.places = list(places)

    def __call__(self) -> list[Place]:
        return list(self.places)

    def board(self, most: int | None = None, *kinds: str) -> LaneBoard:
        return LaneBoard(self, most, kinds, clock=lambda: self.now_s)

    def change(self, *, lose: Place | None = None, add: Place | None = None) -> None:
        self.places = [place for place in [*self.places, add] if place not in (None, lose)]
        self.now_s += 1.0  # a board looks once a second


def gpu(node: str, kind: str = "A10G", slot: int = 0) -> Place:
    return Place(slot=slot, gpu=True, node=node, host=node, kind=kind)


def test_a_node_that_comes_late_gets_a_lane_and_one_that_returns_a_new_one():
    nodes = Nodes(gpu("a"))
    board = nodes.board()
    assert board.acquire("one", A).index == 0
    assert board.acquire("two", A) is None
    nodes.change(add=gpu("b"))
    assert board.acquire("two", A).index == 1
    nodes.change(lose=gpu("b"))
    assert not board.there(1)
    nodes.change(add=gpu("b"))
    assert board.acquire("two", A).index == 2


def test_a_spare_place_has_a_lane_while_there_is_no_other_and_until_its_trial_is_over():
    spare = Place(slot=0, gpu=False, node="head", host="head", spare=True)
    nodes = Nodes(spare)
    board = nodes.board()
    first = board.acquire("one", A)
    assert first.place == spare
    nodes.change(add=gpu("a"))
    assert board.there(first.index)
    assert board.acquire("two", A).place == gpu("a")
    board.release("one")
    nodes.change()
    assert not board.there(first.index)
    assert board.acquire("one", A) is None
    nodes.change(lose=gpu("a"))
    assert board.acquire("two", A).place == spare


def test_what_a_lost_lane_had_loaded_is_told_once_and_its_trial_gets_another():
    nodes = Nodes(gpu("a"), gpu("b"))
    board = nodes.board()
    first = loaded(board, "one", A)
    assert board.acquire("one", A).index == first.index
    nodes.change(lose=first.place)
    assert board.there(first.index) is False
    assert (board.orphans(), board.orphans()) == ([first.app], [])
    assert board.loading(first.index) is board.loaded(first.index, A, {}) is None
    board.condemn(first.index)
    board.release("one")
    assert board.acquire("one", A).index == 1 - first.index


def test_there_are_never_more_lanes_than_asked_for_and_a_lost_one_is_replaced():
    nodes = Nodes(gpu("a"), gpu("b"), gpu("c"))
    board = nodes.board(most=2)
    assert [board.acquire(trial, A) is not None for trial in ("one", "two", "three")] == [True, True, False]
    nodes.change(lose=gpu("a"))
    assert board.acquire("three", A).place == gpu("c")


def test_a_trial_gets_the_kind_of_gpu_that_it_asks_for():
    board = Nodes(gpu("a", "A10G"), gpu("b", "L4")).board()
    assert board.acquire("one", A, "L4").place.kind == "L4"
    assert board.acquire("two", A, "L4") is None
    assert board.acquire("two", A, "A10G").place.kind == "A10G"


def test_of_few_lanes_each_kind_has_its_share_also_one_that_comes_late():
    nodes = Nodes(gpu("a"), gpu("b"), gpu("c"))
    board = nodes.board(2, "A10G", "L4")
    assert [place.kind for place in board.places()] == ["A10G"]
    nodes.change(add=gpu("d", "L4"))
    assert board.acquire("one", A, "L4") is not None
    nodes.change(add=gpu("e", "L4"))
    assert [place.kind for place in board.places()] == ["A10G", "L4"]
    shares = Counter(place.kind for place in nodes.board(3, "A10G", "L4").places())
    assert shares == {"A10G": 2, "L4": 1}


def test_a_key_that_one_lane_cannot_load_is_loaded_on_another():
    board = Nodes(gpu("a"), gpu("b")).board()
    assert not board.break_key(0, A, "its disk is full")
    assert board.acquire("one", A).index == 1
    assert board.acquire("two", A) is None, "it waits for the one that can"
    assert board.acquire("two", B).index == 0
    assert board.break_key(1, A, "no such model")
