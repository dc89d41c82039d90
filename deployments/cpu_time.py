"""CPU seconds of this process, and of those below it, without looking through all processes each time."""

import psutil


class CpuTime:
    """Counts from when it is made. Processes that begin below this one later are not in it."""

    def __init__(self, *, descendants: bool = True) -> None:
        me = psutil.Process()
        watched = [me, *(me.children(recursive=True) if descendants else [])]
        self._used_s = {process: _used_s(process) or 0.0 for process in watched}
        self._before_s = sum(self._used_s.values())

    def used_s(self) -> float:
        """User and system time; that of a process which has ended stays as it was when last asked for."""
        for process, known_s in self._used_s.items():
            now_s = _used_s(process)
            self._used_s[process] = known_s if now_s is None else now_s
        return sum(self._used_s.values()) - self._before_s


def _used_s(process: psutil.Process) -> float | None:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)
