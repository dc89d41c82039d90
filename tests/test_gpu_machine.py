"""The tests on a machine with a GPU: none is seen by them, and vLLM's CUDA build is left to `make gpu-check`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_no_gpu_is_seen() -> None:
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(("version", "left_out"), [("0.33.0", True), ("0.33.0+cpu", False)])
def test_what_would_start_the_cuda_build_of_vllm_is_left_out(
    tmp_path: Path, version: str, left_out: bool
) -> None:
    installed = tmp_path / "site" / f"vllm-{version}.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    probe = tmp_path / "test_probe.py"
    probe.write_text("import pytest\n@pytest.mark.vllm\ndef test_vllm(): pass\ndef test_other(): pass\n")
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--rootdir",
            ROOT,
            "-c",
            ROOT / "pyproject.toml",
            "-p",
            "tests.conftest",
            probe,
        ],
        env={**os.environ, "PYTHONPATH": f"{installed.parent}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert ("1 passed, 1 skipped" if left_out else "2 passed") in ended.stdout
    assert ("make gpu-check tests it" in ended.stdout) == left_out
