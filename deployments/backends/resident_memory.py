"""Peak resident memory of this process (Linux): what stands for device memory when the device is a CPU.

The kernel keeps the high-water mark VmHWM and resets it when "5" is written to clear_refs (proc(5)).
"""

from pathlib import Path

_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak() -> bool:
    """Set the mark to the present size; False where the system has none or forbids it."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """The mark, or None where the system has none."""
    return _read("VmHWM:")


def resident_bytes() -> int | None:
    """The size now, or None where the system does not say."""
    return _read("VmRSS:")


def _read(key: str) -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)
