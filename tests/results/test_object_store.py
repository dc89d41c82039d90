"""Results in a bucket of a real S3 server, and of one of Google's API: what is written is read, one driver a sweep, and no credentials."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from results import earlier_run, object_lock
from results.address import Address, head, opened, place
from results.driver import this_driver
from results.earlier_run import move_aside, refuse_remains
from results.errors import StoreError
from results.lock import SweepLock, driver, refuse_if_driven
from results.object_lock import ObjectLock
from results.place import check_place
from results.read import read
from results.standing import standing, standings
from results.store import Store
from results.sweep_folder import LOCK, SWEEP, is_sweep
from tests.s3_server import S3Server


def at(address: str) -> Address:
    found = place(address)
    assert isinstance(found, Address)
    return found


def write(address: Address, text: str) -> None:
    filesystem, path = opened(address)
    with filesystem.open_output_stream(path) as stream:
        stream.write(text.encode())


def left_behind(root: Address, **changed: object) -> Address:
    """A lock that is not ours, with another holder."""
    lock = root / f"{LOCK}.other"
    write(lock, json.dumps({**json.loads(this_driver()), **changed}))
    return lock


def locks(root: Address) -> list[str]:
    return [one.name for one in root.iterdir() if one.name.startswith(LOCK)]


def test_the_tables_are_those_of_a_local_store(
    any_bucket: str, tmp_path: Path, made_sweep: ModuleType
) -> None:
    for root in (tmp_path / "made", f"{any_bucket}/results/made"):
        made_sweep.make_sweep(root, repeats=1, requests=4)
    local, remote = read(tmp_path / "made"), read(f"{any_bucket}/results/made")
    for name in ("requests", "batches", "samples", "trials", "failures", "partial"):
        assert getattr(remote, name).equals(getattr(local, name)), name
    assert remote.requests.num_rows > 0
    assert remote.problems == ()
    [there] = standings(at(f"{any_bucket}/results"))
    here = standing(tmp_path / "made")
    assert (there.name, there.state, there.done, there.planned) == (
        "made",
        "complete",
        here.done,
        here.planned,
    )
    assert there.last_row_at is not None
    sizes = {one.base_name: one.size for one in at(f"{any_bucket}/results/made").listed(recursive=True)}
    assert not [name for name in sizes if name.endswith(".tmp")]


def test_a_killed_attempt_is_passed_over_and_a_cut_part_is_noticed(
    any_bucket: str, made_sweep: ModuleType
) -> None:
    store = Store(f"{any_bucket}/sweep")
    assert (store.read_sweep(), store.done_cells(), store.last_row_at()) == (None, {}, None)
    store.begin_attempt("a")  # and killed
    attempt = Store(f"{any_bucket}/sweep").begin_attempt("a")
    assert attempt.number == 2
    row = made_sweep.request_row(cell_id="a", attempt=2, token_s=[1.0])
    attempt.write_requests([row])
    assert Store(f"{any_bucket}/sweep").done_cells() == {}
    attempt.finish(made_sweep.make_trial([row], attempt=2))
    assert Store(f"{any_bucket}/sweep").requests().num_rows == 1
    write(at(f"{any_bucket}/sweep/cells/a/attempt-2/requests-00000.parquet"), "cut")
    cut = Store(f"{any_bucket}/sweep")
    assert cut.done_cells() == {}
    assert "has 3" in cut.problems[0]


def small_sweep(root: Address, made: ModuleType, *, requests: int = 1) -> set[str]:
    """Two cells that are done; the names of its objects."""
    store = Store(root)
    store.write_sweep({"name": "made"})
    for cell in ("a", "b"):
        attempt = store.begin_attempt(cell)
        rows = [
            made.request_row(cell_id=cell, attempt=1, index=index, token_s=[1.0]) for index in range(requests)
        ]
        attempt.write_requests(rows)
        attempt.finish(made.make_trial(rows, cell_id=cell))
    return names(root)


def aside_of(root: Address) -> list[Address]:
    return sorted((one for one in root.parent.iterdir() if "-until-" in one.name), key=str)


def test_an_earlier_run_is_kept_beside_the_new_one(
    any_bucket: str, made_sweep: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_run, "TOLD_EVERY_S", -1.0)
    told: list[str] = []
    root = at(f"{any_bucket}/results/made")
    whole, before = small_sweep(root, made_sweep), Store(root).requests()
    with SweepLock(root), pytest.raises(StoreError, match="is driven by process"):
        move_aside(root, print)
    move_aside(root, told.append)
    assert told[0] == f"moving the earlier run aside: 1 of {len(whole) - 1} objects"
    assert names(root) == set()
    [aside] = aside_of(root)
    assert names(aside) == whole
    assert Store(aside).requests().equals(before)


@pytest.mark.parametrize("killed_at", ["copying", "deleting"])
def test_where_moving_aside_is_killed_the_same_command_ends_it_and_nothing_counts_twice(
    any_bucket: str, made_sweep: ModuleType, killed_at: str
) -> None:
    root = at(f"{any_bucket}/results/made")
    aside = root.with_name("made-until-20261101T100000Z")
    whole, before = small_sweep(root, made_sweep), Store(root).requests()
    filesystem, path = opened(root)
    half = sorted(whole - {SWEEP})[::2]
    for name in half if killed_at == "copying" else whole:
        filesystem.copy_file(f"{path}/{name}", f"{opened(aside)[1]}/{name}")
    if killed_at == "deleting":
        for name in (SWEEP, *half):
            filesystem.delete_file(f"{path}/{name}")
        with pytest.raises(StoreError, match=r"holds rows but no sweep\.json.*--fresh moves them aside"):
            refuse_remains(Store(root))
    assert [is_sweep(root), is_sweep(aside)] == [killed_at == "copying", killed_at == "deleting"]
    move_aside(root, print)
    assert names(root) == set()
    assert aside_of(root) == [aside]
    assert names(aside) == whole
    assert Store(aside).requests().equals(before)


@pytest.mark.parametrize("whole", [True, False])
def test_an_earlier_run_that_is_whole_is_not_written_over(
    bucket: str, made_sweep: ModuleType, whole: bool
) -> None:
    root = at(f"{bucket}/results/made")
    earlier = root.with_name("made-until-20261101T100000Z")
    small_sweep(earlier, made_sweep, requests=2)
    small_sweep(root, made_sweep)
    filesystem, path = opened(root)
    if not whole:
        filesystem.delete_file(f"{path}/{SWEEP}")
    move_aside(root, print)
    assert names(root) == set()
    assert Store(earlier).requests().num_rows == 4
    assert len(aside_of(root)) == 2


def names(root: Address) -> set[str]:
    """Of all objects that are there."""
    base = opened(root)[1]
    return {one.path.removeprefix(f"{base}/") for one in root.listed(recursive=True) if one.is_file}


def test_a_second_driver_is_refused_and_told_of_the_first(any_bucket: str) -> None:
    root = at(f"{any_bucket}/sweep")
    with SweepLock(root) as note:
        assert note is None
        for act in (lambda: SweepLock(root).__enter__(), lambda: refuse_if_driven(root)):
            with pytest.raises(
                StoreError, match=rf"process \d+ on {socket.gethostname()}.*wait for it or end"
            ):
                act()
        assert standing(root).state == "running"
    assert locks(root) == []
    assert driver(root) is None


def test_of_many_that_begin_at_once_at_most_one_holds_it(any_bucket: str) -> None:
    together, held = threading.Barrier(4), threading.Semaphore(0)
    most, now = 0, 0
    counting = threading.Lock()

    def drive(_: int) -> bool:
        nonlocal most, now
        together.wait()
        try:
            with SweepLock(f"{any_bucket}/sweep"):
                with counting:
                    now, most = now + 1, max(most, now + 1)
                held.acquire(timeout=0.2)  # nobody releases it: it is held for a moment
                with counting:
                    now -= 1
        except StoreError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(drive, range(4)))
    assert most <= 1
    assert locks(at(f"{any_bucket}/sweep")) == []
    with SweepLock(f"{any_bucket}/sweep"):
        assert len(locks(at(f"{any_bucket}/sweep"))) == 1


def test_the_lock_of_a_killed_process_of_this_host_is_taken_over(bucket: str) -> None:
    code = (
        "import os, sys; from results.lock import SweepLock; SweepLock(sys.argv[1]).__enter__(); os._exit(1)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, f"{bucket}/sweep"], cwd=Path(__file__).parents[2])
    killed.wait()
    assert len(locks(at(f"{bucket}/sweep"))) == 1
    with SweepLock(f"{bucket}/sweep") as note:
        assert note is not None
        assert f"process {killed.pid} on" in note
    assert locks(at(f"{bucket}/sweep")) == []


def test_a_lock_of_another_host_says_when_it_was_seen_and_what_to_delete(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = at(f"{bucket}/sweep")
    lock = left_behind(root, host="elsewhere")
    with pytest.raises(
        StoreError, match=r"on elsewhere .*last seen just now; if that has ended, delete"
    ) as told:
        SweepLock(root).__enter__()
    assert str(told.value).endswith(str(lock))
    seen = driver(root)
    assert seen is not None
    assert seen.alive, "it gave a sign of life"
    monkeypatch.setattr(object_lock, "DEAD_S", -60.0)
    with pytest.raises(StoreError, match="last seen 0 minutes ago"):
        refuse_if_driven(root)
    assert standing_driver_is_unknown(root)
    assert locks(root) == [lock.name]


def standing_driver_is_unknown(root: Address) -> bool:
    held = driver(root)
    return held is not None and held.alive is None


def test_a_lock_is_written_again_until_it_is_given_back_or_deleted(any_bucket: str) -> None:
    root = at(f"{any_bucket}/sweep")
    lock = ObjectLock(root, beat_s=0.01)
    lock.take()
    [name] = locks(root)
    write(root / name, "somebody else's")
    end_s = time.monotonic() + 30
    while head(root / name) != this_driver_of(head(root / name)):
        assert time.monotonic() < end_s
        time.sleep(0.01)  # a poll of the server: there is nothing to wait on
    lock.release()
    assert locks(root) == []


def test_ctrl_c_leaves_a_lock_that_a_server_does_not_take_back(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_lock, "SILENT_S", 0.1)
    monkeypatch.setattr(object_lock, "GIVE_BACK_S", 60.0)
    told: list[str] = []

    def pressed(line: str) -> None:
        if not told:
            signal.raise_signal(signal.SIGINT)
        told.append(line)

    lock = ObjectLock(at(f"{bucket}/sweep"))
    lock.take()
    s3_server.stop()
    try:
        began_s = time.monotonic()
        lock.release(pressed)
        assert time.monotonic() - began_s < 30
    finally:
        s3_server.go_on()
    assert ["to take its lock back" in told[0], "the lock stays" in told[1]] == [True, True]


def this_driver_of(text: bytes) -> bytes:
    """The same text if it names this process."""
    return text if json.loads(this_driver())["process_started"].encode() in text else b""


@pytest.mark.parametrize(
    "address", ["s3://key:marker@bucket/x", "s3://key:mar/ker@bucket/x", "s3://marker@bucket/x", "s3://"]
)
def test_an_address_holds_no_credentials(address: str) -> None:
    with pytest.raises(StoreError, match="must be s3://BUCKET/PREFIX without a user, password") as told:
        place(address)
    assert "mar" not in str(told.value)


def test_an_address_is_joined_before_what_pyarrow_is_told_of_the_service() -> None:
    address = at("s3://bucket/results?region=eu-west-1")
    assert str(address / "sweep") == "s3://bucket/results/sweep?region=eu-west-1"
    assert place(Path("s3://bucket/results")) == Address("s3", "bucket/results")
    assert place("file:///data/results") == Path("/data/results")
    assert [str(one) for one in (address / "sweep").parents][:1] == [str(address)]


@pytest.mark.parametrize(
    ("key", "why"), [("none.json", "Cannot open credentials file"), ("bad.json", "Unsupported")]
)
def test_credentials_of_google_that_cannot_be_used_are_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, why: str
) -> None:
    (tmp_path / "bad.json").write_text("{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / key))
    root = f"gs://{key.partition('.')[0]}-bucket/results/sweep"
    for act in (
        lambda: check_place(root),
        lambda: Store(root).read_sweep(),
        lambda: list(standings(at(root))),
    ):
        with pytest.raises(
            StoreError, match=rf"no credentials of Google Cloud .*{why}.*GOOGLE_APPLICATION_CRED"
        ) as told:
            act()
        assert "error_info" not in str(told.value)
        assert "\n" not in str(told.value)


def test_what_is_not_there_is_said(any_bucket: str) -> None:
    scheme = at(any_bucket).scheme
    with pytest.raises(StoreError, match="there is no such bucket"):
        check_place(f"{scheme}://no-such-bucket/results/sweep")
    with pytest.raises(StoreError, match="does not exist; give a sweep's folder"):
        read(f"{any_bucket}/nothing")
    with pytest.raises(StoreError, match=r"Unexpected query parameter in \w+ URI: 'colour'"):
        Store(f"{any_bucket}/x?colour=red")
