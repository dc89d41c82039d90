"""The first simulation on a machine compiles its engine before it starts processes, and says what it waits for."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
SIMULATE = """
import sys
from experiments.simulation import compilation
compilation.TOLD_AFTER_S = 0.5
from experiments.cli import main
sys.argv[0] = "batchyard"
main()
"""


def test_what_is_compiled_first_is_said(
    config_values: Callable[..., dict[str, Any]], random_prompts: dict[str, Any], tmp_path: Path
) -> None:
    naive = [{"strategy": "naive", "backends": "simulated", "max_batch_size": 2}]
    values = config_values(model=..., workload=random_prompts, strategies=naive, repeats=1)
    (tmp_path / "made.yaml").write_text(yaml.safe_dump(values))
    ran = subprocess.run(
        [sys.executable, "-c", SIMULATE, "simulate", tmp_path / "made.yaml", "--results", tmp_path],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "compiling the engines of virtual time, the first time only\n" in ran.stderr
