"""A sweep and a simulation whose results lie in a bucket, and on a disk that may only be read."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from pyarrow import fs

from experiments.config import load
from results.address import Address, head, opened, place
from results.read import read
from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.gs_server import GsServer
from tests.s3_server import S3Server

STOPPED_S = 20
ENDED_S = 60  # of which most is Ray's, where other work goes on


def only(results: str) -> Address:
    """The one sweep that is there."""
    where = place(results)
    assert isinstance(where, Address)
    [root] = where.iterdir()
    return root


@pytest.mark.ray
@pytest.mark.fault
def test_a_sweep_in_a_bucket_outlives_ctrl_c_and_a_server_that_stops(
    started: Callable[..., CommandProcess],
    batchyard: Callable[..., Result],
    short_sweep: Callable[..., Path],
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
) -> None:
    results, config = f"{bucket}/results", short_sweep(arrival_rate=[10, 20, 30])

    def done() -> int:
        where = place(results)
        assert isinstance(where, Address)
        return sum(one.base_name == "done.json" for one in where.listed(recursive=True))

    first = started("sweep", config, "--results", results)
    first.wait_for(lambda: done() >= 1)
    code, _, told = started("sweep", config, "--results", results).end()
    assert code == 2
    assert f"process {first.process.pid} on" in told
    before = done()
    s3_server.stop()
    first.process.send_signal(signal.SIGINT)
    code, _, told = first.end(ENDED_S)
    s3_server.go_on()
    assert code == 130, told
    assert "to take its lock back" in told, "what is waited for"
    assert f"--results {results}" in told.splitlines()[-1], "the command that goes on"

    second = started("resume", only(results))
    second.wait_for(lambda: done() > before)
    s3_server.stop()
    with pytest.raises(subprocess.TimeoutExpired):
        second.process.wait(STOPPED_S)
    s3_server.go_on()
    code, output, told = second.end()
    assert code == 0, told
    assert "failed" not in output, output

    root = only(results)
    store = Store(root)
    trials, requests = store.trials(), store.requests()
    assert len(trials) == 6
    assert requests.num_rows == sum(trial.planned_requests for trial in trials)
    assert store.failures() == []
    assert b"<html" in head(root / "report.html", 1_000)
    home = tmp_path / "home" / root.name
    home.mkdir(parents=True)
    filesystem, path = opened(root)
    fs.copy_files(path, str(home), source_filesystem=filesystem, destination_filesystem=fs.LocalFileSystem())
    assert read(home).requests.equals(read(root).requests)
    assert read(home).trials.equals(read(root).trials)
    leaks = [one for one in home.rglob("*") if one.is_file() and b"marker-secret" in one.read_bytes()]
    assert leaks == []
    assert "marker-secret" not in output + told
    result = batchyard("report", root, "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "page.html").is_file()


@pytest.mark.ray
@pytest.mark.soak
def test_a_sweep_in_a_bucket_of_google_is_measured_and_what_is_missing_of_it_again(
    started: Callable[..., CommandProcess],
    batchyard: Callable[..., Result],
    short_sweep: Callable[..., Path],
    gs_server: GsServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, value in gs_server.environment.items():
        monkeypatch.setenv(name, value)
    results = f"{gs_server.bucket()}/results"
    code, _, told = started("sweep", short_sweep(arrival_rate=[10]), "--results", results).end()
    assert code == 0, told
    root = only(results)
    first = {trial.cell_id: trial.attempt for trial in Store(root).trials()}
    lost = min(first)
    filesystem, path = opened(root)
    filesystem.delete_file(f"{path}/cells/{lost}/attempt-1/done.json")
    code, _, told = started("resume", root).end()
    assert code == 0, told
    assert f"{len(first) - 1} of {len(first)} cells are done" in told
    store = Store(root)
    assert {trial.cell_id: trial.attempt for trial in store.trials()} == {**first, lost: 2}
    assert store.requests().num_rows == sum(trial.planned_requests for trial in store.trials())
    assert "2 of 2 done" in batchyard("status", root).stdout
    assert batchyard("report", root, "-o", tmp_path / "page.html").exit_code == 0


def test_a_simulation_in_a_bucket_is_that_of_a_folder(
    batchyard: Callable[..., Result], short_sweep: Callable[..., Path], bucket: str, tmp_path: Path
) -> None:
    config = short_sweep(arrival_rate=[10])
    for results in (tmp_path / "results", f"{bucket}/results"):
        result = batchyard("simulate", config, "--repeats", 2, "--results", results)
        assert result.exit_code == 0, result.output
    root = only(f"{bucket}/results")
    here, there = read(tmp_path / "results" / root.name), read(root)
    assert there.requests.num_rows > 0
    assert there.requests.equals(here.requests)
    assert there.batches.equals(here.batches)

    filesystem, path = opened(root)
    lost = Store(root).trials()[0].cell_id
    filesystem.delete_file(f"{path}/cells/{lost}/attempt-1/done.json")
    again = batchyard("resume", root)
    assert again.exit_code == 0, again.output
    assert Store(root).done_cells()[lost] == 2
    assert read(root).requests.drop(["attempt"]).equals(here.requests.drop(["attempt"]))

    listed = batchyard("ls", "--results", f"{bucket}/results")
    assert f"{root}/report.html" in listed.stdout
    assert "4 of 4 done" in batchyard("status", root).stdout
    exported = batchyard("export", root, "--parquet", tmp_path / "rows.parquet")
    assert exported.exit_code == 0, exported.output
    compared = batchyard("compare", root, tmp_path / "results" / root.name)
    assert compared.stdout.count("+0.0 %") == 10, compared.output
    for option in ("--watch", "--open"):
        refused = batchyard("report", root, option)
        assert refused.exit_code == 2
        assert f"give it with -o FILE, as nothing opens {root}/report.html" in refused.stderr


def test_a_bucket_that_may_only_be_read_is_read_and_refused_to_be_written_in_one_line(
    batchyard: Callable[..., Result],
    begun_sweep: Callable[..., Path],
    short_sweep: Callable[..., Path],
    s3_server: S3Server,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    config, results = short_sweep(arrival_rate=[10]), place(f"{bucket}/results")
    begun_sweep(load(config), results, done=1)
    assert isinstance(results, Address)
    before = [one.path for one in results.listed(recursive=True)]
    readable = f"{results}?region=us-east-1"  # what a process has opened keeps its credentials
    with s3_server.reader() as credentials:
        for name, value in credentials.items():
            monkeypatch.setenv(name, value)
        root = only(readable)
        assert "1 of 2" in batchyard("ls", "--results", readable).stdout
        assert "1 of 2 done" in batchyard("status", root).stdout
        assert batchyard("report", root, "-o", tmp_path / "page.html").exit_code == 0
        assert read(root).requests.num_rows == 1
        search = ("capacity", config, "--slo", "ttft_p99=1s", "--results", readable)
        for command in (
            ("sweep", config, "--results", readable),
            ("sweep", config, "--results", readable, "--fresh"),
            ("resume", root),
            ("simulate", config, "--results", readable),
            search,
            ("report", root),
            ("report", "--index", readable),
            ("export", root, "--csv", f"{bucket}/rows.csv?region=us-east-1"),
        ):
            refused = batchyard(*command)
            assert refused.exit_code == 2, refused.output
            assert "starting" not in refused.stderr
            told = refused.stderr.splitlines()[-1]
            assert told.startswith(f"error: {bucket}/"), told
            assert "cannot be written: ACCESS_DENIED in PutObject: Access Denied; the credentials" in told
    assert [one.path for one in results.listed(recursive=True)] == before


@pytest.mark.skipif(os.geteuid() != 0, reason="nothing may be mounted here")
def test_results_that_may_only_be_read_are_read_and_refused_to_be_written(
    batchyard: Callable[..., Result],
    begun_sweep: Callable[..., Path],
    short_sweep: Callable[..., Path],
    small_disk: Callable[[int], Path],
    tmp_path: Path,
) -> None:
    disk, config = small_disk(4_096), short_sweep(arrival_rate=[10])
    root = begun_sweep(load(config), disk, done=1)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert batchyard("ls", "--results", disk).exit_code == 0
    assert "1 of 2 done" in batchyard("status", root).stdout
    assert batchyard("report", root, "-o", tmp_path / "page.html").exit_code == 0
    assert batchyard("export", root, "--csv", tmp_path / "rows.csv").exit_code == 0
    assert batchyard("compare", root, shutil.copytree(root, tmp_path / "copy" / root.name)).exit_code == 0
    assert read(root).requests.num_rows == 1
    search = ("capacity", config, "--slo", "ttft_p99=1s", "--results", disk)
    for command in (
        ("sweep", config, "--results", disk),
        ("sweep", config, "--results", disk, "--fresh"),
        ("resume", root),
        ("simulate", config, "--results", disk / "deeper"),
        search,
        (*search, "--simulate"),
        ("report", root),
        ("report", root, "-o", disk / "page.html"),
        ("report", "--index", disk),
        ("export", root, "--csv", disk / "rows.csv"),
    ):
        refused = batchyard(*command)
        assert refused.exit_code == 2, refused.output
        assert refused.stderr.splitlines()[-1].startswith("error: ")
        assert "Read-only file system" in refused.stderr.splitlines()[-1]
