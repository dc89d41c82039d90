"""A GPU in other hands is waited for, then refused in one line that says whose it is and what to do."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from deployments.errors import DeviceError
from deployments.gpu_claim import claim, taken
from deployments.gpus import Gpu, Holder

GIB = 2**30
NOBODY = 2**22 + 1  # above the largest process id of Linux


def gpu(label: str = "0", used: int = 0, holders: Sequence[tuple[int, int | None]] = ()) -> Gpu:
    return Gpu(
        label=label,
        uuid=f"GPU-{label}",
        name="NVIDIA L4",
        driver="580.65.06",
        capability=(8, 9),
        total_bytes=24 * GIB,
        used_bytes=used,
        free_bytes=24 * GIB - used,
        utilisation=0,
        holders=tuple(Holder(pid=pid, used_bytes=held) for pid, held in holders),
    )


@pytest.mark.parametrize(
    "free",
    [
        gpu(),
        gpu(used=2 * GIB),  # a desktop
        gpu(used=12 * GIB, holders=[(os.getpid(), 12 * GIB)]),  # ourselves
        gpu(used=GIB, holders=[(NOBODY, 2**20)]),  # computes nothing
    ],
    ids=["idle", "desktop", "ours", "tiny"],
)
def test_a_free_gpu_is_not_refused(free: Gpu) -> None:
    assert not taken([free])
    assert claim(pytest.fail, look=lambda: [free]) == (free,)


def test_a_gpu_whose_memory_is_not_told_is_taken_by_whom_one_sees() -> None:
    silent = replace(gpu(), total_bytes=None, used_bytes=None, free_bytes=None)
    assert not taken([silent])
    assert taken([replace(silent, holders=(Holder(pid=NOBODY, used_bytes=None),))])


def test_where_there_are_none_nothing_is_claimed() -> None:
    assert claim(pytest.fail, look=list) == ()


def test_a_child_of_ours_is_ours() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not taken([gpu(holders=[(child.pid, GIB)])])
    finally:
        child.communicate(b"\n")


OTHERS = [(NOBODY, GIB)]
HELD = f"pid {NOBODY} (unknown, 1.0 GiB)"


@pytest.mark.parametrize(
    ("gpus", "wanted", "said"),
    [
        (
            [gpu(holders=[(NOBODY, 12 * GIB), (NOBODY + 1, None)])],
            None,
            (
                f"GPU 0 (NVIDIA L4) is taken: pid {NOBODY} (unknown, 12.0 GiB), pid {NOBODY + 1} (unknown); "
                "end it, or wait for it"
            ),
        ),
        (
            [gpu("0"), gpu("1", holders=OTHERS), gpu("2")],
            None,
            f"GPU 1 (NVIDIA L4) is taken: {HELD}; end it, or leave it out with CUDA_VISIBLE_DEVICES=0,2",
        ),
        (
            [gpu("0", holders=OTHERS), gpu("1"), gpu("2", holders=OTHERS)],
            None,
            (
                f"GPU 0 (NVIDIA L4) is taken: {HELD}; GPU 2 (NVIDIA L4) is taken: {HELD}; "
                "end them, or leave them out with CUDA_VISIBLE_DEVICES=1"
            ),
        ),
        (
            [gpu("0", holders=OTHERS), gpu("1", holders=OTHERS)],
            1,
            (
                f"GPU 0 (NVIDIA L4) is taken: {HELD}; GPU 1 (NVIDIA L4) is taken: {HELD}; "
                "end them, or wait for them"
            ),
        ),
        (
            [gpu("0", holders=OTHERS), gpu("1")],
            2,
            f"GPU 0 (NVIDIA L4) is taken: {HELD}; gpus: 2 needs as many that are free, got 1",
        ),
        (
            [gpu(used=20 * GIB)],
            None,
            (
                "GPU 0 (NVIDIA L4) is taken: 20.0 GiB of 24.0 GiB by processes that cannot be seen from here; "
                "end it, or wait for it"
            ),
        ),
    ],
    ids=["seen", "one of three", "two of three", "all", "fewer than wanted", "unseen"],
)
def test_those_that_are_taken_are_named_with_their_holders_and_the_way_out(
    gpus: list[Gpu], wanted: int | None, said: str
) -> None:
    with pytest.raises(DeviceError) as caught:
        claim(lambda _: None, wanted, lambda: gpus, wait_s=0)
    assert str(caught.value) == said


def test_as_many_as_are_wanted_need_to_be_free() -> None:
    gpus = [gpu("0", holders=OTHERS), gpu("1"), gpu("2"), gpu("3")]
    assert claim(pytest.fail, 2, lambda: gpus) == (gpus[1], gpus[2])


def test_a_holder_is_named() -> None:
    parent = os.getppid()
    said = taken([gpu(holders=[(parent, GIB)])])["0"]
    assert f"pid {parent} (" in said
    assert "unknown" not in said


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_what_a_killed_driver_left_is_waited_for() -> None:
    time, told = Time(), []

    def look() -> list[Gpu]:
        return [gpu(holders=[(NOBODY, GIB)] if time.now_s < 6 else [])]

    claim(told.append, look=look, wait_s=20, clock=time, sleep=time.sleep)
    assert time.now_s == 6
    assert told == [f"GPU 0 (NVIDIA L4) is taken: pid {NOBODY} (unknown, 1.0 GiB); waiting for up to 20 s"]


def test_what_stays_is_refused() -> None:
    time = Time()
    with pytest.raises(DeviceError, match=r"is taken: .*; end it"):
        claim(
            lambda _: None,
            look=lambda: [gpu(holders=[(NOBODY, GIB)])],
            wait_s=20,
            clock=time,
            sleep=time.sleep,
        )
    assert time.now_s == 20
