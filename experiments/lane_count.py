"""How many lanes a sweep has on this machine: as many as were asked for, or one for each of its GPUs.

Each lane that computes on the CPU has its threads for itself, and one core is left to the client; else trials
would be measured in each other's way. Lanes of the simulated engine, which sleeps, need only memory.
"""

from deployments.backends.available_memory import available_bytes
from deployments.backends.cpu_threads import cores, cpu_threads
from experiments.config import SweepConfig
from experiments.errors import ConfigError

SLEEPING_LANE_BYTES = 400_000_000  # 0.3 GB were measured: a replica and the process of a trial


def lane_count(config: SweepConfig, asked: int, gpus: int) -> int:
    """Lanes for a config whose models may have so many GPUs. ConfigError if more are `asked` for than there can be.

    `asked`: 0 is one for each GPU, or one.
    """
    computing = {setting.backend: setting for setting in config.settings if setting.model is not None}
    if not asked:
        return max(1, gpus) if computing else 1
    if not computing:
        most, why = _sleeping()
    elif gpus:
        most, why = gpus, "one for each GPU that may be used"
    else:
        threads = max(cpu_threads(setting.engine.get("threads")) for setting in computing.values())
        most, why = _on_cpu(threads)
    if asked > most:
        raise ConfigError(f"--lanes must be at most {most} here ({why}), got {asked}")
    return asked


def _sleeping() -> tuple[int, str]:
    free = available_bytes() or 0
    each = f"each takes about {SLEEPING_LANE_BYTES / 1e9:g} GB of memory, and {free / 1e9:.1f} GB are free"
    return max(1, free // SLEEPING_LANE_BYTES), each


def _on_cpu(threads: int) -> tuple[int, str]:
    """One lane may have every core; of several each needs its own, and the client one."""
    most = max(1, (cores() - 1) // threads)
    each = f"{threads} thread{'s' if threads > 1 else ''} each, {cores()} cores, one of them for the client"
    return most, each if threads == 1 else f"{each}; fewer `threads` under backends make room for more"
