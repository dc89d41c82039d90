"""`batchyard export`: one file, or standard output, and what is refused."""

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from results.read import read
from tests.results import made_sweep

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small made sweep, to read only."""
    return Path(made_sweep.make_sweep(tmp_path_factory.mktemp("made"), repeats=1, requests=6).root)


def test_parquet(batchyard: Callable[..., Result], sweep: Path, tmp_path: Path):
    path = tmp_path / "rows.parquet"
    result = batchyard("export", sweep, "--parquet", path)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr == f"126 rows (requests): {path}\n"
    assert pq.read_table(path).equals(read(sweep).requests)
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("table", ["requests", "batches", "trials"])
def test_csv_on_standard_output(batchyard: Callable[..., Result], sweep: Path, table: str):
    result = batchyard("export", sweep, "--csv", "-", "--table", table)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    header, *lines = csv.reader(io.StringIO(result.stdout))
    expected = getattr(read(sweep), table)
    assert (header, len(lines)) == (expected.column_names, expected.num_rows)


def test_a_file_that_is_there_is_kept_unless_forced(
    batchyard: Callable[..., Result], sweep: Path, tmp_path: Path
):
    path = tmp_path / "rows.csv"
    path.write_text("mine")
    result = batchyard("export", sweep, "--csv", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {path} is there already; --force overwrites it\n"
    assert path.read_text() == "mine"
    assert batchyard("export", sweep, "--csv", path, "--force").exit_code == 0
    assert path.read_text().startswith('"sweep"')


@pytest.mark.parametrize("name", ["sweep.json", "report.html", "rows.csv", "cells/cell-000/rows.csv"])
def test_nothing_is_exported_into_a_sweep(batchyard: Callable[..., Result], sweep: Path, name: str):
    before = {path: path.stat().st_mtime_ns for path in sweep.rglob("*")}
    result = batchyard("export", sweep, "--csv", sweep / name, "--force")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"error: {sweep / name} would lie among the results of the sweep {sweep}; give a file outside of it\n"
    )
    assert {path: path.stat().st_mtime_ns for path in sweep.rglob("*")} == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "export needs one of --csv FILE and --parquet FILE"),
        (("--csv", "a", "--parquet", "b"), "export needs one of --csv FILE and --parquet FILE"),
        (("--parquet", "-"), "--parquet must be a file, got -; only --csv writes to standard output"),
        (("--csv", "none/rows.csv"), "cannot be written: No such file or directory"),
        (("--csv", "."), ". is a folder; give a file in it"),
        (
            ("--csv", "-", "--table", "cells"),
            "'cells' is not one of 'requests', 'batches', 'samples', 'trials'",
        ),
    ],
)
def test_what_cannot_be_written_is_one_line(
    batchyard: Callable[..., Result],
    sweep: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
):
    monkeypatch.chdir(tmp_path)
    result = batchyard("export", sweep, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert told in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--csv", "--parquet"])
def test_a_full_disk_is_exit_1_and_leaves_no_half_file(
    batchyard: Callable[..., Result], sweep: Path, small_disk: Callable[[int], Path], option: str
):
    disk = small_disk(4)
    result = batchyard("export", sweep, option, disk / "rows")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: {disk / 'rows'} cannot be written: the disk is full or a quota used up; free some of it\n"
    )
    assert list(disk.iterdir()) == []


def test_a_folder_that_is_no_sweep(batchyard: Callable[..., Result], tmp_path: Path):
    result = batchyard("export", tmp_path, "--csv", tmp_path / "rows.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {tmp_path}: holds no sweep.json")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_enough_ends_it_quietly(sweep: Path):
    export = [sys.executable, "-c", "from experiments.cli import main; main()", "export", str(sweep)]
    command = [*export, "--csv", "-", "--table", "batches"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, said = process.communicate()
    assert (said, process.returncode) == (b"", 141)


@pytest.mark.parametrize(
    "command",
    [
        ("status", "{sweep}"),
        ("status", "{sweep}", "--json"),
        ("report", "{sweep}"),
        ("ls", "--results", "{results}"),
        ("schema",),
        ("schema", "--keys"),
        ("explain", "experiments/configs/full.yaml", "--hardware", "h200"),
    ],
    ids=" ".join,
)
def test_so_does_every_command_that_prints(sweep: Path, command: tuple[str, ...]):
    words = [word.format(sweep=sweep, results=sweep.parent) for word in command]
    run = [sys.executable, "-c", "from experiments.cli import main; main()", *words]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, said = process.communicate()
    assert process.returncode == 141
    assert [line for line in said.splitlines() if not line.startswith(b"warning: ")] == []


def test_what_was_set_aside_is_told(batchyard: Callable[..., Result], tmp_path: Path):
    root = Path(made_sweep.make_sweep(tmp_path / "made", repeats=1, requests=4).root)
    next(iter(sorted(root.rglob("requests-00001.parquet")))).unlink()
    result = batchyard("export", root, "--csv", tmp_path / "rows.csv")
    assert result.exit_code == 0, result.output
    warning, told = result.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert told.startswith("80 rows")
