"""An earlier run of a sweep is never deleted: it is kept beside the new one, with the time in its name."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from results.lock import SweepLock

_ASIDE = re.compile(r"-until-\d{8}T\d{6}Z")


def is_aside(folder: str, own_name: str) -> bool:
    """Whether a folder of this name is an earlier run of the sweep, kept beside a new one."""
    return folder.startswith(own_name) and _ASIDE.fullmatch(folder, len(own_name)) is not None


def move_aside(store_root: str | os.PathLike[str]) -> None:
    """Rename the folder, if there is one. StoreError if somebody drives it."""
    root = Path(store_root)
    if root.exists():
        with SweepLock(root):
            pass  # a living driver is not moved from under
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        os.rename(root, root.with_name(f"{root.name}-until-{stamp}"))
