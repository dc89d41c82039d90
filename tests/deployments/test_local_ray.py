"""What a local Ray leaves and removes on the machine; that it works is seen by every test marked `ray`."""

import os
import tempfile
from pathlib import Path

import pytest

from deployments.local_ray import _remove_left_behind

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
