"""Memory of this machine that a process may still take (Linux): MemAvailable, or less in a control group.

A container's limit is not in /proc/meminfo: a process that passes it is killed, whatever the machine has left.
"""

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")  # version 2


def available_bytes() -> int | None:
    """None where the system does not say."""
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    within = _left_in_group()
    return min([*found, *([] if within is None else [within])], default=None)


def _left_in_group() -> int | None:
    """What the limit of the control group leaves; None if there is none. Its page cache counts as used."""
    try:
        return max(0, int(_LIMIT.read_text()) - int(_USED.read_text()))
    except (OSError, ValueError):  # "max" is no number
        return None
