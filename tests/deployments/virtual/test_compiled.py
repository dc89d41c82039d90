"""Compiled functions are kept on disk for the next process, and never beyond a change of what they call."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = """
from compiled_here.calls import ENTRY
print(ENTRY.point(1)(1), ENTRY.compiled_here)
"""
CALLED = "from .compiled import compiled\n\n@compiled\ndef called(number):\n    return number + {added}\n"
CALLS = (
    "from .called import called\nfrom .compiled import Entry\n\n"
    "def calls(number):\n    return called(number)\n\nENTRY = Entry(calls)\n"
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A compiled function that calls one of another file, beside a copy of the file under test."""
    folder = tmp_path / "compiled_here"
    folder.mkdir()
    shutil.copy(ROOT / "deployments/virtual/compiled.py", folder)
    (folder / "__init__.py").touch()
    (folder / "called.py").write_text(CALLED.format(added=1), encoding="utf-8")
    (folder / "calls.py").write_text(CALLS, encoding="utf-8")
    return folder


def called(package: Path, **more: str) -> str:
    given = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA")}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=package.parent,
        env=given | {"PYTHONDONTWRITEBYTECODE": "1"} | more,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_next_process_compiles_nothing_until_what_is_called_changes(package):
    assert [called(package), called(package)] == ["2 True", "2 False"]
    (package / "called.py").write_text(CALLED.format(added=5), encoding="utf-8")
    assert called(package) == "6 True"


def test_without_a_folder_to_write_it_is_compiled_again(package):
    in_the_way = package / "__pycache__"
    in_the_way.touch()  # no folder can be made of it, whoever asks
    nowhere = {"HOME": str(in_the_way), "XDG_CACHE_HOME": str(in_the_way)}
    assert [called(package, **nowhere), called(package, **nowhere)] == ["2 True", "2 True"]
