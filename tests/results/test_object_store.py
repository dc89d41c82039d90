"""Results in a bucket of a real S3 server: what is written is read, one driver a sweep, and no credentials."""

import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from results import object_lock
from results.address import Address, head, opened, place
from results.driver import this_driver
from results.earlier_run import move_aside
from results.errors import StoreError
from results.lock import SweepLock, driver, refuse_if_driven
from results.object_lock import ObjectLock
from results.place import check_place
from results.read import read
from results.standing import standing, standings
from results.store import Store
from results.sweep_folder import LOCK


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


def test_the_tables_are_those_of_a_local_store(bucket: str, tmp_path: Path, made_sweep: ModuleType) -> None:
    for root in (tmp_path / "made", f"{bucket}/results/made"):
        made_sweep.make_sweep(root, repeats=1, requests=4)
    local, remote = read(tmp_path / "made"), read(f"{bucket}/results/made")
    for name in ("requests", "batches", "samples", "trials", "failures", "partial"):
        assert getattr(remote, name).equals(getattr(local, name)), name
    assert remote.requests.num_rows > 0
    assert remote.problems == ()
    [there] = standings(at(f"{bucket}/results"))
    here = standing(tmp_path / "made")
    assert (there.name, there.state, there.done, there.planned) == (
        "made",
        "complete",
        here.done,
        here.planned,
    )
    assert there.last_row_at is not None
    sizes = {one.base_name: one.size for one in at(f"{bucket}/results/made").listed(recursive=True)}
    assert not [name for name in sizes if name.endswith(".tmp")]


def test_a_killed_attempt_is_passed_over_and_a_cut_part_is_noticed(
    bucket: str, made_sweep: ModuleType
) -> None:
    store = Store(f"{bucket}/sweep")
    assert (store.read_sweep(), store.done_cells(), store.last_row_at()) == (None, {}, None)
    store.begin_attempt("a")  # and killed
    attempt = Store(f"{bucket}/sweep").begin_attempt("a")
    assert attempt.number == 2
    row = made_sweep.request_row(cell_id="a", attempt=2, token_s=[1.0])
    attempt.write_requests([row])
    assert Store(f"{bucket}/sweep").done_cells() == {}
    attempt.finish(made_sweep.make_trial([row], attempt=2))
    assert Store(f"{bucket}/sweep").requests().num_rows == 1
    write(at(f"{bucket}/sweep/cells/a/attempt-2/requests-00000.parquet"), "cut")
    cut = Store(f"{bucket}/sweep")
    assert cut.done_cells() == {}
    assert "has 3" in cut.problems[0]


def test_an_earlier_run_is_kept_beside_the_new_one(bucket: str, made_sweep: ModuleType) -> None:
    root = f"{bucket}/results/made"
    made_sweep.make_sweep(root, repeats=1, requests=4)
    before = read(root).requests
    with SweepLock(root), pytest.raises(StoreError, match="is driven by process"):
        move_aside(root)
    move_aside(root)
    assert Store(root).read_sweep() is None
    [aside] = [one for one in at(f"{bucket}/results").iterdir() if "-until-" in one.name]
    assert read(aside).requests.drop(["sweep"]).equals(before.drop(["sweep"]))
    assert locks(aside) == []


def test_a_second_driver_is_refused_and_told_of_the_first(bucket: str) -> None:
    root = at(f"{bucket}/sweep")
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


def test_of_many_that_begin_at_once_at_most_one_holds_it(bucket: str) -> None:
    together, held = threading.Barrier(4), threading.Semaphore(0)
    most, now = 0, 0
    counting = threading.Lock()

    def drive(_: int) -> bool:
        nonlocal most, now
        together.wait()
        try:
            with SweepLock(f"{bucket}/sweep"):
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
    assert locks(at(f"{bucket}/sweep")) == []
    with SweepLock(f"{bucket}/sweep"):
        assert len(locks(at(f"{bucket}/sweep"))) == 1


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


def test_a_lock_is_written_again_until_it_is_given_back_or_deleted(bucket: str) -> None:
    root = at(f"{bucket}/sweep")
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


def test_what_is_not_there_is_said(bucket: str) -> None:
    with pytest.raises(StoreError, match="there is no such bucket"):
        check_place("s3://no-such-bucket/results/sweep")
    with pytest.raises(StoreError, match="does not exist; give a sweep's folder"):
        read(f"{bucket}/nothing")
    with pytest.raises(StoreError, match="Unexpected query parameter in S3 URI: 'colour'"):
        Store(f"{bucket}/x?colour=red")
