"""What must hold of a sweep whatever was killed, taken away or run twice while it was driven.

Every cell that can finish is finished exactly once, by the attempt that counts; every other attempt says why it
failed, or was killed with its driver; no row is lost or doubled; the store reads clean.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from results.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """How a sweep ended, counted."""

    cells: int  # done, each once
    requests: int
    attempts: int
    failed: Mapping[str, int]  # attempts, by cause
    killed: int  # attempts that left no document: their driver was killed

    def __str__(self) -> str:
        failed = ", ".join(f"{count} {cause}" for cause, count in sorted(self.failed.items())) or "none"
        return (
            f"{self.cells} cells done once each, {self.requests} requests; {self.attempts} attempts, "
            f"failed: {failed}; killed with their driver: {self.killed}"
        )


def account(root: Path, cells: int) -> Account:
    """Of a sweep that must be complete. AssertionError says what does not hold."""
    store = Store(root)
    ends_of = (root.glob(f"cells/*/attempt-*/{name}") for name in ("done.json", "failed.json"))
    documents = [(path.parent, path.name) for paths in ends_of for path in paths]
    attempts = sorted(root.glob("cells/*/attempt-*"))
    ends = Counter(folder for folder, _ in documents)
    assert max(ends.values()) == 1, f"an attempt ended twice: {ends.most_common(1)}"
    done = Counter(folder.parent.name for folder, name in documents if name == "done.json")
    assert len(done) == cells, f"{len(done)} of {cells} cells are done"
    assert set(done.values()) == {1}, f"a cell was finished twice: {done.most_common(1)}"
    trials, failures = store.trials(), store.failures()
    assert len(trials) == cells
    assert all(failure.cause and failure.error for failure in failures)
    requests = store.requests(columns=["request_id"])["request_id"].to_pylist()
    planned = sum(trial.planned_requests for trial in trials)
    assert len(set(requests)) == len(requests) == planned, f"{len(requests)} rows, {planned} planned"
    assert not store.problems, store.problems
    half_written = {path.parent for path in root.rglob("*.tmp")}
    assert not half_written & {root, *(folder for folder, _ in documents)}, (
        "only a kill leaves a half of a file"
    )
    assert (root / "report.html").is_file()
    assert not (root / "driver.lock").exists()
    return Account(
        cells=cells,
        requests=len(requests),
        attempts=len(attempts),
        failed=Counter(failure.cause for failure in failures),
        killed=len(attempts) - cells - len(failures),
    )


def counted(root: Path) -> dict[str, bytes]:
    """Every file of the attempts that are done, with its content: none of it may ever change."""
    folders = [path.parent for path in root.glob("cells/*/*/done.json")]
    return {str(path.relative_to(root)): path.read_bytes() for folder in folders for path in folder.iterdir()}
