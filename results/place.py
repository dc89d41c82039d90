"""Whether a sweep's folder can be made or written, as far as that is seen without writing anything."""

import errno
import os
from dataclasses import replace

from results.address import Address, place
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
    if not os.access(above, os.W_OK | os.X_OK):
        raise cannot_write(str(lock), PermissionError(errno.EACCES, ""))
