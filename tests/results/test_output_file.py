"""Files that a person asks for: what they may replace, and where they may not be at all."""

import os
from pathlib import Path

import pytest

from results.errors import StoreError
from results.output_file import check_output, new_file


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("mine")

    def fail_half_way() -> None:
        with new_file(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert path.read_text() == "mine"
    with new_file(path) as file:
        file.write(b"whole")
    assert [path] == list(tmp_path.iterdir())
    assert path.read_text() == "whole"


def test_what_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path):
    for path in (tmp_path / "none" / "rows.csv", tmp_path / ("a" * 250 + ".csv")):
        with pytest.raises(StoreError) as raised, new_file(path):
            pass
        assert str(raised.value).startswith(f"{path} cannot be written: ")
        assert ".tmp" not in str(raised.value)


def test_a_file_that_is_there_goes_only_by_force_or_if_it_is_ours(tmp_path: Path):
    path = tmp_path / "rows.csv"
    check_output(path, force=False)
    path.write_text("mine")
    with pytest.raises(StoreError, match=r"rows\.csv is there already; --force overwrites it"):
        check_output(path, force=False)
    with pytest.raises(StoreError, match=r"is there already and is no page of batchyard; --force"):
        check_output(path, force=False, ours=lambda _: False)
    check_output(path, force=True)
    check_output(path, force=False, ours=lambda _: True)


def test_a_link_to_nowhere_is_a_file_that_is_there(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is there already"):
        check_output(tmp_path / "link", force=False)


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, force: bool):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="is no file that could be replaced"):
        check_output(tmp_path / "pipe", force=force)
    with pytest.raises(StoreError, match="is no file that could be replaced"):
        check_output(Path(os.devnull), force=force)
    with pytest.raises(StoreError, match="is a folder; give a file in it"):
        check_output(tmp_path, force=force)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("mark", ["sweep.json", "driver.lock"])
@pytest.mark.parametrize(
    "name", ["sweep.json", "report.html", "new.csv", "cells/a/attempt-1/requests-00000.parquet"]
)
def test_nothing_is_put_among_the_results_of_a_sweep(tmp_path: Path, mark: str, name: str, force: bool):
    sweep = tmp_path / "sweep"
    (sweep / "cells" / "a" / "attempt-1").mkdir(parents=True)
    (sweep / mark).write_text("{}")
    (tmp_path / "beside").symlink_to(sweep)
    for folder in (sweep, tmp_path / "beside", sweep / "cells" / ".."):
        with pytest.raises(StoreError, match="would lie among the results of the sweep"):
            check_output(folder / name, force=force)
    check_output(tmp_path / "new.csv", force=force)
