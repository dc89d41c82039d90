"""A file that a person asked for: whole or not at all, and in place of nothing that matters to anybody."""

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from results.address import Address, Place, opened
from results.attempt import move_into_place
from results.errors import StoreError, cannot_write
from results.place import check_writable
from results.sweep_folder import sweep_around


def check_output(
    path: Place,
    *,
    force: bool,
    ours: Callable[[Place], bool] | None = None,
    kind: str = "page of batchyard",
) -> None:
    """StoreError, before it is made, unless a file can and may be written there, even with `force` never among the results of a sweep.

    `ours`: whether a file that is there may go without being asked for; `kind`: what it is then.
    """
    if path.is_dir():
        raise StoreError(f"{path} is a folder; give a file in it")
    if (sweep := sweep_around(path)) is not None:
        raise StoreError(
            f"{path} would lie among the results of the sweep {sweep}; give a file outside of it"
        )
    check_writable(path)
    if not path.exists() and not os.path.lexists(path):
        return
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no file that could be replaced; give another")
    if not force and (ours is None or not ours(path)):
        other = "" if ours is None else f" and is no {kind}"
        raise StoreError(f"{path} is there already{other}; --force overwrites it")


@contextmanager
def new_file(path: Place) -> Iterator[BinaryIO]:
    """A file that takes its place when the block ends, or not at all. StoreError if it cannot be written."""
    if isinstance(path, Address):
        content = io.BytesIO()
        yield content
        move_into_place(*opened(path), content.getvalue())
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(path)
    except OSError as error:
        if error.filename == str(beside):  # nobody asked for that name
            error.filename = str(path)
        raise cannot_write(str(path), error) from error
    finally:
        with contextlib.suppress(OSError):  # its folder may not be there
            beside.unlink(missing_ok=True)
