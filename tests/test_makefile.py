"""What make would run, by the kind of machine; nothing is run."""

import os
import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize(("kind", "config"), [("cpu", "local"), ("gpu", "smoke")])
def test_the_default_sweep_is_one_that_the_environment_can_run(kind: str, config: str) -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "sweep", f"KIND={kind}"],
        cwd=Path(__file__).parent.parent,
        env={"PATH": os.environ["PATH"]},  # not the MAKEFLAGS of a make that runs the tests
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.splitlines()[-1] == f".venv/bin/batchyard sweep experiments/configs/{config}.yaml"
