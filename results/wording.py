"""How a change, a rate and a count of repeats are put into words."""

from collections.abc import Iterable, Mapping, Sequence

from results.findings import CellSummary, Change
from results.report import numbers
from results.statistics import FEWEST_PAIRS

NO_MODEL = "none"  # the model and device of a backend that has none
_NO_INTERVAL = " (no interval)"


def place(cell: CellSummary) -> str:
    """Say "tiny, cpu, ", with nothing of what a simulated backend has not."""
    return "".join(f"{name}, " for name in (cell.model, cell.device) if name != NO_MODEL)


def effects(at: Mapping[float, Change | None], what: str, *, mixed: bool = False) -> list[str]:
    """Say "reduced p50 E2E latency by 72 % [70, 74] at λ = 1 req/s", one part per rate.

    Worded by sign; an interval that holds 1 shows no difference. Without an interval the sign alone words
    it (`repeats` says that there is none, and of `mixed` changes each that has none). A second part with the same verb only adds its figure.
    """
    parts: list[str] = []
    said = ""
    for rate, change in at.items():
        verb, figure = _effect(change, what, mixed)
        words = figure if verb == said else f"{verb} {figure}"
        parts.append(f"{words} at λ = {number(rate)} req/s".replace("  ", " ").strip())
        said = verb
    return parts


def _effect(change: Change | None, what: str, mixed: bool) -> tuple[str, str]:
    if change is None:
        return f"gave no {what} to compare", ""
    percent = 100 * (change.ratio - 1)
    if change.low is None and f"{abs(percent):.1f}" == "0.0":
        return f"showed no change in {what}", "(0.0 %)"
    verb = f"{'reduced' if percent < 0 else 'raised'} {what}"
    if change.low is None or change.high is None:
        return verb, f"by {_percent(abs(percent))} %{_NO_INTERVAL if mixed else ''}"
    low, high = 100 * (change.low - 1), 100 * (change.high - 1)
    if not change.shown:
        figures = f"({percent:+.1f} % [{low:+.1f}, {high:+.1f}])".replace("-", "−")
        return f"showed no difference in {what}", figures
    if percent < 0:
        low, high = -high, -low
    return verb, f"by {_percent(abs(percent))} % [{_percent(low)}, {_percent(high)}]"


def times(change: Change, *, mixed: bool = False) -> str:
    """Say "×4.2 [4.0, 4.4]", without the bracket where there is no interval, which of `mixed` changes is said."""
    text = f"×{factor(change.ratio)}"
    if change.low is None or change.high is None:
        return text + (_NO_INTERVAL if mixed else "")
    text += f" [{factor(change.low)}, {factor(change.high)}]"
    return text if change.shown else f"{text} (no difference shown)"


def is_mixed(changes: Iterable[Change]) -> bool:
    """Whether some have an interval and others none."""
    return len({change.low is None for change in changes}) > 1


def repeats(changes: Iterable[Change]) -> str:
    """Say how many repeats stand behind the changes, and that few give no interval."""
    counts = [change.pairs for change in changes]
    fewest, most = min(counts), max(counts)
    if fewest < FEWEST_PAIRS <= most:
        return f"{fewest} to {most} repeats, 95 % intervals where there are {FEWEST_PAIRS}"
    count = f"{fewest} to {most} repeats" if fewest < most else f"{fewest} repeats"
    count = "one repeat" if most == 1 else count
    return f"{count}, {'no interval' if most < FEWEST_PAIRS else '95 % intervals'}"


def rates(values: Sequence[float]) -> str:
    """Say "1, 5 and 30"."""
    texts = [number(value) for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def number(value: float) -> str:
    """Give three significant digits, never in powers of ten."""
    return numbers.number(value)


def _percent(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"


def factor(value: float) -> str:
    """Give a ratio with three significant digits and two decimals at most."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
