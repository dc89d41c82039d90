"""Pack a sweep's folder where Ray's job API can read it, and take it away again: run on the head, as a job.

It runs there alone, with the standard library. The pack lies beside the job's log, since Ray serves what is in that folder,
until the job is told to end or a while has passed. A sweep may go on meanwhile: its rows are in files that never change, and
what is there when it is packed is whole.
"""

import hashlib
import json
import os
import signal
import sys
import tarfile
from pathlib import Path

KEPT_S = 3600
_ENDING = {signal.SIGTERM, signal.SIGINT}


def packed(folder: Path, pack: Path) -> None:
    """Write the folder as a tar; without the lock of its driver, and what is gone by the time that it is read."""
    with tarfile.open(pack, "w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith(("driver.lock", ".")):
                try:
                    tar.add(path, arcname=str(path.relative_to(folder)))
                except FileNotFoundError:
                    continue


def main() -> None:
    """`packing.py FOLDER`: says in one line of JSON what it made, and waits."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    folder, log = Path(sys.argv[1]).expanduser(), Path(os.readlink("/proc/self/fd/1"))
    if not folder.is_dir():
        sys.exit(f"no results in {folder} yet")
    pack = log.with_suffix(".tar")
    try:
        packed(folder, pack)
        with pack.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        print(json.dumps({"pack": pack.name, "bytes": pack.stat().st_size, "sha256": digest}), flush=True)
        signal.sigtimedwait(_ENDING, KEPT_S)
    finally:
        pack.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
