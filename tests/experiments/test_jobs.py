"""Sweeps that are submitted to a real head: they need no client, and their results come home over the dashboard's port."""

import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from deployments.errors import JobError
from deployments.ray_jobs import ENDED, Job, RayJobs
from experiments.budget import NO_LIMITS, Limits
from experiments.config import load
from experiments.errors import ConfigError
from experiments.packing import packed
from experiments.submitted import AGAIN, checked, fetch, folder_of, on_head, sent, submit, unpack
from experiments.where import HERE
from results.address import place
from results.errors import StoreError
from results.fetched import fetched_of
from results.read import read
from results.report.frame import is_page
from results.store import Store
from results.sweep_folder import FETCHED
from tests.experiments.command_process import CommandProcess
from tests.experiments.ray_head import RayHead
from tests.s3_server import S3Server

Start = Callable[..., CommandProcess]
NAIVE = {"strategy": "naive", "backends": "simulated", "max_batch_size": 2}


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[RayHead]:
    """A head with a token; its home folder is not ours. The folder's name is short, as socket paths must be."""
    folder = Path(tempfile.mkdtemp(prefix="by-"))
    made = RayHead(folder, tmp_path_factory.mktemp("home"), s3_server.environment)
    try:
        made.wait()
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def let_in(head: RayHead, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayHead]:
    """The head, with its token in our environment: Ray keeps the first that a process has, as of an earlier test."""
    from ray._raylet import AuthenticationTokenLoader

    for name, value in head.environment.items():
        monkeypatch.setenv(name, value)
    AuthenticationTokenLoader.instance().reset_cache()
    yield head
    AuthenticationTokenLoader.instance().reset_cache()


def wait_for(happened: Callable[[], bool], deadline_s: float = 300) -> None:
    end_s = time.monotonic() + deadline_s
    while not happened():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.2)  # a poll of another machine: there is nothing to wait on


@pytest.mark.ray
@pytest.mark.fault
def test_a_job_needs_no_client_gives_what_it_has_when_it_is_stopped_and_goes_on_when_it_is_submitted_again(
    let_in: RayHead,
    started: Start,
    batchyard: Callable[..., Result],
    short_sweep: Callable[..., Path],
    tmp_path: Path,
) -> None:
    config = short_sweep(arrival_rate=[6, 8, 10], duration_s=4, strategies=[NAIVE])
    at, jobs, results = ("--address", let_in.address), RayJobs(let_in.address), tmp_path / "home-again"
    client = started("submit", config, *at, "--on-cpu")
    code, output, told = client.end()
    assert code == 0, told
    job = output.splitlines()[0].removeprefix("job: ")

    def fetched() -> Path:
        result = batchyard("fetch", job, *at, "--results", results)
        assert result.exit_code == 0, result.output
        [folder] = results.iterdir()
        assert result.stdout.startswith(f"results: {folder}")
        return Path(folder)

    second = batchyard("submit", config, *at, "--on-cpu")
    assert second.exit_code == 2
    assert second.stderr.splitlines()[-1].startswith(f"error: the cluster at {let_in.address} runs {job}: ")
    wait_for(lambda: "[1/3] done" in jobs.logs(job))
    jobs.stop(job)
    assert "nothing that was done is lost" in batchyard("logs", job, "--follow", *at).stdout, "a clean end"
    assert batchyard("status", job, *at).stdout.startswith(f"{job}: stopped, begun ")
    before = {trial.cell_id: trial.attempt for trial in Store(fetched()).trials()}
    assert 1 <= len(before) < 3

    job = batchyard("submit", config, *at, "--on-cpu").stdout.splitlines()[0].removeprefix("job: ")
    assert "[3/3] done" in batchyard("logs", job, "--follow", *at).stdout
    assert batchyard("status", job, *at).stdout.startswith(f"{job}: succeeded, begun ")
    store = Store(folder := fetched())
    after = {trial.cell_id: trial.attempt for trial in store.trials()}
    assert len(after) == 3
    assert before.items() <= after.items(), "what was done is not done again"
    assert not store.problems
    assert is_page(folder / "report.html")
    assert (store.read_sweep() or {})["provenance"]["git_commit"], (
        "the commit goes along, without its repository"
    )
    wait_for(lambda: all(one.state in ENDED for one in jobs.all()))
    assert not list(let_in.folder.glob("session_*/logs/*.tar")), "packs are gone from the head"


