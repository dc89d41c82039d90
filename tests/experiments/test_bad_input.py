"""Bad input is refused with one line that says what is wrong, where and what would be right; nothing happens."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.cli import app
from experiments.traffic import _tokenizer
from tests.experiments.bad_configs import CONFIGS, FILES, GOOD, NAIVE, Change
from tests.experiments.bad_situations import (
    CHATS,
    FORM,
    ON_A_MODEL,
    OTHER_COMMANDS,
    SITUATIONS,
    Here,
    Situation,
    with_tiny_model,
)


def changed(change: Change) -> Situation:
    old, new = change
    assert old in GOOD, old
    return lambda here: ["sweep", here.config(GOOD.replace(old, new, 1))]


def written(content: bytes) -> Situation:
    def make(here: Here) -> list[str]:
        here.write("c.yaml", content)
        return ["sweep", "c.yaml"]

    return make


LEFT_OPEN = {  # by a dry run
    "hub id that is not here",  # the hub may have it
    "model whose name ends in a new line",
    "lock held",  # which it says, and that the sweep runs
    "lock held, started anew",
    "lock held on another host",
    "lock that names nobody",
    "lock that is no text",
    "lock of no process",
    "results on no disk",  # root may write there, as far as is known without trying
    "no config",
}
CASES: dict[str, tuple[Situation, str]] = {
    **{name: (changed(change), f"c.yaml:{line}") for name, (change, line) in CONFIGS.items()},
    **{name: (written(content), line) for name, (content, line) in FILES.items()},
    **SITUATIONS,
    **OTHER_COMMANDS,
}


@pytest.fixture
def here(
    tmp_path: Path,
    made_sweep: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Here]:
    """An empty folder to be in, in which a sweep that gets as far as to start Ray fails the test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def start(*_: object) -> Any:
        raise AssertionError("Ray would have been started")

    monkeypatch.setattr("experiments.where.local_ray", start)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the lines are those of a machine without GPUs
    _tokenizer.cache_clear()  # it goes by the model's name, which is the same in many folders here
    with ExitStack() as held:
        yield Here(folder, made_sweep, lambda: request.getfixturevalue("tiny_model"), held)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder in it, with what is in the files."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def said(line: str, folder: Path) -> str:
    """A line without what a test cannot know: the folder, the hash of the config, who holds a lock."""
    line = line.replace(str(folder), "{here}").replace("r" * 300, "{long}")
    line = re.sub(r"process \d+ on \S+ \(since \S+\)", "process N on HOST (since WHEN)", line)
    return re.sub(r"good-[0-9a-f]{12}|(?<=this one is )[0-9a-f]{12}", hidden, line)


def hidden(found: re.Match[str]) -> str:
    return "good-{hash}" if found.group().startswith("good-") else "{hash}"


@pytest.mark.parametrize(("situation", "line"), CASES.values(), ids=CASES.keys())
def test_bad_input_is_refused_in_one_line_and_nothing_is_written_or_started(
    here: Here, tmp_path: Path, situation: Situation, line: str
) -> None:
    arguments = situation(here)
    before = contents(tmp_path)
    result = CliRunner().invoke(app, arguments, prog_name="batchyard")
    assert (type(result.exception), result.exit_code) == (SystemExit, 2)
    (told,) = result.stderr.splitlines()
    assert said(told, here.folder) == f"error: {line}" or (
        line.endswith("…") and said(told, here.folder).startswith(f"error: {line[:-1]}")
    )
    assert result.stdout == ""
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name not in LEFT_OPEN])
def test_a_dry_run_refuses_what_the_sweep_refuses_and_writes_nothing(
    here: Here, tmp_path: Path, name: str
) -> None:
    situation, line = SITUATIONS[name]
    arguments = situation(here)
    before = contents(tmp_path)
    result = CliRunner().invoke(app, [*arguments, "--dry-run"], prog_name="batchyard")
    assert (type(result.exception), result.exit_code) == (SystemExit, 2)
    assert said(result.stderr, here.folder).startswith(f"error: {line.rstrip('…')}")
    assert (result.stderr.count("\n"), result.stdout) == (1, "")
    assert contents(tmp_path) == before


