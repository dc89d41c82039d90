"""Where `report` and `explain` write a page: never over what somebody else made, never among a sweep's results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from tests.results import made_sweep


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small made sweep."""
    root = tmp_path_factory.mktemp("made") / "sweep"
    return Path(made_sweep.make_sweep(root, repeats=1, rates=(1.0,), requests=6).root)


@pytest.fixture
def config(config_values: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(config_values()), encoding="utf-8")
    return path


@pytest.fixture(params=["report", "explain"])
def draw(
    request: pytest.FixtureRequest, batchyard: Callable[..., Result], sweep: Path, config: Path
) -> Callable[..., Result]:
    """`draw(path, "--force")`: either command, its page at `path`."""
    given = (
        ("report", sweep) if request.param == "report" else ("explain", config, "--results", config.parent)
    )
    return lambda path, *more: batchyard(*given, "-o", path, *more)


def refusal(result: Result) -> str:
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


def test_a_file_of_somebody_else_is_kept_unless_forced(draw: Callable[..., Result], config: Path):
    before = config.read_text()
    assert refusal(draw(config)) == (
        f"error: {config} is there already and is no page of batchyard; --force overwrites it"
    )
    assert config.read_text() == before
    page = config.with_name("page.html")
    page.write_text("<!doctype html><title>mine</title>")
    assert "is no page of batchyard" in refusal(draw(page))
    assert draw(page, "--force").exit_code == 0
    assert "<title>mine</title>" not in page.read_text()


def test_a_page_of_ours_is_drawn_anew(draw: Callable[..., Result], tmp_path: Path):
    page = tmp_path / "page.html"
    for _ in range(2):
        assert draw(page).exit_code == 0
    page.write_bytes(page.read_bytes()[:1_000])  # cut short, its head says whose it is
    assert draw(page).exit_code == 0


@pytest.mark.parametrize("name", ["sweep.json", "other.html", "cells/cell-000/report.html"])
def test_a_sweep_keeps_its_files(draw: Callable[..., Result], sweep: Path, name: str):
    before = {path: path.stat().st_mtime_ns for path in sweep.rglob("*")}
    for more in ((), ("--force",)):
        assert f"would lie among the results of the sweep {sweep}" in refusal(draw(sweep / name, *more))
    assert {path: path.stat().st_mtime_ns for path in sweep.rglob("*")} == before


def test_only_its_own_page_goes_into_a_sweep(
    batchyard: Callable[..., Result], config: Path, sweep: Path, tmp_path: Path
):
    other = Path(made_sweep.make_sweep(tmp_path / "other", repeats=1, rates=(1.0,), requests=6).root)
    (other / "report.html").write_text("a page of an older version")
    for page in (other, other / "report.html", other / ".." / "other" / "report.html"):
        assert "would lie among" in refusal(batchyard("report", sweep, "-o", page, "--force"))
        result = batchyard("report", other, "-o", page)
        assert result.exit_code == 0, result.output
    assert "would lie among" in refusal(batchyard("explain", config, "-o", other / "report.html", "--force"))