@pytest.mark.ray
@pytest.mark.fault
@pytest.mark.soak
def test_a_job_whose_results_are_in_a_bucket_stops_at_its_budget_and_goes_on_without_one(
    let_in: RayHead,
    batchyard: Callable[..., Result],
    short_sweep: Callable[..., Path],
    bucket: str,
    tmp_path: Path,
) -> None:
    config = short_sweep(arrival_rate=[10], strategies=[NAIVE])
    asked = ("submit", config, "--address", let_in.address, "--on-cpu", "--results", f"{bucket}/jobs")

    def ended(*limit: object) -> tuple[str, str]:
        """What the job said, and how it is said to stand."""
        job = batchyard(*asked, *limit).stdout.splitlines()[0].removeprefix("job: ")
        said = batchyard("logs", job, "--follow", "--address", let_in.address).stdout
        return said, batchyard("status", job, "--address", let_in.address).stdout

    said, stands = ended("--max-hours", 1e-6)
    assert "stopped at --max-hours: 0 of 1 cells are done, 1 left" in said
    assert "`batchyard submit" in said.splitlines()[-1], "as it is gone on with where it was submitted"
    assert "failed, begun" in stands
    said, stands = ended()
    assert "going on: 0 of 1 cells are done" in said
    assert "succeeded, begun" in stands
    [root] = place(f"{bucket}/jobs").iterdir()
    assert f"results: {root}\npage: batchyard report {root} -o page.html" in stands
    assert len(read(root).trials) == 1
    assert batchyard("report", root, "-o", tmp_path / "page.html").exit_code == 0


@pytest.mark.ray
@pytest.mark.fault
def test_who_is_not_let_in_and_what_is_not_there_is_one_line(
    let_in: RayHead, batchyard: Callable[..., Result], started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = batchyard("logs", "none", "--address", let_in.address)
    assert result.exit_code == 2
    assert result.stderr == f"error: the cluster at {let_in.address} knows no job none\n"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    code, _, told = started("fetch", "none", "--address", let_in.address).end()  # Ray reads a token once
    assert code == 2
    assert told.startswith(
        f"error: the cluster at {let_in.address} asks for its token: set RAY_AUTH_MODE=token"
    )
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://127.0.0.1:1", "no Ray dashboard answers at http://127.0.0.1:1"),
        ("auto", "must be http://HOST:PORT"),
        ("http://", "must be http://HOST:PORT"),
        ("http://127.0.0.1:port", "must be http://HOST:PORT"),
    ],
)
def test_without_a_dashboard_nothing_is_sent(
    batchyard: Callable[..., Result], short_sweep: Callable[..., Path], address: str, why: str
) -> None:
    result = batchyard("submit", short_sweep(), "--address", address)
    assert result.exit_code == 2
    assert why in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("label", ["kind", "=L4", "kind=", 'kind=T 4"', "a kind=L4", "kind=!L4"])
def test_a_label_that_no_node_can_have_is_refused_before_it_is_sent(
    batchyard: Callable[..., Result], short_sweep: Callable[..., Path], label: str
) -> None:
    result = batchyard("submit", short_sweep(), "--label", label)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --label must be KEY=VALUE of letters, digits and . _ - inside, ")
    assert result.stderr.endswith(f"got {label}\n")


def test_what_this_machine_can_tell_is_refused_before_the_cluster_is_asked(
    batchyard: Callable[..., Result], short_sweep: Callable[..., Path]
) -> None:
    for command, why in (
        (("submit", short_sweep(), "--max-cost", 1), "--max-cost needs the price of a GPU's hour"),
        (
            ("fetch", "job", "--results", "s3://bucket/x"),
            "--results must be a folder of it, got s3://bucket/x",
        ),
    ):
        result = batchyard(*command)
        assert result.exit_code == 2
        assert why in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_job_is_not_taken_for_a_folder(batchyard: Callable[..., Result]) -> None:
    result = batchyard("status", "local-0123456789ab-1130-153012")
    assert result.exit_code == 2
    assert "of a job give --address too" in result.stderr