def test_a_dry_run_reads_the_chats_of_a_model_that_is_not_here(here: Here) -> None:
    here.write("chats.json", "{}")
    here.config(CHATS.replace("./model", "nobody/nothing"))
    result = CliRunner().invoke(app, ["sweep", "c.yaml", "--dry-run"])
    assert result.exit_code == 2
    *_, error = result.stderr.splitlines()
    assert error == f"error: c.yaml:4: workload.prompts: chats.json: must be {FORM}, got a JSON object"


def test_a_dry_run_says_what_it_did_not_look_at(here: Here) -> None:
    here.config(ON_A_MODEL.replace("./model", "nobody/nothing"))
    result = CliRunner().invoke(app, ["sweep", "c.yaml", "--dry-run"])
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "not checked: model nobody/nothing, which is not on this machine yet\n"


@pytest.mark.parametrize(
    ("situation", "warnings"),
    [
        (changed(("seed: 0", "seed: 1")), []),
        (with_tiny_model(ON_A_MODEL), []),  # it has no pad token and no tokenizer, and needs neither
        (
            changed((f"{NAIVE}, max_batch_size: 4", f"{NAIVE}, max_batch_size: 100")),
            [
                (
                    "warning: c.yaml: strategies[0].max_batch_size: 100 is never filled at 4 requests/s, which are"
                    " 80 requests in 20 s: naive would only flush what it has"
                )
            ],
        ),
    ],
    ids=["as it is", "model without a pad token", "batches that are never filled"],
)
def test_what_can_run_gets_as_far_as_to_start_ray(
    here: Here, situation: Situation, warnings: list[str]
) -> None:
    result = CliRunner().invoke(app, situation(here))
    assert isinstance(result.exception, AssertionError)
    assert result.stderr.splitlines() == [*warnings, "starting Ray on this machine"]


def test_the_real_command_refuses_in_the_same_way(here: Here) -> None:
    here.config(GOOD.replace("repeats: 2", "repeats: 0"))
    program = "from experiments.cli import main; main()"
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", program, "sweep", "c.yaml"],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "error: c.yaml:13: repeats: must be at least 1, got 0\n"
    assert list(contents(here.folder)) == [str(here.folder / "c.yaml")]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def scramble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20:40] = bytes(20)
    path.write_bytes(content)


def without_parts(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "parts": {}}))


def of_another(path: Path) -> None:
    document = json.loads(path.read_text())
    document["trial"]["cell_id"] = "cell-999"
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("requests-00000.parquet", Path.unlink, "{part} should have # bytes, has none"),
        ("requests-00000.parquet", cut, "{part} should have # bytes, has #"),
        ("requests-00001.parquet", scramble, "{part} is damaged: "),
        ("batches-00000.parquet", scramble, "{part} is damaged: "),
        ("done.json", cut, "{part} must be JSON with a schema_version: "),
        ("done.json", without_parts, "{attempt} must have # request rows, has #"),
        ("done.json", of_another, "{part} must be of this attempt, is of cell cell-#, attempt #"),
    ],
    ids=["lost", "cut short", "rows that rotted", "batches that rotted", "half a document", "no parts", "of another"],
)  # fmt: skip
def test_a_broken_attempt_is_set_aside_and_named_and_the_rest_is_read(
    here: Here, name: str, damage: Callable[[Path], object], why: str
) -> None:
    here.made_sweep.make_sweep("made", repeats=1)
    attempt = here.folder / "made" / "cells" / "cell-001" / "attempt-1"
    damage(attempt / name)
    result = CliRunner().invoke(app, ["report", "made"])
    assert result.exit_code == 0, result.output
    (warning,) = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    expected = why.replace("{part}", str(attempt / name)).replace("{attempt}", str(attempt))
    pattern = re.escape(expected).replace(r"\#", r"\d+")
    assert re.match(rf"warning: cell cell-001, attempt 1 set aside: {pattern}", warning), warning
    assert (here.folder / "made" / "report.html").is_file()
