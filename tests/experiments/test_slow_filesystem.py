"""A store on a filesystem on which everything takes its time: the same tables, and a trial that does not wait for it."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyarrow import fs

from experiments.config import SweepConfig
from results import store_files
from results.read import read
from tests.experiments.near_trial import cell_maker, rows, run_trial

WRITE_S = 1.5  # until a file can be written
OPTIONS = {  # what pyarrow gives a handler of its own by place, and takes by name
    "create_dir": "recursive",
    "delete_dir_contents": "missing_dir_ok",
    "open_output_stream": "metadata",
    "open_append_stream": "metadata",
}


def slow(delays_s: dict[str, float]) -> fs.FileSystem:
    """The local disk, with a delay before some of what pyarrow asks of it."""
    disk = fs.LocalFileSystem()

    def delayed(name: str) -> Callable[..., Any]:
        def ask(_: object, *arguments: Any) -> Any:
            time.sleep(delays_s.get(name, 0.0))
            if name in OPTIONS:
                return getattr(disk, name)(arguments[0], **{OPTIONS[name]: arguments[1]})
            return getattr(disk, name)(*arguments)

        return ask

    methods = {name: delayed(name) for name in fs.FileSystemHandler.__abstractmethods__}
    methods["get_file_info_selector"] = delayed("get_file_info")
    methods["get_type_name"] = lambda _: "slow"
    return fs.PyFileSystem(type("Slow", (fs.FileSystemHandler,), methods)())


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`slow_disk(open_output_stream=1.5)`: stores that are opened from now on are on it."""

    def use(**delays_s: float) -> None:
        disk = slow(delays_s)
        monkeypatch.setattr(store_files, "opened", lambda where: (disk, str(where)))

    return use


def test_the_tables_are_those_of_a_quick_disk(
    tmp_path: Path, made_sweep: ModuleType, slow_disk: Callable[..., None]
) -> None:
    made_sweep.make_sweep(tmp_path / "quick" / "made", repeats=1, requests=4)
    quick = read(tmp_path / "quick" / "made")
    slow_disk(open_output_stream=0.01, move=0.01, get_file_info=0.01, open_input_file=0.01, create_dir=0.01)
    made_sweep.make_sweep(tmp_path / "slow" / "made", repeats=1, requests=4)
    found = read(tmp_path / "slow" / "made")
    for name in ("requests", "batches", "samples", "trials", "failures", "partial"):
        assert getattr(found, name).equals(getattr(quick, name)), name
    assert found.requests.num_rows > 0
    assert found.problems == ()


async def test_a_trial_goes_on_while_its_rows_are_written(
    made_config: Callable[..., SweepConfig],
    tmp_path: Path,
    slow_disk: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_disk(open_output_stream=WRITE_S)
    monkeypatch.setattr("experiments.trial_rows.FLUSH_EVERY_S", 0.2)
    longest_s = 0.0

    async def beat() -> None:
        nonlocal longest_s
        while True:
            begun_s = time.monotonic()
            await asyncio.sleep(0.02)
            longest_s = max(longest_s, time.monotonic() - begun_s)

    beating = asyncio.create_task(beat())
    begun_s = time.monotonic()
    _, store = await run_trial(cell_maker(made_config)(duration_s=2.0), tmp_path)
    beating.cancel()
    assert time.monotonic() - begun_s > 2 * WRITE_S, "it did write"
    assert len(rows(store)) > 100
    assert longest_s < WRITE_S
