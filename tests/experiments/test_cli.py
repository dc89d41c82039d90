"""The command line as a person meets it: one-line errors, exit codes, and nothing written on a mistake."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

import experiments.cli
import experiments.sweep
import experiments.where
from experiments.budget import Limit, Limits
from experiments.cli import app
from experiments.config import SweepConfig, load
from experiments.sweep import Outcome
from experiments.sweep_record import sweep_root
from experiments.where import Where
from results.lock import SweepLock
from results.store import Store
from results.summary import find


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def config_file(tmp_path: Path, config_values: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        path = tmp_path / "sweep.yaml"
        path.write_text(yaml.safe_dump(config_values(**changes)))
        return path

    return write


def batchyard(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=200)


def refusal(result: Result) -> str:
    """The one line with which a command was refused."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_help_names_the_commands():
    result = batchyard("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in ("sweep", "resume", "report"))


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("sweep", "batchyard sweep experiments/configs/local.yaml"),
        ("resume", "batchyard resume results/data/"),
        ("report", "batchyard report results/data/"),
    ],
)
def test_the_help_of_a_command_has_an_example(command: str, example: str):
    result = batchyard(command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert example in result.stdout


def test_the_config_in_the_example_exists():
    root = Path(experiments.cli.__file__).parent.parent
    assert (root / "experiments/configs/local.yaml").is_file()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"repeats": 0}, "repeats: must be at least 1, got 0"),
        ({"repeat": 3}, "repeat"),
        ({"workload": ...}, "workload: is missing"),
    ],
)
def test_a_bad_config_is_one_line_and_nothing_is_written(
    here: Path, config_file: Callable[..., Path], changes: dict[str, Any], told: str
):
    path = config_file(**changes)
    line = refusal(batchyard("sweep", path))
    assert line.startswith(f"error: {path}")
    assert told in line
    assert files(here) == []


def test_each_mistake_of_a_config_has_its_line(here: Path, config_file: Callable[..., Path]):
    result = batchyard("sweep", config_file(repeats=0, seed=-1))
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 2)
    assert files(here) == []


@pytest.mark.parametrize("fresh", [(), ("--fresh",)])
def test_a_config_that_is_not_there(here: Path, fresh: tuple[str, ...]):
    line = refusal(batchyard("sweep", "nowhere.yaml", *fresh))
    assert line == "error: nowhere.yaml: cannot be read: No such file or directory"
    assert files(here) == []


@pytest.mark.parametrize("command", ["resume", "report", "status", "export --csv rows.csv", "calibrate"])
def test_a_folder_that_is_no_sweep(here: Path, config_file: Callable[..., Path], command: str):
    path = config_file()
    words = command.split()
    for folder, why in ((here, "holds no sweep.json"), (here / "none", "does not exist")):
        assert refusal(batchyard(*words, folder)).startswith(f"error: {folder}: {why}; give a sweep's folder")
    assert refusal(batchyard(*words, path)).startswith(f"error: {path}: is a file; give a sweep's folder")
    assert files(here) == []


@pytest.mark.parametrize("command", ["report", "status", "export --csv -", "resume"])
def test_a_sweep_is_found_by_the_name_that_ls_prints(
    here: Path,
    made_config: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
):
    folder = begun_sweep(made_config(), here / "results" / "data", done=1)
    run: list[object] = []

    def interrupted(_: object, root: object, *__: object, **___: object) -> None:
        run.append(root)
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments.sweep, "run_sweep", interrupted)
    said = batchyard(*command.split(), folder.name)
    resumed = command == "resume"
    assert (said.exit_code, run) == (130 if resumed else 0, [str(folder)] * resumed), said.output
    wrong = refusal(batchyard(*command.split(), folder / "sweep.json"))
    assert wrong == f"error: {folder}/sweep.json: is a file; give its folder, {folder}"


def test_a_folder_here_comes_before_a_sweep_of_that_name(
    here: Path, made_config: Callable[..., SweepConfig], begun_sweep: Callable[..., Path]
):
    folder = begun_sweep(made_config(), here / "results" / "data")
    (here / folder.name).mkdir()
    assert refusal(batchyard("status", folder.name)).startswith(f"error: {folder.name}: holds no sweep.json")


@pytest.mark.parametrize("command", ["resume", "report"])
def test_a_damaged_sweep_document(here: Path, command: str):
    (here / "sweep.json").write_text("{")
    assert "sweep.json must be JSON" in refusal(batchyard(command, here))


def test_a_results_folder_that_cannot_be_made(here: Path, config_file: Callable[..., Path]):
    (here / "file").write_text("")
    naive = {"strategy": "naive", "backends": "huggingface", "max_batch_size": 4}  # any machine has it
    line = refusal(batchyard("sweep", config_file(strategies=[naive]), "--results", here / "file"))
    assert "Not a directory" in line
    assert files(here) == [here / "file"]


def test_results_where_pyarrow_opens_nothing_are_refused(here: Path, config_file: Callable[..., Path]):
    line = refusal(batchyard("sweep", config_file(), "--results", "ftp://bucket/sweeps"))
    assert "results must lie in a folder or at s3:// or gs://, got ftp://bucket/sweeps" in line
    assert files(here) == []


def test_a_second_driver_is_refused_and_told_of_the_first(here: Path, config_file: Callable[..., Path]):
    path = config_file()
    root = sweep_root(load(path), here)
    with SweepLock(root):
        before = files(here)
        for more in ((), ("--fresh",)):
            assert "process" in refusal(batchyard("sweep", path, "--results", here, *more))
        assert files(here) == before


