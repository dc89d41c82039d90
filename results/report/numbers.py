"""Numbers as a reader wants them: three figures at most, and the unit beside them."""

import math

NOTHING = "–"  # an unknown value, or one that does not exist


def number(value: float | None) -> str:
    """Give about three significant figures: 0.0123, 1.23, 12.3, 1,230; −1.23, with the minus of the sentences."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    rounded = round(value, digits)
    text = f"{rounded:,.{digits}f}".replace("-", "−")
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(seconds: float | None) -> str:
    """Give seconds, or milliseconds below one second."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds != 0 and abs(seconds) < 1:
        return f"{number(1000 * seconds)} ms"
    return f"{number(seconds)} s"


def limit(limit_ms: float) -> str:
    """Give a limit as it is, which a measured value is not: 500 ms, 2.0005 s, 1,000,000 s."""
    value, unit = (limit_ms, "ms") if limit_ms < 1000 else (limit_ms / 1000, "s")
    if not 1e-6 <= value < 1e15:
        return f"{value:.3g} {unit}"
    return f"{value:,.6f}".rstrip("0").rstrip(".") + f" {unit}"


def share(value: float | None) -> str:
    """Give a share in per cent."""
    return NOTHING if value is None else f"{number(100 * value)} %"


def ratio(value: float | None) -> str:
    """Give a ratio, 3.2×; below 1 with enough figures to tell 0.95 from 0.951."""
    return NOTHING if value is None else f"{number(value)}×"


def alike(value: float, *bounds: float) -> tuple[str, ...]:
    """Give a value and its bounds with as many decimals as the value has at three figures."""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 2
    return tuple(f"{one:,.{digits}f}" for one in (value, *bounds))


def rate(value: float) -> str:
    """Give an arrival rate, 2.5 req/s."""
    return f"{number(value)} req/s"


def size(value_bytes: int | None) -> str:
    """Give bytes in GiB, or MiB below one GiB."""
    if value_bytes is None:
        return NOTHING
    if value_bytes >= 2**30:
        return f"{number(value_bytes / 2**30)} GiB"
    return f"{number(value_bytes / 2**20)} MiB"


def count(value: int, noun: str) -> str:
    """Give a count with its noun: 1 trial, 2 trials."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