def test_the_code_the_config_and_its_files_go_along_and_results_do_not(
    short_sweep: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "some.json").write_text("[]")
    config = short_sweep()
    values = yaml.safe_load(config.read_text())
    values["workload"]["prompts"] |= {"source": "sharegpt", "path": "chats/some.json"}
    values["strategies"] = [{**NAIVE, "backends": "huggingface"}]
    config.write_text(yaml.safe_dump({**values, "model": "smollm2-135m"}))
    with sent(load(config), config) as (folder, file):
        assert (folder / file).read_text() == config.read_text()
        assert (folder / "chats" / "some.json").read_text() == "[]"
        assert (folder / "experiments" / "cli.py").is_file()
        assert not (folder / "results" / "data").exists()
        assert sum(path.stat().st_size for path in folder.rglob("*")) < 10e6
    assert not folder.exists()
    values["workload"]["prompts"]["path"] = str(tmp_path / "chats" / "some.json")
    config.write_text(yaml.safe_dump({**values, "model": "smollm2-135m"}))
    with pytest.raises(ConfigError, match="must be a path below the folder"), sent(load(config), config):
        pass


class NoCluster:
    """Takes one job, and knows it from then on."""

    address = "http://127.0.0.1:8265"

    def __init__(self) -> None:
        self.taken: list[Job] = []
        self.command = ""
        self.environment: dict[str, str] = {}

    def all(self) -> list[Job]:
        """None so far, or the one."""
        return self.taken

    def job(self, job: str) -> Job:
        """By its name."""
        [found] = [one for one in self.taken if one.id == job]
        return found

    def submit(
        self, command: str, *, job: str, metadata: dict[str, str], environment: dict[str, str], **_: object
    ) -> None:
        """It runs."""
        self.environment = environment
        state = {"state": "RUNNING", "message": "", "node": None, "exit_code": None}
        self.command = command
        self.taken = [Job(id=job, metadata=metadata, started_at=None, ended_at=None, **state)]


@pytest.mark.parametrize(
    ("given", "folder", "typed"),
    [
        ("~/my sweeps/", "~/my sweeps/{sweep}", "--results ~/'my sweeps'"),
        ("file:///volume", "/volume/{sweep}", "--results /volume"),
        (
            "s3://bucket/prefix/?region=eu-west-1",
            "s3://bucket/prefix/{sweep}?region=eu-west-1",
            "--results 's3://bucket/prefix?region=eu-west-1'",
        ),
    ],
)
def test_results_of_a_job_are_put_where_it_was_said(
    short_sweep: Callable[..., Path], tmp_path: Path, given: str, folder: str, typed: str
) -> None:
    config, jobs = short_sweep(), NoCluster()
    loaded = load(config)
    job = submit(loaded, config, jobs, HERE, checked(given), NO_LIMITS, again="again")  # type: ignore[arg-type]
    assert folder_of(job) == folder.format(sweep=f"{loaded.name}-{loaded.config_hash}")
    assert jobs.command.endswith(typed)
    if not on_head(folder_of(job)):
        with pytest.raises(JobError, match=r"`batchyard report s3://bucket/prefix/.* -o page.html` draws"):
            fetch(job, jobs, tmp_path, print)  # type: ignore[arg-type]


