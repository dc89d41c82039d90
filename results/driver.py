"""Who drives a sweep: what a lock says of its holder, and whether that process lives."""

import json
import os
import socket
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from results.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who holds a sweep. `alive` is None where that cannot be known from here: it runs on another host."""

    pid: int
    host: str
    since: str  # ISO 8601, UTC
    alive: bool | None

    @classmethod
    def of(cls, text: str) -> Self | None:
        """What a lock names; None if it names no driver."""
        try:
            holder = dict(json.loads(text))
            pid, host, since, started = (holder[key] for key in ("pid", "host", "since", "process_started"))
            here = (host, holder.get("machine")) == (socket.gethostname(), _machine())
            alive = process_started(int(pid)) == started if here else None
            return cls(pid=int(pid), host=str(host), since=str(since), alive=alive)
        except (ValueError, KeyError, TypeError):
            return None

    @property
    def who(self) -> str:
        """In words."""
        return f"process {self.pid} on {self.host} (since {self.since})"


def this_driver() -> str:
    """What a lock of this process says."""
    pid = os.getpid()
    return json.dumps(
        {
            "pid": pid,
            "host": socket.gethostname(),
            "machine": _machine(),
            "process_started": process_started(pid),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    )


def refuse_or_explain(text: str, lock: object, sweep: object, *, word: str = "") -> str:
    """Explain why the holder that a lock's `text` names is gone; StoreError if it is not, or may not be.

    `word`: what else is known of one on another host.
    """
    holder = Driver.of(text)
    if holder is None:
        raise StoreError(f"{lock} names no driver; delete it if no other driver runs")
    if holder.alive is None:
        raise StoreError(f"{sweep} is driven by {holder.who}{word}; if that has ended, delete {lock}")
    if holder.alive:
        raise StoreError(f"{sweep} is driven by {holder.who}; wait for it or end it first")
    return f"took over the lock of {holder.who}, which has ended"


def _machine() -> str | None:
    """What tells this host from another of its name; None where the system has no such id."""
    try:
        return Path("/etc/machine-id").read_text().strip() or None
    except OSError:
        return None


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
