"""A lane's GPUs while it measures: NVML stays open, and who else computes on them is seen."""

import os

from deployments.gpu_watch import GpuWatch
from tests.deployments.fake_nvml import GIB, Card, FakeNvml

OURS_OUTSIDE = 4_194_400  # how NVML knows our process where that has another id than here
OTHER = 4_194_500


def test_who_came_after_the_load_is_a_stranger():
    card = Card("GPU-1", used=9 * GIB, processes=[(OURS_OUTSIDE, 9 * GIB)])
    watch = GpuWatch(FakeNvml(card), {})
    assert watch.strangers() == ()
    card.processes += [(os.getpid(), GIB), (OTHER, 2 * GIB)]
    assert watch.strangers() == (f"GPU 0: pid {OTHER} (unknown, 2.0 GiB)",)


def test_nvml_is_opened_once_and_let_go_of():
    nvml = FakeNvml(Card("GPU-1", used=3 * GIB), Card("GPU-2"))
    watch = GpuWatch(nvml, {"CUDA_VISIBLE_DEVICES": "1,0"})
    assert [gpu.used_bytes for gpu in watch.read()] == [0, 3 * GIB]
    assert watch.read()[0].state() == {"clock_mhz": 1335, "memory_clock_mhz": 2619, "used_bytes": 0}
    assert nvml.open == 1
    watch.close()
    watch.close()
    assert nvml.open == 0


def test_what_is_lost_or_absent_is_nothing_to_see():
    card = Card("GPU-1")
    watch = GpuWatch(FakeNvml(card), {})
    card.lost = "later"
    assert watch.read() == ()
    assert watch.strangers() == ()
    assert GpuWatch(FakeNvml(driver=False), {}).read() == ()
    assert GpuWatch(FakeNvml(Card("GPU-1", lost="at once")), {}).read() == ()