def test_report_draws_a_made_sweep(tmp_path: Path, made_sweep: ModuleType):
    store: Store = made_sweep.make_sweep(tmp_path / "sweep", repeats=1)
    result = batchyard("report", store.root)
    assert result.exit_code == 0, result.output
    page = tmp_path / "sweep" / "report.html"
    assert result.stdout.splitlines()[-1] == f"page: {page}"
    assert "naive · 8" in page.read_text(encoding="utf-8")
    assert "naive · 8" in result.stdout
    assert result.stderr.splitlines() == ["failed attempt: EngineDead: the engine is gone"]


def test_report_draws_where_it_is_told_and_says_what_it_could_not_read(
    tmp_path: Path, made_sweep: ModuleType
):
    store: Store = made_sweep.make_sweep(tmp_path / "sweep", repeats=1)
    next(iter(sorted((tmp_path / "sweep").rglob("requests-00001.parquet")))).unlink()
    page = tmp_path / "a" / "page.html"
    result = batchyard("report", store.root, "-o", page)
    assert result.exit_code == 0, result.output
    assert page.is_file()
    assert not (tmp_path / "sweep" / "report.html").exists()
    (warning,) = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert "set aside" in warning


def resumable(folder: Path, config: Path) -> Path:
    """A sweep's folder as a driver leaves it that was killed early."""
    loaded = load(config)
    root = Path(sweep_root(loaded, folder))
    Store(root).write_sweep({"name": loaded.name, "config": dict(loaded.as_written), "provenance": {}})
    return root


def ended(root: Path, *, planned: int, done: int, ran: int, stopped_at: Limit | None = None) -> Outcome:
    """How a driver says that it has ended, of a sweep without rows."""
    findings = find(Store(root))
    counts = {"planned": planned, "done": done, "ran": ran}
    page = {"page": "page.html", "findings": findings, "problems": ()}
    return Outcome(root=str(root), stopped_at=stopped_at, **page, **counts)


def test_resume_runs_the_config_that_is_in_the_folder(
    here: Path, config_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    path = config_file()
    root = resumable(here, path)
    ran: list[tuple[str, str, Where]] = []

    def run(config: Any, root_: str, say: Any, *, fresh: bool, where: Where, limits: Limits) -> Outcome:
        assert not fresh
        assert limits == Limits()
        ran.append((config.config_hash, root_, where))
        return ended(root, planned=4, done=4, ran=4)

    monkeypatch.setattr(experiments.sweep, "run_sweep", run)
    result = batchyard("resume", root)
    assert result.exit_code == 0, result.output
    assert ran == [(load(path).config_hash, str(root), Where())]
    assert batchyard("resume", root, "--lanes", 3).exit_code == 0
    assert ran[1][2] == Where(lanes=3)
    assert "page: page.html" in result.stdout


def test_resume_wants_the_folder_to_have_its_name(here: Path, config_file: Callable[..., Path]):
    root = resumable(here, config_file())
    renamed = root.rename(here / "mine")
    assert f"must be named {root.name}" in refusal(batchyard("resume", renamed))


@pytest.mark.parametrize(
    ("outcome", "code", "told"),
    [
        ({"done": 4, "ran": 0}, 0, "This sweep is complete (4 cells); --fresh starts anew."),
        ({"done": 3, "ran": 1}, 1, "1 of 4 cells failed; `batchyard sweep {config} --results {here}` tries"),
        (
            {"done": 3, "ran": 1, "stopped_at": "--max-hours"},
            1,
            "stopped at --max-hours: 3 of 4 cells are done, 1 left; `batchyard sweep {config} --results {here}` goes on",
        ),
    ],
)
def test_the_exit_code_says_whether_the_sweep_is_complete(
    here: Path,
    config_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    outcome: dict[str, Any],
    code: int,
    told: str,
):
    path = config_file()
    said = ended(resumable(here, path), planned=4, **outcome)
    monkeypatch.setattr(experiments.sweep, "run_sweep", lambda *_, **__: said)
    result = batchyard("sweep", path, "--results", here)
    assert result.exit_code == code, result.output
    assert told.format(config=path, here=here) in result.stdout


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_interrupted_sweep_says_how_to_go_on(
    here: Path, config_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, elsewhere: bool
):
    def interrupt(*_: object, **__: object) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments.sweep, "run_sweep", interrupt)
    path = config_file()
    more = ("--results", "other") if elsewhere else ()
    result = batchyard("sweep", path, *more)
    assert result.exit_code == 130
    command = " ".join(["batchyard", "sweep", str(path), *more])
    assert result.stderr.splitlines() == [f"interrupted; nothing that was done is lost: `{command}` goes on"]


def test_fresh_keeps_the_earlier_run_beside(
    here: Path, config_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    path = config_file()
    root = resumable(here, path)

    def begin(*_: object) -> None:
        assert [file.name for file in root.iterdir()] == ["driver.lock"]
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments.sweep, "check", lambda *_, **__: None)  # of the model
    monkeypatch.setattr(experiments.where, "local_ray", begin)
    assert batchyard("sweep", path, "--results", here, "--fresh").exit_code == 130
    (kept,) = [folder for folder in here.iterdir() if folder != root]
    assert kept.name.startswith(f"{root.name}-until-")
    assert (kept / "sweep.json").is_file()


def test_a_warning_of_the_config_is_told_before_it_runs(
    here: Path, config_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
):
    path = config_file(arrival_rate=[0.1], duration_s=20)
    said = ended(resumable(here, path), planned=1, done=1, ran=1)
    monkeypatch.setattr(experiments.sweep, "run_sweep", lambda *_, **__: said)
    result = batchyard("sweep", path, "--results", here)
    assert result.exit_code == 0, result.output
    assert any(
        line.startswith(f"warning: {path}: strategies[0].max_batch_size: 4 is never")
        for line in result.stderr.splitlines()
    )
