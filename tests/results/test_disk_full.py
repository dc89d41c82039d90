"""A full disk ends the attempt that meets it, by its name, and leaves what was there before as it was."""

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from results.attempt import Attempt
from results.errors import DiskFull
from results.records import Failure
from results.store import Store


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """The kernel refuses to make any file longer, as a full disk would (EFBIG, not ENOSPC)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def rows(made: ModuleType, attempt: Attempt, first: int, count: int) -> list[dict[str, object]]:
    """Request rows of some size: token stamps do not compress well."""
    return [
        made.request_row(
            cell_id=attempt.cell_id,
            attempt=attempt.number,
            index=index,
            planned_s=0.1 * index,
            token_s=[0.1 * index + 0.37 * (k**1.5) for k in range(200)],
        )
        for index in range(first, first + count)
    ]


def failure(attempt: Attempt, cause: str = "disk-full") -> Failure:
    return Failure(
        cell_id=attempt.cell_id, attempt=attempt.number, cause=cause, error="full", failed_at="2026-11-01"
    )


def names(store: Store) -> list[str]:
    return sorted(str(path.relative_to(store.root)) for path in Path(store.root).rglob("*.*"))


def test_the_attempt_fails_by_name_and_earlier_ones_stay(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    earlier = store.begin_attempt("a")
    kept = rows(made_sweep, earlier, 0, 4)
    earlier.write_requests(kept)
    earlier.finish(made_sweep.make_trial(kept))
    attempt = store.begin_attempt("b")
    with files_of_at_most(4_000):
        with pytest.raises(DiskFull, match=r"requests-00000\.parquet cannot be written: the disk is full"):
            attempt.write_requests(rows(made_sweep, attempt, 0, 200))
        attempt.fail(failure(attempt))
    again = Store(tmp_path)
    assert again.done_cells() == {"a": 1}
    assert [one.cause for one in again.failures()] == ["disk-full"]
    assert again.requests().num_rows == 4
    assert again.problems == []
    assert not [name for name in names(again) if name.endswith(".tmp")]


@pytest.mark.parametrize("document", ["sweep.json", "done.json"])
def test_half_a_document_is_never_left(tmp_path: Path, made_sweep: ModuleType, document: str) -> None:
    store = Store(tmp_path)
    store.write_sweep({"name": "one"})
    attempt = store.begin_attempt("a")
    written = rows(made_sweep, attempt, 0, 4)
    attempt.write_requests(written)
    before = names(store)

    def write() -> None:
        if document == "sweep.json":
            store.write_sweep({"name": "two" * 100})
        else:
            attempt.finish(made_sweep.make_trial(written))

    with files_of_at_most(100), pytest.raises(DiskFull, match=document):
        write()
    assert names(store) == before
    assert Store(tmp_path).read_sweep() == {"schema_version": 1, "name": "one"}
    attempt.finish(made_sweep.make_trial(written))  # there is room again


def fill(path: Path) -> None:
    """Until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_rows_that_do_not_count_make_room_for_why(
    small_disk: Callable[[int], Path], made_sweep: ModuleType
) -> None:
    store = Store(small_disk(256))
    attempt = store.begin_attempt("a")
    attempt.write_requests(rows(made_sweep, attempt, 0, 20))
    with pytest.raises(OSError, match="No space left"):
        fill(Path(store.root) / "filler")
    with pytest.raises(DiskFull):
        attempt.write_requests(rows(made_sweep, attempt, 20, 20))
    attempt.fail(failure(attempt))
    assert [one.cause for one in Store(store.root).failures()] == ["disk-full"]
