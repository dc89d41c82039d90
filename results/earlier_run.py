"""An earlier run of a sweep is never deleted: it is kept beside the new one, with the time in its name."""

import os
from datetime import UTC, datetime
from pathlib import Path

from results.lock import SweepLock


def move_aside(store_root: str | os.PathLike[str]) -> None:
    """Rename the folder, if there is one. StoreError if somebody drives it."""
    root = Path(store_root)
    if root.exists():
        with SweepLock(root):
            pass  # a living driver is not moved from under
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        os.rename(root, root.with_name(f"{root.name}-until-{stamp}"))
