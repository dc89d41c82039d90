"""One driver a sweep: a lock file that names its holder, and can tell a dead one from a living one.

The lock appears with its content in one step (a link, which like O_EXCL fails if the name is taken), so
it is never seen half written; where there are no links (FAT, some network drives) it is made with O_EXCL, and who sees
it half written is refused. A lock left by a process that is gone is taken over while its file is
locked with `flock`, so that of two drivers that find it only one gets it. Object stores have neither:
there results/object_lock.py holds it.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from results.address import Address, place
from results.driver import Driver, refuse_or_explain, this_driver
from results.errors import cannot_write
from results.object_lock import ObjectLock
from results.sweep_folder import LOCK

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def driver(store_root: str | os.PathLike[str]) -> Driver | None:
    """The driver that the lock of a sweep names, alive or not; None if there is no lock that names one."""
    root = place(store_root)
    if isinstance(root, Address):
        return ObjectLock(root).driver()
    try:
        return Driver.of((root / LOCK).read_text())
    except (OSError, ValueError):
        return None


def refuse_if_driven(store_root: str | os.PathLike[str]) -> None:
    """StoreError where entering a SweepLock would be refused now; takes nothing and writes nothing."""
    root = place(store_root)
    if isinstance(root, Address):
        ObjectLock(root).refuse()
        return
    path = root.absolute() / LOCK
    try:
        text = path.read_text(errors="replace")
    except OSError:  # there is none, or the folder is of no use, which others say better
        return
    refuse_or_explain(text, path, path.parent)


class SweepLock:
    """Context manager that holds the sweep in `store_root`; `note` says what was taken over, if anything.

    `say` is told what leaving it waits for.

    Entering gives the note (None: the lock was free). StoreError names the first driver if it lives, or
    if that cannot be known from here because it runs on another host.
    """

    def __init__(self, store_root: str | os.PathLike[str], say: Callable[[str], None] | None = None) -> None:
        self.note: str | None = None
        self._say = say
        root = place(store_root)
        self._object = ObjectLock(root) if isinstance(root, Address) else None
        self._path = Path(root).absolute() / LOCK
        self._mine = ""
        self._made: list[Path] = []  # folders that were not there, the innermost first

    def __enter__(self) -> str | None:
        if self._object is not None:
            self.note = self._object.take()
            return self.note
        self._mine = this_driver()
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
        if self._object is not None:
            self._object.release(self._say)
        elif self._path.exists() and self._path.read_text() == self._mine:
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
            _put(temporary, path)
            return True
        except FileExistsError:
            if path.exists() and path.samefile(temporary):  # NFS links again where an answer was lost
                return True
        try:
            with path.open("r+", errors="replace") as held:  # NFS locks no file that is only read
                fcntl.flock(held, fcntl.LOCK_EX)
                if not path.exists() or path.stat().st_ino != os.fstat(held.fileno()).st_ino:
                    return False
                self.note = refuse_or_explain(held.read(), path, path.parent)
                temporary.replace(path)
                return True
        except FileNotFoundError:
            return False


def _put(temporary: Path, path: Path) -> None:
    """FileExistsError if there is one."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with path.open("x") as file:
            file.write(temporary.read_text())
