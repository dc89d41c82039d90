"""Shared by all tests: nothing reaches a hub or reports usage, and Ray finds its settings when imported."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from deployments.local_ray import prepare
from tests.tiny_model import save_tiny_model

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
prepare()
settings.register_profile("shared machine", deadline=None)  # it has pauses
settings.load_profile("shared machine")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """`small_disk(size_kib)`: a real filesystem of that size; skips the test where none may be mounted."""
    folder = tmp_path / "small"

    def mount(size_kib: int) -> Path:
        folder.mkdir()
        mounting = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs", str(folder)]
        if not shutil.which("mount") or subprocess.run(mounting, capture_output=True, check=False).returncode:
            pytest.skip("no filesystem may be mounted here")
        return folder

    yield mount
    if folder.is_mount():
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small random Llama in float32, without a tokenizer, for all engines."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny-model"))
