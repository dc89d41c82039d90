"""An earlier run of a sweep is never deleted: it is kept beside the new one, with the time in its name.

A folder is renamed. Objects are copied and then deleted, and whatever that is killed at, the same command goes on with
it: `sweep.json` is copied last and deleted first, so that what is half of a sweep is none, on either side.
"""

import os
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from results.address import Address, opened, place
from results.errors import StoreError, cannot_write
from results.lock import SweepLock
from results.patience import PATIENCE_S, Patience
from results.store import Store
from results.sweep_folder import LOCK, SWEEP
from results.unanswered import interruptibly

AT_A_TIME = 16  # copies within an object store
TOLD_EVERY_S = 5.0
_ASIDE = re.compile(r"-until-\d{8}T\d{6}Z")
_CELLS = "/cells/"  # what is in it is never written again


def is_aside(folder: str, own_name: str) -> bool:
    """Whether a folder of this name is an earlier run of the sweep, kept beside a new one."""
    return folder.startswith(own_name) and _ASIDE.fullmatch(folder, len(own_name)) is not None


def refuse_remains(store: Store) -> None:
    """StoreError where a sweep would begin among rows of another: they would count as its own."""
    if store.last_row_at() is not None:
        raise StoreError(
            f"{store.root} holds rows but no {SWEEP}, as an interrupted --fresh leaves them: --fresh moves them aside"
        )


def move_aside(store_root: str | os.PathLike[str], say: Callable[[str], None]) -> None:
    """Rename the folder, if there is one. StoreError if somebody drives it.

    `say` is told how far that is, where objects are copied.
    """
    root = place(store_root)
    if not root.exists():
        return
    with SweepLock(root, say):  # a living driver is not moved from under
        if isinstance(root, Address):
            interruptibly(lambda: _copy_away(root, say))
    if not isinstance(root, Address):
        os.rename(root, root.with_name(_new_name(root.name)))


def _copy_away(root: Address, say: Callable[[str], None]) -> None:
    """Object by object. StoreError if that fails; the sweep is as it was then, or the same command ends it."""
    found = {name: size for name, size in _sizes(root).items() if not name.startswith(f"/{LOCK}")}
    aside, there = _where(root, found)
    filesystem, source = opened(root)
    target = opened(aside)[1]
    patience = Patience(wait_s=PATIENCE_S, remote=True)

    def copy(name: str) -> None:
        patience.ask(lambda: filesystem.copy_file(f"{source}{name}", f"{target}{name}"))

    sweep = f"/{SWEEP}"
    rest = [name for name in found if name != sweep and not (name.startswith(_CELLS) and name in there)]
    try:
        with ThreadPoolExecutor(AT_A_TIME) as threads:
            _told(threads.map(copy, rest), len(rest), say)
        if sweep in found:
            copy(sweep)
            filesystem.delete_file(f"{source}{sweep}")
        for folder in (f"{source}/cells", source):  # the lock last, which keeps others from beginning here
            if folder == source or any(name.startswith(_CELLS) for name in found):
                filesystem.delete_dir(folder)
    except OSError as error:
        raise cannot_write(str(aside), error) from error


def _where(root: Address, found: dict[str, int]) -> tuple[Address, dict[str, int]]:
    """Where a run goes, and what is there of it already: its copy was not ended, or its deletion was not."""
    earlier = [one for one in root.parent.iterdir() if is_aside(one.name, root.name)]
    for newest in sorted(earlier, key=str)[-1:]:
        there = _sizes(newest)
        ended = f"/{SWEEP}" in found and f"/{SWEEP}" in there
        same = all(there.get(name, size) == size for name, size in found.items() if name.startswith(_CELLS))
        if not ended and same:
            return newest, there
    return root.parent / _new_name(root.name), {}


def _sizes(folder: Address) -> dict[str, int]:
    """Of each object, by its name below the folder."""
    base = opened(folder)[1]
    return {one.path.removeprefix(base): one.size for one in folder.listed(recursive=True) if one.is_file}


def _told(copies: Iterable[None], count: int, say: Callable[[str], None]) -> None:
    next_s = time.monotonic() + TOLD_EVERY_S
    for done, _ in enumerate(copies, start=1):
        if time.monotonic() >= next_s and done < count:
            say(f"moving the earlier run aside: {done:,} of {count:,} objects")
            next_s = time.monotonic() + TOLD_EVERY_S


def _new_name(name: str) -> str:
    return f"{name}-until-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
