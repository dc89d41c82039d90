"""One driver a sweep: a living one is named, a dead one's lock is taken over."""

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from results.driver import process_started
from results.errors import StoreError
from results.lock import SweepLock


def leave(root: Path, **changed: object) -> None:
    """Leave a lock as a driver would that did not clean up."""
    with SweepLock(root):
        text = (root / "driver.lock").read_text()
    (root / "driver.lock").write_text(json.dumps({**json.loads(text), **changed}))


def test_the_lock_is_free_before_and_after(tmp_path: Path) -> None:
    for _ in range(2):
        with SweepLock(tmp_path / "sweep") as note:
            assert note is None
        assert list(tmp_path.iterdir()) == [], "nothing was measured: no folder is left behind"


def test_a_second_driver_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    with SweepLock(tmp_path):
        expected = rf"process {os.getpid()} on {socket.gethostname()} \(since \d{{4}}-"
        with pytest.raises(StoreError, match=expected), SweepLock(tmp_path):
            pass
        assert (tmp_path / "driver.lock").exists()


def test_where_a_filesystem_has_no_links_there_is_one_driver_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    leave(tmp_path, process_started="another boot 1")
    for taken_over in (True, False):
        with SweepLock(tmp_path) as note:
            assert (note is not None) == taken_over
            with pytest.raises(StoreError, match=str(os.getpid())), SweepLock(tmp_path):
                pass
        assert list(tmp_path.iterdir()) == []


def test_a_link_that_is_made_twice_as_nfs_does_is_no_other_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def answer_lost(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", answer_lost)
    with SweepLock(tmp_path) as note:
        assert note is None
        with pytest.raises(StoreError, match=str(os.getpid())), SweepLock(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from results.lock import SweepLock; SweepLock(sys.argv[1]).__enter__(); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    checkout = Path(__file__).parents[2]
    killed = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=checkout)
    killed.wait()
    assert (tmp_path / "driver.lock").exists()
    with SweepLock(tmp_path) as note:
        assert note is not None
        assert f"process {killed.pid} on" in note
        with pytest.raises(StoreError, match=str(os.getpid())), SweepLock(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_of_many_that_find_a_dead_lock_one_gets_it(tmp_path: Path) -> None:
    def enter(lock: SweepLock) -> bool:
        together.wait()
        try:
            lock.__enter__()
        except StoreError:
            return False
        return True

    together = threading.Barrier(8)
    leave(tmp_path, process_started="another boot 1")
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(enter, [SweepLock(tmp_path) for _ in range(8)]))
    assert got.count(True) == 1


def test_a_pid_used_again_by_another_process_is_not_the_driver(tmp_path: Path) -> None:
    leave(tmp_path, process_started="another boot 1")
    with SweepLock(tmp_path) as note:
        assert note is not None
        assert "has ended" in note


@pytest.mark.parametrize("elsewhere", [{"host": "elsewhere"}, {"machine": "another of this name"}])
def test_a_lock_from_another_host_is_not_judged_from_here(
    tmp_path: Path, elsewhere: dict[str, object]
) -> None:
    leave(tmp_path, **elsewhere, process_started="gone")
    with pytest.raises(StoreError, match="if that has ended, delete"), SweepLock(tmp_path):
        pass


def test_an_unreadable_lock_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "driver.lock").write_text("")
    with pytest.raises(StoreError, match="delete it if no other driver runs"), SweepLock(tmp_path):
        pass


def test_a_lock_that_another_driver_took_over_is_left_alone(tmp_path: Path) -> None:
    with SweepLock(tmp_path):
        (tmp_path / "driver.lock").write_text("another driver's")
    assert (tmp_path / "driver.lock").read_text() == "another driver's"


def test_a_process_that_ended_has_no_start() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert process_started(ended.pid) is None
    assert process_started(os.getpid()) == process_started(os.getpid()) is not None


def test_only_empty_folders_that_the_lock_made_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with SweepLock(tmp_path / "results" / "empty"):
        pass
    with SweepLock(tmp_path / "results" / "sweep"):
        (tmp_path / "results" / "sweep" / "sweep.json").touch()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["sweep"]
    (tmp_path / "mine").mkdir()
    with SweepLock(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").is_dir()
