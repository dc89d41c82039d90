"""Tab: the shells' own protocol, with configs and the folders of sweeps."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.commands.completion import configs, sweeps

START = "import sys; sys.argv[0] = 'batchyard'; from experiments.cli import main; main()"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with configs and sweeps."""
    for path in ("experiments/configs/local.yaml", "mine.yml", "notes.txt", "more/other.yaml", "a/b/c.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("name: made\nstrategies:\n  - {strategy: naive}\n")
    (tmp_path / "cluster.yaml").write_text("cluster_name: made\nsetup_commands: [strategies: none]\n")
    (tmp_path / "more" / "folder.yaml").mkdir()
    for path in ("results/data/local-1/sweep.json", "results/data/begun/driver.lock", "else/far/sweep.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "results/data/no-sweep").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tab(here: Path) -> Callable[..., list[str]]:
    """`tab("bash", "ls", "")`: what the shell is offered for the last word."""

    def press(shell: str, *words: str) -> list[str]:
        asked = {"_BATCHYARD_COMPLETE": f"complete_{shell}"}
        if shell == "bash":
            asked |= {"COMP_WORDS": " ".join(["batchyard", *words]), "COMP_CWORD": str(len(words))}
        else:
            asked |= {"_TYPER_COMPLETE_ARGS": " ".join(["batchyard", *words])}
        done = subprocess.run(
            [sys.executable, "-c", START],
            env={**os.environ, **asked, "PYTHONPATH": str(ROOT)},
            cwd=here,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return press


def test_bash_is_offered_commands_options_configs_and_sweeps(tab: Callable[..., list[str]]):
    assert tab("bash", "re") == ["resume", "report"]
    assert "--dry-run" in tab("bash", "sweep", "--d")
    assert tab("bash", "sweep", "") == ["experiments/configs/local.yaml", "mine.yml", "more/other.yaml"]
    assert tab("bash", "status", "") == ["else/far", "results/data/begun", "results/data/local-1"]
    assert tab("bash", "export", "x", "--table", "b") == ["batches"]


def test_zsh_is_offered_sweeps(tab: Callable[..., list[str]]):
    (line,) = [line for line in tab("zsh", "resume", "results/data/l") if "local-1" in line]
    assert "results/data/local-1" in line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_can_be_shown(shell: str, here: Path):
    shown = subprocess.run(
        [sys.executable, "-c", START, "--show-completion", shell],
        env={**os.environ, "PYTHONPATH": str(ROOT), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        cwd=here,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_BATCHYARD_COMPLETE" in shown.stdout


def test_it_can_be_installed(here: Path):
    home = here / "home"
    home.mkdir()
    subprocess.run(
        [sys.executable, "-c", START, "--install-completion", "bash"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
        },
        cwd=here,
        capture_output=True,
        text=True,
        check=True,
    )
    (script,) = (path for path in home.rglob("batchyard*") if path.is_file())
    assert "_BATCHYARD_COMPLETE" in script.read_text()
    assert str(script) in (home / ".bashrc").read_text()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["experiments/configs/local.yaml", "mine.yml", "more/other.yaml"]),
        ("m", ["mine.yml", "more/other.yaml"]),
        ("a/", ["a/b/c.yaml"]),
        ("c", []),
        ("exp", ["experiments/configs/local.yaml"]),
        ("experiments/configs/", ["experiments/configs/local.yaml"]),
        ("more/o", ["more/other.yaml"]),
        ("n", []),
        ("none/", []),
    ],
)
def test_configs(here: Path, typed: str, offered: list[str]):
    assert configs(typed) == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["else/far", "results/data/begun", "results/data/local-1"]),
        ("results/", ["results/data/begun", "results/data/local-1"]),
        ("res", ["results/data/begun", "results/data/local-1"]),
        ("results/data/l", ["results/data/local-1"]),
        ("local", ["results/data/local-1"]),
        ("else/", ["else/far"]),
        ("none/", []),
    ],
)
def test_sweeps(here: Path, typed: str, offered: list[str]):
    assert sweeps(typed) == offered


def test_a_path_from_the_root(here: Path):
    assert configs(f"{here}/mi") == [f"{here}/mine.yml"]
    assert sweeps(f"{here}/results/data/") == [
        f"{here}/results/data/begun",
        f"{here}/results/data/local-1",
    ]


def test_in_a_results_folder(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(here / "results/data")
    assert sweeps("") == ["begun", "local-1"]
    assert sweeps("lo") == ["local-1"]


def test_where_there_are_no_configs_those_that_come_with_batchyard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    own = [
        str(ROOT / "experiments/configs" / f"{name}.yaml") for name in ("full", "local", "memory", "smoke")
    ]
    assert configs("") == own
    assert configs(f"{ROOT}/experiments/") == own
    assert configs("x") == []
