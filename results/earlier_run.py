"""An earlier run of a sweep is never deleted: it is kept beside the new one, with the time in its name."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from results.address import Address, Place, opened, place
from results.errors import cannot_write
from results.lock import SweepLock
from results.sweep_folder import LOCK, SWEEP

AT_A_TIME = 16  # copies within an object store
_ASIDE = re.compile(r"-until-\d{8}T\d{6}Z")


def is_aside(folder: str, own_name: str) -> bool:
    """Whether a folder of this name is an earlier run of the sweep, kept beside a new one."""
    return folder.startswith(own_name) and _ASIDE.fullmatch(folder, len(own_name)) is not None


def move_aside(store_root: str | os.PathLike[str]) -> None:
    """Rename the folder, if there is one. StoreError if somebody drives it."""
    root = place(store_root)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = root.with_name(f"{root.name}-until-{stamp}")
    if isinstance(root, Address):
        if root.exists():
            with SweepLock(root):
                _copy_away(root, aside)
    elif root.exists():
        with SweepLock(root):
            pass  # a living driver is not moved from under
        os.rename(root, aside)


def _copy_away(root: Address, aside: Place) -> None:
    """Object by object, sweep.json last and from its old place first: what is half of a sweep is none.

    StoreError if that fails; the sweep is as it was then, or the same command ends it.
    """
    filesystem, source = opened(root)
    target = opened(aside)[1]
    files = [one.path.removeprefix(source) for one in root.listed(recursive=True) if one.is_file]
    rest = [name for name in files if name != f"/{SWEEP}" and not name.startswith(f"/{LOCK}")]

    def copy(name: str) -> None:
        filesystem.copy_file(f"{source}{name}", f"{target}{name}")

    try:
        with ThreadPoolExecutor(AT_A_TIME) as threads:
            list(threads.map(copy, rest))
        if f"/{SWEEP}" in files:
            copy(f"/{SWEEP}")
            filesystem.delete_file(f"{source}/{SWEEP}")
        filesystem.delete_dir(source)
    except OSError as error:
        raise cannot_write(str(aside), error) from error
