"""What a local Ray leaves and removes on the machine; that it works is seen by every test marked `ray`."""

import os
import tempfile
from pathlib import Path

import pytest

from deployments.gpu_selection import VARIABLE
from deployments.gpus import visible_gpus
from deployments.local_ray import _remove_left_behind, local_ray
from tests.deployments.fake_nvml import Card, FakeNvml

NO_PROCESS = 2**22 + 1  # above the largest id that Linux gives


def test_only_the_folders_of_dead_drivers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = tmp_path / f"batchyard-{NO_PROCESS}-abc"
    others = [
        tmp_path / f"batchyard-{os.getpid()}-abc",
        tmp_path / f"by-{NO_PROCESS}-somebody-elses",
        tmp_path / "batchyard-notes-2026",
    ]
    for folder in (dead, *others):
        (folder / "session").mkdir(parents=True)
    _remove_left_behind()
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_replicas_share_the_gpus_of_the_sweep_and_see_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA is not asked: what it would see is what Ray writes into the variable."""
    import ray

    cards = FakeNvml(Card("GPU-1111-a"), Card("GPU-2222-b"), Card("GPU-3333-c"))
    monkeypatch.setenv(VARIABLE, "GPU-33,GPU-1")
    gpus = visible_gpus(cards)

    def seen() -> str | None:
        return os.environ.get(VARIABLE)

    def niceness() -> int:
        return os.nice(0)

    with local_ray(gpus) as local:
        assert local.gpus == 2
        assert seen() == "2,0"
        assert ray.get(ray.remote(num_cpus=0, num_gpus=2)(seen).remote()) in ("0,2", "2,0")
        assert ray.get(ray.remote(num_cpus=0, num_gpus=1)(seen).remote()) in ("0", "2")
        assert ray.get(ray.remote(num_cpus=0)(niceness).remote()) == niceness(), "no less than the driver"
    assert seen() == "GPU-33,GPU-1"
