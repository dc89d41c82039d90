"""A calibration on a terminal: a table of costs for each backend, and what to think of it."""

from collections.abc import Iterator

from experiments.calibration.calibration import Calibrated, Calibration
from experiments.calibration.fit import POOR_R_SQUARED, POOR_TOTAL
from experiments.calibration.observations import TERMS
from experiments.console import table
from results.report import numbers

NAMES = {  # what a cost is for
    "fixed_s": "a step",
    "per_sequence_s": "a sequence in it",
    "per_context_token_s": "a token of context",
    "per_prefill_token_s": "a prompt token",
    "per_prefill_token_sq_s": "a prompt token, squared",
}
SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))


def text(calibration: Calibration) -> Iterator[str]:
    """The lines."""
    for backend, known in calibration.backends.items():
        fit = known.fit
        yield f"{backend}: {ran_on(known)}; {fit.rows:,} rows of {numbers.count(fit.trials, 'trial')}"
        yield from (f"  {line}" for line in table(("cost of", "", "explains"), [*_costs(known)], right=1))
        yield (
            f"  R² {fit.r_squared:.2f}; error of a row {percent(fit.residual_p50)} (p50) and "
            f"{percent(fit.residual_p90)} (p90), {percent(fit.within_p50)} (p50) with each trial at its own speed"
        )
        yield (
            f"  a trial took {fit.fastest:.2f} to {fit.slowest:.2f} of the predicted time (p10, p90), all together "
            f"{fit.total:.2f}; {numbers.duration(known.arrival_lag_s)} from a planned arrival to the replica"
        )
        if fit.rows_left_out:
            yield f"  {numbers.count(fit.rows_left_out, 'row')} left out: cut off, or of unknown start"


def warnings(calibration: Calibration) -> Iterator[str]:
    """What speaks against using it: a line for each backend whose fit is poor."""
    for backend, known in calibration.backends.items():
        if known.fit.poor:
            yield (
                f"{backend}: a poor fit: R² {known.fit.r_squared:.2f} (at least {POOR_R_SQUARED} is expected), all "
                f"together took {known.fit.total:.2f} of the predicted time (within {POOR_TOTAL:.0%} of 1 is): what is "
                "predicted with it is rough"
            )


def ran_on(known: Calibrated) -> str:
    """Model, precision and place."""
    threads = numbers.count(known.threads, "thread") if known.threads is not None else None
    return ", ".join(part for part in (known.model, known.dtype, known.device, threads) if part)


def cost(seconds: float, error_s: float | None = None) -> str:
    """In a unit that fits, with its standard error in the same unit: 1.67 ± 0.62 ms."""
    if seconds == 0:
        return "0"
    scale, unit = next((one for one in SCALES if abs(seconds) >= one[0]), SCALES[-1])
    if error_s is None:
        return f"{numbers.number(seconds / scale)} {unit}"
    return f"{' ± '.join(numbers.alike(seconds / scale, error_s / scale))} {unit}"


def percent(share: float) -> str:
    """A share in whole per cent, with a decimal below 10."""
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def _costs(known: Calibrated) -> Iterator[tuple[str, str, str]]:
    fit = known.fit
    for term in TERMS:
        if term in fit.left_out:
            yield NAMES[term], "0", f"not fitted: {fit.left_out[term]}"
        else:
            value: float = getattr(fit.costs, term)
            yield NAMES[term], cost(value, fit.errors[term]), percent(fit.shares[term])
