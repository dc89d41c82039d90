"""A sweep's folder that is away for a while: writes wait for it, and it comes back to the place that it left."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyarrow import fs

import results.store_files
from results.errors import DiskFull, StoreAway, StoreError, cannot_write
from results.patience import AGAIN_S, Patience
from results.store import Store


class Time:
    """Seconds that pass only where somebody sleeps; `then` happens at given ones."""

    def __init__(self, **then: Callable[[], object]) -> None:
        self.now_s, self._then = 0.0, {float(at.removeprefix("at_")): act for at, act in then.items()}

    def clock(self) -> float:
        return self.now_s

    def sleep(self, span_s: float) -> None:
        self.now_s += span_s
        for at_s in [at_s for at_s in self._then if at_s <= self.now_s]:
            self._then.pop(at_s)()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Time], Store]:
    """`patient(root, time)`: a store that waits 60 s of that time."""

    def make(root: Path, time: Time) -> Store:
        def patience(*, wait_s: float, remote: bool) -> Patience:
            return Patience(wait_s=wait_s, remote=remote, clock=time.clock, sleep=time.sleep)

        monkeypatch.setattr(results.store_files, "Patience", patience)
        return Store(root, wait_s=60)

    return make


@contextmanager
def away(root: Path) -> Iterator[Callable[[], object]]:
    """The folder is moved away; what is given brings it back."""
    elsewhere = root.with_name("elsewhere")
    root.rename(elsewhere)
    yield lambda: elsewhere.rename(root)


def begun(root: Path) -> Path:
    Store(root).write_sweep({"name": "one"})
    return root


def test_every_write_of_an_attempt_waits_until_the_folder_is_back(
    tmp_path: Path, made_sweep: ModuleType, patient: Callable[[Path, Time], Store]
) -> None:
    root, time = begun(tmp_path / "sweep"), Time()
    store = patient(root, time)
    with away(root) as back:
        time._then = {20.0: back}
        attempt = store.begin_attempt("a")
    rows = [
        made_sweep.request_row(cell_id="a", attempt=1, index=index, token_s=[1.0, 2.0]) for index in (0, 1)
    ]
    with away(root) as back:
        time._then = {40.0: back}
        attempt.write_requests(rows)
    with away(root) as back:
        time._then = {60.0: back}
        attempt.finish(made_sweep.make_trial(rows, cell_id="a"))
    assert time.now_s == 60
    again = Store(root)
    assert again.done_cells() == {"a": 1}
    assert again.requests().num_rows == 2
    assert again.problems == []
    assert not list(root.rglob("*.tmp"))


def test_what_is_done_is_not_taken_for_missing_while_the_folder_is_away(
    tmp_path: Path, made_sweep: ModuleType, patient: Callable[[Path, Time], Store]
) -> None:
    root = tmp_path / "sweep"
    made_sweep.make_sweep(root, repeats=1)
    whole, time = Store(root).done_cells(), Time()
    assert whole
    store = patient(root, time)
    with away(root) as back:
        time._then = {20.0: back}
        assert store.done_cells() == whole
    assert time.now_s == 20


def test_after_a_minute_it_is_one_line_and_nothing_stands_in_its_place(
    tmp_path: Path, patient: Callable[[Path, Time], Store]
) -> None:
    root, time = begun(tmp_path / "sweep"), Time()
    store = patient(root, time)
    attempt = store.begin_attempt("a")
    elsewhere = root.rename(tmp_path / "elsewhere")
    for act in (lambda: store.begin_attempt("b"), store.done_cells, store.read_sweep):
        time.now_s = 0.0
        with pytest.raises(StoreAway, match=r"sweep: No such file.* tried again for 60 s") as error:
            act()
        assert 60 <= time.now_s <= 60 + AGAIN_S
        assert "\n" not in str(error.value)
    with pytest.raises(StoreAway, match=r"samples-00000\.parquet cannot be written: No such file"):
        attempt._put("samples-00000.parquet", b"")
    assert not root.exists()
    assert Store(elsewhere).read_sweep()


@pytest.mark.parametrize(
    "mended_by_a_person", [PermissionError(13, "no"), OSError(28, "full"), NotADirectoryError(20, "no")]
)
def test_what_a_person_must_mend_is_not_waited_for(mended_by_a_person: OSError) -> None:
    time, tries = Time(), list[int]()

    def write() -> None:
        tries.append(1)
        raise cannot_write("there", mended_by_a_person) from mended_by_a_person

    with pytest.raises(StoreError) as error:
        Patience(wait_s=60, clock=time.clock, sleep=time.sleep).ask(write)
    assert (len(tries), time.now_s) == (1, 0.0)
    assert isinstance(error.value, DiskFull) == (mended_by_a_person.errno == 28)


def test_what_an_object_store_refuses_is_not_waited_for() -> None:
    time, tries = Time(), list[int]()

    def write() -> None:
        tries.append(1)
        raise OSError("When uploading key 'x': AWS Error ACCESS_DENIED during PutObject operation")

    with pytest.raises(OSError, match="ACCESS_DENIED"):
        Patience(wait_s=60, remote=True, clock=time.clock, sleep=time.sleep).ask(write)
    assert len(tries) == 1


@pytest.mark.parametrize("remote", [False, True])
def test_an_error_without_a_number_is_tried_again_where_errors_have_none(remote: bool) -> None:
    time, tries = Time(), list[int]()

    def write() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("When reading information for key: AWS Error NETWORK_CONNECTION")
        return "written"

    patience = Patience(wait_s=60, remote=remote, clock=time.clock, sleep=time.sleep)
    if remote:
        assert patience.ask(write) == "written"
    else:
        with pytest.raises(OSError, match="NETWORK"):
            patience.ask(write)


class Away:
    """A filesystem whose server goes away between a look and a read."""

    def __init__(self, filesystem: fs.FileSystem, error: OSError) -> None:
        self._filesystem, self._error = filesystem, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)

    def open_input_file(self, path: str) -> None:
        raise self._error


def test_what_cannot_be_read_now_is_not_taken_for_damaged(tmp_path: Path, made_sweep: ModuleType) -> None:
    made_sweep.make_sweep(tmp_path / "sweep", repeats=1, requests=1)
    for read in (Store.done_cells, Store.failures, Store.partial_requests, Store.requests):
        store = Store(tmp_path / "sweep")
        if read is Store.requests:
            store.done_cells()
        store._files.filesystem = Away(store._files.filesystem, OSError(errno.ESTALE, "Stale file handle"))
        with pytest.raises(StoreAway, match="Stale file handle"):
            read(store)
        assert store.problems == []


def test_the_newest_attempt_can_be_failed_for_a_process_that_is_gone(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    assert store.open_attempt("a") is None
    store.begin_attempt("a")
    killed = store.open_attempt("a")
    assert killed is not None
    assert killed.number == 1
    rows = [made_sweep.request_row(cell_id="a", attempt=2, token_s=[1.0])]
    attempt = store.begin_attempt("a")
    attempt.write_requests(rows)
    attempt.finish(made_sweep.make_trial(rows, cell_id="a", attempt=2))
    assert store.open_attempt("a") is None
