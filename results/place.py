"""Whether a sweep's folder, or a file, can be made or written, as far as that is seen without writing anything."""

import errno
import os
from dataclasses import replace
from pathlib import Path

from results.address import Address, Place, place
from results.errors import StoreError, cannot_write
from results.sweep_folder import LOCK


def check_place(store_root: str | os.PathLike[str]) -> None:
    """StoreError, in the words of a sweep that could not begin there."""
    root = place(store_root)
    if isinstance(root, Address):
        if not replace(root, path=root.path.partition("/")[0]).exists():
            raise StoreError(f"{root} cannot be written: there is no such bucket; give one that is there")
        return
    lock = root.absolute() / LOCK
    above = next(folder for folder in lock.parents if folder.exists())
    if not above.is_dir():
        raise cannot_write(str(lock), NotADirectoryError(errno.ENOTDIR, ""))
    _must_take_files(above, str(lock))


def check_writable(path: Place) -> None:
    """StoreError where a file cannot be made, with the folders that it is in; of a bucket only who writes knows."""
    if isinstance(path, Address):
        return
    above = next(folder for folder in path.absolute().parents if os.path.exists(folder))
    if not above.is_dir():
        raise cannot_write(str(path), NotADirectoryError(errno.ENOTDIR, ""))
    _must_take_files(above, str(path))


def _must_take_files(folder: Path, named: str) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        raise cannot_write(named, OSError(errno.EROFS if read_only else errno.EACCES, ""))
