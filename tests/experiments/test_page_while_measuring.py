"""A page that cannot be drawn does not end what is being measured; a disk that is full does."""

from pathlib import Path

import pytest

import experiments.sweep
from results.errors import DiskFull
from results.store import Store


def _raising(error: Exception) -> object:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_fault_in_the_page_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments.sweep, "write_page", _raising(KeyError("a colour\nand a traceback")))
    said = experiments.sweep._page(Store(str(tmp_path)))
    assert said.startswith("the page could not be drawn: ")
    assert "\n" not in said


def test_a_full_disk_is_not_taken_for_a_fault_in_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments.sweep, "write_page", _raising(DiskFull("no space left")))
    with pytest.raises(DiskFull, match="no space left"):
        experiments.sweep._page(Store(str(tmp_path)))
