"""Shared by all tests: nothing reaches a hub, reports usage or computes on a GPU; Ray finds its settings.

On a machine with a GPU the tests are those of one without: `make gpu-check` is what tests a GPU. Only vLLM's
CUDA build cannot do without, and its tests are skipped.
"""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import settings

from deployments.backends.engine_args import VllmArgs
from deployments.backends.vllm import Vllm
from deployments.errors import EngineDead
from deployments.gpu_selection import VARIABLE
from deployments.local_ray import prepare
from deployments.models import ModelSpec
from deployments.vllm_build import cuda_build
from tests.gs_server import GsServer
from tests.s3_server import S3Server
from tests.server_process import ServerProcess, serving
from tests.tiny_model import save_tiny_model

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ[VARIABLE] = ""
prepare()
settings.register_profile("shared machine", deadline=None)  # it has pauses
settings.load_profile("shared machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what would start vLLM where it is the CUDA build."""
    if (version := cuda_build()) is not None:
        skip = pytest.mark.skip(reason=f"vllm {version} is the CUDA build: make gpu-check tests it")
        for item in items:
            if item.get_closest_marker("vllm"):
                item.add_marker(skip)


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
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real one, for all; `bucket` gives a place in it."""
    with serving(S3Server, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def gs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GsServer]:
    """The same of Google's."""
    with serving(GsServer, tmp_path_factory.mktemp("gs")) as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty bucket, with what is needed to reach it in the environment."""
    return in_reach(s3_server, monkeypatch)


@pytest.fixture(params=["s3_server", "gs_server"], ids=["s3", "gs"])
def any_bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same, of each kind of object store."""
    return in_reach(request.getfixturevalue(request.param), monkeypatch)


def in_reach(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket of it."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server.bucket()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small random Llama in float32, without a tokenizer, for all engines."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny-model"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_vllm() -> AsyncIterator[Callable[[Path], Awaitable[Vllm]]]:
    """`await shared_vllm(tiny_model)`: one engine for all, for it takes half a minute to load; 4 slots, 1 thread.

    Another one is loaded when somebody has ended it. To be used in the session's event loop.
    """
    loaded: list[Vllm] = []

    async def living(folder: Path) -> Vllm:
        with suppress(EngineDead, IndexError):
            await loaded[-1].check()
            return loaded[-1]
        engine = Vllm(ModelSpec(name=str(folder), dtype="float32"), VllmArgs(max_num_seqs=4, threads=1))
        await engine.start()
        loaded.append(engine)
        return engine

    yield living
    for engine in loaded:
        await engine.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Chromium of its own for each module; skips where there is none."""
    from tests.chromium import chromium

    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver
