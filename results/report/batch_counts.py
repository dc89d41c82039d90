"""How large the batches of a cell were and what released them, over its repeats."""

from collections import Counter

from results.findings import CellSummary

TRIGGERS: dict[str, str] = {
    "size": "the batch was full",
    "age": "the oldest request had waited long enough",
    "memory": "one more would not have fitted in memory",
    "flush": "the workload had ended",
    "join": "the engine takes requests at once",
}


def sizes_of(cell: CellSummary | None) -> Counter[int]:
    """Give how many batches or steps had each size, over the repeats, by size."""
    sizes: Counter[int] = Counter()
    for trial in cell.trials if cell else ():
        sizes.update({int(size): count for size, count in trial.batch_sizes.items()})
    return Counter(dict(sorted(sizes.items())))


def triggers_of(cell: CellSummary | None) -> Counter[str]:
    """Give how many batches each trigger released, over the repeats."""
    triggers: Counter[str] = Counter()
    for trial in cell.trials if cell else ():
        triggers.update(trial.triggers)
    return triggers


def shares_of(counts: Counter[str]) -> dict[str, float]:
    """Give each trigger's share; nothing where no batch has one."""
    total = counts.total()
    return {name: count / total for name, count in counts.items() if count} if total else {}


def mean_of(cell: CellSummary | None) -> float | None:
    """Give the mean size of a batch or step, as in every figure the mean over repeats; None without any."""
    return cell.mean("batch_size_mean") if cell else None
