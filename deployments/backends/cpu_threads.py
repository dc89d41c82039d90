"""How many CPU threads an engine computes with: one rule, so that no engine has more of them than another."""

import os


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_threads(asked: int | None, have: int | None = None) -> int:
    """One less than the cores, and at least 1, unless asked otherwise; never more than there are.

    `have`: the cores of another machine; None is this one's.
    """
    have = have or cores()
    return min(asked or max(1, have - 1), have)