def test_results_are_not_fetched_to_where_they_cannot_be_written(
    short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    config, jobs = short_sweep(), NoCluster()
    job = submit(load(config), config, jobs, HERE, checked("/there"), NO_LIMITS, again="again")  # type: ignore[arg-type]
    before = jobs.command
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written: Not a directory"):
        fetch(job, jobs, tmp_path / "file", print)  # type: ignore[arg-type]
    assert jobs.command == before, "nothing is packed"


def test_what_is_fetched_again_is_brought_up_to_date_and_takes_no_lock_along(tmp_path: Path) -> None:
    there, here, pack = tmp_path / "there", tmp_path / "here", tmp_path / "pack.tar"
    (there / "cells" / "a").mkdir(parents=True)
    for name in ("driver.lock", "cells/a/done.json"):
        (there / name).write_text("old")
    (there / "sweep.json").write_text('{"created_at": "then"}')
    packed(there, pack)
    unpack(pack, here, "a job")
    (there / "sweep.json").write_text('{"created_at": "then", "price": 1}')
    (there / "cells" / "b").mkdir()
    (there / "cells" / "b" / "rows.parquet").write_text("rows")
    packed(there, pack)
    unpack(pack, here, "a job")
    assert fetched_of(here) == "a job"
    assert {
        str(path.relative_to(here)): path.read_text()
        for path in here.rglob("*")
        if path.is_file() and path.name != FETCHED
    } == {
        "sweep.json": '{"created_at": "then", "price": 1}',
        "cells/a/done.json": "old",
        "cells/b/rows.parquet": "rows",
    }
    assert sorted(os.listdir(tmp_path)) == ["here", "pack.tar", "there"]


def test_what_is_fetched_is_laid_over_nothing_but_itself(
    short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    config, jobs = short_sweep(), NoCluster()
    job = submit(load(config), config, jobs, HERE, checked("/there"), NO_LIMITS, again="again")  # type: ignore[arg-type]
    here, there, pack = (
        tmp_path / job.id.rpartition("-")[0].rpartition("-")[0],
        tmp_path / "there",
        tmp_path / "pack.tar",
    )
    for folder, begun in ((here, "then"), (there, "later")):
        folder.mkdir()
        (folder / "sweep.json").write_text(f'{{"created_at": "{begun}"}}')
    sent_so_far = jobs.command
    with pytest.raises(StoreError, match="holds results that were not fetched: move it away"):
        fetch(job, jobs, tmp_path, print)  # type: ignore[arg-type]
    assert jobs.command == sent_so_far, "nothing is packed"
    packed(there, pack)
    with pytest.raises(StoreError, match="another run, begun then: move it away"):
        unpack(pack, here, job.id)
    assert (here / "sweep.json").read_text() == '{"created_at": "then"}'


def test_nothing_is_measured_into_what_was_fetched(
    short_sweep: Callable[..., Path], tmp_path: Path, batchyard: Callable[..., Result]
) -> None:
    config = short_sweep()
    loaded = load(config)
    there, pack = tmp_path / "there", tmp_path / "pack.tar"
    there.mkdir()
    packed(there, pack)
    unpack(pack, tmp_path / f"{loaded.name}-{loaded.config_hash}", "the-job")
    result = batchyard("sweep", config, "--results", tmp_path)
    assert result.exit_code == 2
    assert "was fetched from the job the-job: `batchyard submit` goes on with it there" in result.stderr


def test_a_job_has_the_limits_that_were_asked_for_and_says_how_it_is_gone_on_with(
    short_sweep: Callable[..., Path],
) -> None:
    config, jobs, limits = short_sweep(price_per_gpu_hour=1.2), NoCluster(), Limits(hours=8, cost=20.5)
    submit(load(config), config, jobs, HERE, checked("/there"), limits, again="batchyard submit my.yaml")  # type: ignore[arg-type]
    assert "--max-hours 8 --max-cost 20.5 --results /there" in jobs.command
    assert jobs.environment[AGAIN] == "batchyard submit my.yaml"
    unpriced = load(short_sweep())
    with pytest.raises(ConfigError, match="--max-cost needs the price"):
        submit(unpriced, config, NoCluster(), HERE, checked("/there"), limits, again="again")  # type: ignore[arg-type]


def test_a_pack_reaches_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "pack.tar", "w") as tar:
        tar.add(__file__, arcname="../outside")
    with pytest.raises(tarfile.OutsideDestinationError):
        unpack(tmp_path / "pack.tar", tmp_path / "here", "a job")
    assert not (tmp_path / "outside").exists()
