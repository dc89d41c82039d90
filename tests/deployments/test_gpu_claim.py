"""A GPU in other hands is waited for, then refused in one line that says whose it is and what to do."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata

import pytest

from deployments.errors import DeviceError
from deployments.gpu_claim import require_free, require_gpu_for_cuda_vllm, taken
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
    assert taken([free]) is None
    assert taken([]) is None
    require_free(pytest.fail, lambda: [free])


def test_a_child_of_ours_is_ours() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert taken([gpu(holders=[(child.pid, GIB)])]) is None
    finally:
        child.communicate(b"\n")


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        (
            [gpu(holders=[(NOBODY, 12 * GIB), (NOBODY + 1, None)])],
            (
                f"GPU 0 (NVIDIA L4) is taken: pid {NOBODY} (unknown, 12.0 GiB), pid {NOBODY + 1} (unknown); "
                "end it, or wait for it"
            ),
        ),
        (
            [gpu("0"), gpu("1", holders=[(NOBODY, GIB)]), gpu("2")],
            (
                f"GPU 1 (NVIDIA L4) is taken: pid {NOBODY} (unknown, 1.0 GiB); "
                "end it, or leave it out with CUDA_VISIBLE_DEVICES=0,2"
            ),
        ),
        (
            [gpu(used=20 * GIB)],
            (
                "GPU 0 (NVIDIA L4) is taken: 20.0 GiB of 24.0 GiB by processes that cannot be seen from here; "
                "end it, or wait for it"
            ),
        ),
    ],
    ids=["seen", "one of three", "unseen"],
)
def test_one_that_is_taken_is_named_with_its_holders_and_the_way_out(gpus: list[Gpu], said: str) -> None:
    assert taken(gpus) == said


def test_a_holder_is_named() -> None:
    parent = os.getppid()
    assert f"pid {parent} (" in (taken([gpu(holders=[(parent, GIB)])]) or "")
    assert "unknown" not in (taken([gpu(holders=[(parent, GIB)])]) or "")


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

    require_free(told.append, look, wait_s=20, clock=time, sleep=time.sleep)
    assert time.now_s == 6
    assert told == [f"GPU 0 (NVIDIA L4) is taken: pid {NOBODY} (unknown, 1.0 GiB); waiting for up to 20 s"]


def test_what_stays_is_refused() -> None:
    time = Time()
    with pytest.raises(DeviceError, match=r"is taken: .*; end it"):
        require_free(
            lambda _: None, lambda: [gpu(holders=[(NOBODY, GIB)])], wait_s=20, clock=time, sleep=time.sleep
        )
    assert time.now_s == 20


@pytest.mark.parametrize(
    ("version", "gpus", "refused"),
    [("0.33.0", [], True), ("0.33.0", [gpu()], False), ("0.33.0+cpu", [], False), (None, [], False)],
)
def test_the_cuda_build_of_vllm_wants_a_gpu(
    monkeypatch: pytest.MonkeyPatch, version: str | None, gpus: list[Gpu], refused: bool
) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    if not refused:
        require_gpu_for_cuda_vllm(gpus)
        return
    with pytest.raises(
        DeviceError, match=r"^vllm 0.33.0 here is the CUDA build .* CUDA_VISIBLE_DEVICES is '-1'; "
    ):
        require_gpu_for_cuda_vllm(gpus)
