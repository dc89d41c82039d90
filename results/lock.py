"""One driver a sweep: a lock file that names its holder, and can tell a dead one from a living one.

The lock appears with its content in one step (a link, which like O_EXCL fails if the name is taken), so
it is never seen half written. A lock left by a process that is gone is taken over while its file is
locked with `flock`, so that of two drivers that find it only one gets it. Filesystems without links and
locks (s3://, gs://) have none: there the user sees to it.
"""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from results.errors import StoreError, cannot_write
from results.sweep_folder import LOCK

_HOLDER = ("pid", "host", "since", "process_started")


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who holds a sweep. `alive` is None where that cannot be known from here: it runs on another host."""

    pid: int
    host: str
    since: str  # ISO 8601, UTC
    alive: bool | None


def driver(store_root: str | os.PathLike[str]) -> Driver | None:
    """The driver that the lock of a sweep names, alive or not; None if there is no lock that names one."""
    try:
        holder = dict(json.loads((Path(store_root) / LOCK).read_text()))
        pid, host, since, started = (holder[key] for key in _HOLDER)
        pid = int(pid)
        alive = process_started(pid) == started if host == socket.gethostname() else None
        return Driver(pid=int(pid), host=str(host), since=str(since), alive=alive)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_if_driven(store_root: str | os.PathLike[str]) -> None:
    """StoreError where entering a SweepLock would be refused now; takes nothing and writes nothing."""
    path = Path(store_root).absolute() / LOCK
    try:
        text = path.read_text(errors="replace")
    except OSError:  # there is none, or the folder is of no use, which others say better
        return
    _refuse_or_explain(text, path)


class SweepLock:
    """Context manager that holds the sweep in `store_root`; `note` says what was taken over, if anything.

    Entering gives the note (None: the lock was free). StoreError names the first driver if it lives, or
    if that cannot be known from here because it runs on another host.
    """

    def __init__(self, store_root: str | os.PathLike[str]) -> None:
        self.note: str | None = None
        root = os.fspath(store_root)
        self._path = None if "://" in root else Path(root).absolute() / LOCK
        self._mine = ""
        self._made: list[Path] = []  # folders that were not there, the innermost first

    def __enter__(self) -> str | None:
        if self._path is None:
            return None
        self._mine = json.dumps(_identity())
        temporary = self._path.with_name(f"{LOCK}.{os.getpid()}.{id(self)}")
        above = (self._path.parent, *self._path.parent.parents)
        try:
            self._made = [folder for folder in above if not folder.exists()]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(self._mine)
            while not self._try(self._path, temporary):
                pass
        except OSError as error:
            raise cannot_write(str(self._path), error) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            if not self._path.exists():
                self._remove_empty()
        return self.note

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is not None and self._path.exists() and self._path.read_text() == self._mine:
            self._path.unlink()
            self._remove_empty()

    def _remove_empty(self) -> None:
        """Leave no folder behind that was made for the lock alone: nothing was measured."""
        with contextlib.suppress(OSError):  # of the first that holds something, and those above it do then
            for folder in self._made:
                folder.rmdir()

    def _try(self, path: Path, temporary: Path) -> bool:
        """Take the lock or refuse; False if it changed hands meanwhile and must be looked at again."""
        try:
            os.link(temporary, path)
            return True
        except FileExistsError:
            pass
        try:
            with path.open(errors="replace") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                if not path.exists() or path.stat().st_ino != os.fstat(held.fileno()).st_ino:
                    return False
                self.note = _refuse_or_explain(held.read(), path)
                temporary.replace(path)
                return True
        except FileNotFoundError:
            return False


def _refuse_or_explain(text: str, path: Path) -> str:
    """Explain why the holder is gone; StoreError if it is not."""
    try:
        holder = dict(json.loads(text))
        pid, host, since, started = (holder[key] for key in _HOLDER)
        pid = int(pid)
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"{path} names no driver; delete it if no other driver runs") from None
    who = f"process {pid} on {host} (since {since})"
    if host != socket.gethostname():
        raise StoreError(f"{path.parent} is driven by {who}; if that has ended, delete {path}")
    if process_started(pid) == started:
        raise StoreError(f"{path.parent} is driven by {who}; wait for it or end it first")
    return f"took over the lock of {who}, which has ended"


def _identity() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "pid": pid,
        "host": socket.gethostname(),
        "process_started": process_started(pid),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def process_started(pid: int) -> str | None:
    """Tell when a process of this host started, as a text to compare; None if it is gone (or a zombie)."""
    if not Path("/proc/self/stat").exists():
        found = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return found.stdout.strip() or None
    try:
        # The name in parentheses may hold spaces; state is field 3, the start in ticks since boot field 22.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None if fields[0] in "ZX" else f"{boot} {fields[19]}"
