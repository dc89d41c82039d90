"""Goodput: how much of what was offered was served within a service level objective (SLO).

    share        requests that met it ÷ requests offered
    requests/s   share × rate at which they were offered
    tokens/s     output tokens of those that met it ÷ tokens of … × the same: Σ tokens ÷ offered × rate

over the requests planned in the steady window, offered at (N − 1) ÷ (last − first planned arrival). A request
meets an SLO if it finished and each of its limits holds: TTFT, TPOT, ITL (the p99 of its own gaps), E2E. An
answer of one token has neither TPOT nor gaps and is judged on the others. What failed, was rejected or was cut
off is offered and has not met it. A billionth beyond a limit is within it: differences of stamps are no more exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from results.errors import StoreError
from results.metrics import arrival_rates, column
from results.report import numbers

LIMITS: Mapping[str, tuple[str, str]] = {  # key → metric of a request, name
    "ttft_ms": ("ttft_s", "TTFT"),
    "tpot_ms": ("tpot_s", "TPOT"),
    "itl_ms": ("itl_p99_s", "ITL p99"),
    "e2e_ms": ("e2e_s", "E2E"),
}
OF_TOKENS = frozenset({"tpot_ms", "itl_ms"})  # of answers of two tokens and more
MEASURES = ("goodput_share", "goodput_requests_per_s", "goodput_tokens_per_s")
_ROUNDING = 1e-9  # 1 ns in a second

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """Limits that a request must keep, all of them, in milliseconds; None: no such limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    itl_ms: float | None = None
    e2e_ms: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """Those that there are, by key."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def key(self) -> str:
        """As `parse` reads it: ttft_ms=500,e2e_ms=2000."""
        return ",".join(f"{name}={value:g}" for name, value in self.limits.items())

    @property
    def text(self) -> str:
        """As a person reads it: TTFT ≤ 500 ms, E2E ≤ 2 s."""
        return ", ".join(f"{LIMITS[name][1]} ≤ {numbers.limit(value)}" for name, value in self.limits.items())

    def of(self, measure: str) -> str:
        """The name of one of MEASURES for this SLO among a trial's metrics."""
        return f"{measure}@{self.key}"


def make(limits: Mapping[str, Any]) -> Slo:
    """The SLO with these limits. ValueError, in words, if it has none or one that cannot be."""
    limits = {name: value for name, value in limits.items() if value is not None}
    if unknown := [name for name in limits if name not in LIMITS]:
        raise ValueError(f"must have limits out of {', '.join(LIMITS)}, got {unknown[0]}")
    if not limits:
        raise ValueError(f"must have at least one limit out of {', '.join(LIMITS)}, got none")
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise ValueError(f"{name} must be milliseconds above 0, got {value!r}")
    return Slo(**limits)


def parse(text: str) -> Slo:
    """Read "ttft_ms=500,e2e_ms=2000". ValueError, in words, if it is not that."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        try:
            limits[name] = float(value)
        except ValueError:
            raise ValueError(f"must read like ttft_ms=500,e2e_ms=2000, got {text}") from None
        if not equals:
            raise ValueError(f"must read like ttft_ms=500,e2e_ms=2000, got {text}")
    return make(limits)


def slos_of(sweep: Mapping[str, Any]) -> tuple[Slo, ...]:
    """The SLOs of a sweep.json: one or a list under `slo` of its config. StoreError if they cannot be read."""
    config = sweep.get("config")
    given = config.get("slo") if isinstance(config, Mapping) else None
    entries = [given] if isinstance(given, Mapping) else given or []
    try:
        return tuple(dict.fromkeys(make(entry) for entry in entries))
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"sweep.json: config.slo cannot be read: {error}") from error


def highest_s(limit_ms: float) -> float:
    """The most seconds that keep a limit."""
    return limit_ms / 1000 * (1 + _ROUNDING)


def met(measured: pa.Table, slo: Slo) -> Mask | None:
    """Which rows (as `results.metrics.with_metrics` gives them) met the SLO; None if that is not known of one.

    It is not known of a finished answer of several tokens without the time of each, where ITL has a limit.
    """
    good: Mask = pc.equal(measured.column("status"), "finished").to_numpy(zero_copy_only=False)
    several = column(measured, "output_tokens") >= 2
    for name, limit_ms in slo.limits.items():
        values = column(measured, LIMITS[name][0])
        judged = several if name in OF_TOKENS else np.ones(len(values), dtype=bool)
        if (good & judged & np.isnan(values)).any():
            return None
        good = good & (~judged | (values <= highest_s(limit_ms)))
    return good


def goodput(measured: pa.Table, slos: Sequence[Slo]) -> dict[str, float | None]:
    """Give each of MEASURES for each SLO, by `Slo.of`, over these requests; None where it is not known.

    Rates are None where fewer than two arrivals give none.
    """
    found: dict[str, float | None] = {}
    rate = arrival_rates(measured)["offered_rate"]
    tokens = column(measured, "output_tokens")
    for slo in slos:
        good = met(measured, slo) if measured.num_rows else None
        share = None if good is None else float(good.mean())
        of_good = None if good is None else float(tokens[good].sum()) / len(good)
        found[slo.of("goodput_share")] = share
        for measure, value in (("goodput_requests_per_s", share), ("goodput_tokens_per_s", of_good)):
            found[slo.of(measure)] = None if value is None or rate is None else value * rate
    return found
