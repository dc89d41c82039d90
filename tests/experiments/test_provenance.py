"""Where a result came from: what counts as a change of the commit."""

import subprocess
from pathlib import Path

from experiments.provenance import _changes


def test_a_file_of_the_commit_is_a_change_and_one_beside_it_is_none(tmp_path: Path):
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "code.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    (tmp_path / "mine.yaml").write_text("name: mine")
    assert _changes(tmp_path) == ""
    (tmp_path / "code.py").write_text("2")
    assert _changes(tmp_path) == "M code.py"


def test_outside_a_checkout_it_is_not_known(tmp_path: Path):
    assert _changes(tmp_path) is None
