"""The costs of a step that explain measured durations best: robust, non-negative, and honest about its doubt.

The residual is e = ln(predicted ÷ measured): what slows a machine down slows short and long rows alike, so
errors are ratios, and a fit of seconds would look at the long rows alone. Its loss is soft L1 (scipy's:
quadratic up to the typical residual, linear beyond), so a stall does not bend a line. Costs are at least 0.

A machine's speed drifts from trial to trial, and a trial tends to hold batches of one size: a plain fit would
take the drift for the cost of a sequence. So a trial's rows share a random effect (Fuller and Battese,
1974, "Estimation of linear models with crossed-error structure"): with σ the spread within trials and τ that
between them, e is replaced by e − φ·(its mean over the trial), φ = 1 − σ ÷ √(σ² + n·τ²). φ is 0 where trials do
not differ, and near 1 where they do: then the shape comes from within trials and the level from all alike. The
level is set apart, by the median rows of the trials: of it almost nothing is left in e − φ·(its mean), and the
loss would pay for a skew of e within trials, as stalls give, with 1 ÷ (1 − φ) times as much of it.

That finds the typical row, and a simulator adds rows up. So all costs are then multiplied by one level: measured
time ÷ predicted time with each trial at its own speed, a row that took more than three times the predicted
counting as three times: slow moments count, and one stall does not decide.

A cost that the rows cannot tell from the others stays 0: its column is a combination of theirs. So does the cost
of context or of attention within a prompt, which are small and bend what is extrapolated, if it is less than
twice its standard error. That error is the jackknife's over trials (over blocks of rows if there are few), as
rows of one trial are not independent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployments.virtual.step_model import Linear
from experiments.calibration.observations import TERMS, Array, Observations, Places

MOST_ROWS = 20_000  # of the fit; more would not change it
GROUPS = 20  # of the jackknife, at most
POOR_R_SQUARED = 0.5  # below it the costs explain less than half of how rows differ
POOR_TOTAL = 0.1  # the time of all rows beyond so much of the predicted is another machine, or another speed
FEW_TRIALS = 5  # below it its groups are blocks of rows
FEWEST_ROWS = 10
LEAST_SHARE = 1e-5  # of the mean row: a cost below it is none
ALONE = 1e-3  # of a column's length that the others must leave of it
TELLING = 2.0  # standard errors
IN_DOUBT = ("per_context_token_s", "per_prefill_token_sq_s")
LEAST_SPREADS = (0.1, 0.02, 5e-3)  # of residuals, by round: a fine scale from the start makes the loss jagged
MAD_TO_SD = 1.4826  # of a normal law
MOST_SLOW = 3.0  # times the predicted: as what a slower row counts in the level


class TooFewRows(ValueError):
    """There are not enough rows to fit anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Costs of one engine and how well they hold; residuals are predicted ÷ measured − 1, without sign."""

    costs: Linear
    errors: Mapping[str, float]  # standard error by cost; of those that are fitted
    left_out: Mapping[str, str]  # cost → why it is 0
    shares: Mapping[str, float]  # cost → its part of the predicted time
    rows: int
    rows_left_out: int
    trials: int
    r_squared: float
    residual_p50: float
    residual_p90: float
    within_p50: float  # the same with each trial at its own speed
    slowest: float  # p90 over trials of the trial's time ÷ the predicted
    fastest: float  # p10
    total: float  # measured ÷ predicted time of all rows

    @property
    def poor(self) -> bool:
        """Whether predictions should not be built on it: R² below 0.5, or all rows off by more than 10 %."""
        return self.r_squared < POOR_R_SQUARED or abs(self.total - 1) > POOR_TOTAL


def fit(observed: Observations) -> Fit:
    """Costs of the rows. TooFewRows, in words, if there are fewer than 10."""
    if len(observed) < FEWEST_ROWS:
        raise TooFewRows(f"at least {FEWEST_ROWS} rows are needed, got {len(observed)}")
    some = observed.some(_spread(len(observed)))
    left_out = _not_alone(some)
    while True:
        kept = [place for place, term in enumerate(TERMS) if term not in left_out]
        costs = _solve(some, kept)
        errors = _jackknife(some, kept, costs)
        doubtful = _doubtful(kept, costs, errors)
        if doubtful is None:
            return _described(observed, costs, {TERMS[one]: float(errors[one]) for one in kept}, left_out)
        left_out[TERMS[doubtful]] = (
            "none fits best"
            if costs[doubtful] <= 0
            else f"{1e6 * costs[doubtful]:.3g} ± {1e6 * errors[doubtful]:.2g} µs is not told from none"
        )


def _spread(count: int) -> Places:
    """Places evenly over all rows, all of them if there are not too many."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).astype(np.int64))


def _not_alone(observed: Observations) -> dict[str, str]:
    """Costs whose column is a combination of those before it, with the reason."""
    relative = observed.terms / observed.duration_s[:, None]
    left_out: dict[str, str] = {}
    kept: list[int] = []
    for place in (0, 1, 3, 2, 4):  # the plainest first
        column = relative[:, place]
        rest = column
        if kept:
            rest = column - relative[:, kept] @ np.linalg.lstsq(relative[:, kept], column, rcond=None)[0]
        if not column.any():
            left_out[TERMS[place]] = "there is nothing of it in the rows"
        elif np.linalg.norm(rest) <= ALONE * np.linalg.norm(column):
            others = ", ".join(TERMS[one] for one in kept)
            left_out[TERMS[place]] = f"it does not vary apart from {others}, which include it"
        else:
            kept.append(place)
    return left_out


def _solve(observed: Observations, kept: Sequence[int], start: Array | None = None) -> Array:
    """The costs, 0 for those that are not kept. `start`: costs that are near, for which one round will do."""
    from scipy.optimize import least_squares  # slow to import, and every trial process imports this module

    terms, logs = observed.terms[:, kept], np.log(observed.duration_s)
    unit = observed.duration_s.mean() / terms.mean(axis=0)  # each cost as a share of the mean row
    shares = terms * unit
    known = _linear(shares, observed.duration_s) if start is None else start[kept] / unit
    effects = _Effects.none(observed.trial)
    for least in LEAST_SPREADS if start is None else LEAST_SPREADS[-1:]:
        effects = effects.of(np.log(_positive(shares @ known)) - logs, least)
        solved = least_squares(
            lambda costs, e=effects: e.without(np.log(_positive(shares @ costs)) - logs),
            np.maximum(known, LEAST_SHARE),
            jac=lambda costs, e=effects: e.without(shares / _positive(shares @ costs)[:, None]),
            bounds=(0, np.inf),
            loss="soft_l1",
            f_scale=effects.within,
        )
        known = np.where(solved.x > LEAST_SHARE, solved.x, 0.0)  # the bound itself is never reached
        known = known * effects.typical(observed.duration_s / _positive(shares @ known))
    costs = np.zeros(len(TERMS))
    costs[kept] = known * unit * _level(observed, shares @ known)
    return costs


def _linear(shares: Array, duration_s: Array) -> Array:
    """Where to begin: non-negative least squares of relative errors."""
    from scipy.optimize import nnls  # as above

    solved: Array = nnls(shares / duration_s[:, None], np.ones(len(duration_s)))[0]
    return solved


def _level(observed: Observations, predicted_s: Array) -> float:
    """Measured ÷ predicted time, each trial at the speed of its median row."""
    speeds = _medians(observed.duration_s / _positive(predicted_s), observed.trial)
    own_s = predicted_s * speeds[observed.trial]
    slow = np.clip(observed.duration_s, own_s / MOST_SLOW, own_s * MOST_SLOW)
    return float(slow.sum() / own_s.sum())


@dataclass(frozen=True, slots=True)
class _Effects:
    """The random effect of a trial: how much of a trial's mean is taken from its rows."""

    trial: Places
    counts: Array
    within: float  # spread of e within trials, robust
    share: Array  # φ by trial

    @classmethod
    def none(cls, trial: Places) -> "_Effects":
        counts = np.bincount(trial).astype(np.float64)
        return cls(trial, counts, 1.0, np.zeros(len(counts)))

    def of(self, left: Array, least: float) -> "_Effects":
        """Estimated from residuals; their spread is taken to be `least` at least."""
        medians = _medians(left, self.trial)
        within = max(least, MAD_TO_SD * float(np.median(abs(left - medians[self.trial]))))
        held = self.counts > 0
        noise = np.pi / 2 * within**2 * float((1 / self.counts[held]).mean())  # of a median
        between = max(0.0, float(np.var(medians[held])) - noise)
        share = 1 - within / np.sqrt(within**2 + self.counts * between)
        return _Effects(self.trial, self.counts, within, share)

    def typical(self, ratios: Array) -> float:
        """That of the typical trial, of which each has that of its median row: their weighted geometric mean.

        The weights are those of generalized least squares, 1 ÷ (τ² + σ² ÷ n).
        """
        weights = self.counts * (1 - self.share) ** 2
        return float(np.exp(weights @ _medians(np.log(ratios), self.trial) / weights.sum()))

    def without(self, values: Array) -> Array:
        """Rows, or rows × columns, less φ times their mean over the trial."""
        flat = values.reshape(len(self.trial), -1)
        means = np.column_stack(
            [np.bincount(self.trial, one, len(self.counts)) / np.maximum(self.counts, 1) for one in flat.T]
        )
        left: Array = (flat - (self.share[:, None] * means)[self.trial]).reshape(values.shape)
        return left


def _jackknife(observed: Observations, kept: Sequence[int], costs: Array) -> Array:
    """Standard errors: how the costs change when a group of trials is left out (Quenouille, Tukey)."""
    trials = np.unique(observed.trial)
    if len(trials) >= FEW_TRIALS:
        group = np.searchsorted(trials, observed.trial) % min(GROUPS, len(trials))
    else:
        group = np.arange(len(observed)) * min(GROUPS, len(observed)) // len(observed)
    count = int(group.max()) + 1
    without = np.array([_solve(observed.some(group != one), kept, costs) for one in range(count)])
    errors: Array = np.sqrt((count - 1) / count * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    return errors


def _doubtful(kept: Sequence[int], costs: Array, errors: Array) -> int | None:
    """The one of the costs in doubt that is least told from 0; None if all are."""
    places = [place for place in map(TERMS.index, IN_DOUBT) if place in kept]
    weak = [place for place in places if costs[place] <= TELLING * errors[place]]
    return min(weak, key=lambda place: float(costs[place] / max(float(errors[place]), 1e-300)), default=None)


def _described(
    observed: Observations, costs: Array, errors: Mapping[str, float], left_out: Mapping[str, str]
) -> Fit:
    predicted_s = _positive(observed.terms @ costs)
    measured_s = observed.duration_s
    left = np.log(predicted_s / measured_s)
    speeds = _medians(left, observed.trial)
    p50, p90 = np.percentile(abs(np.expm1(left)), [50, 90])
    within = np.percentile(abs(np.expm1(left - speeds[observed.trial])), 50)
    held = np.unique(observed.trial)
    fastest, slowest = np.percentile(np.exp(-speeds[held]), [10, 90])
    spread = float(((measured_s - measured_s.mean()) ** 2).sum())
    parts = observed.terms.sum(axis=0) * costs
    return Fit(
        costs=Linear(**dict(zip(TERMS, costs.tolist(), strict=True))),
        errors=dict(errors),
        left_out=dict(left_out),
        shares=dict(zip(TERMS, (parts / parts.sum()).tolist(), strict=True)),
        rows=len(observed),
        rows_left_out=observed.left_out,
        trials=len(held),
        r_squared=1 - float(((measured_s - predicted_s) ** 2).sum()) / spread if spread > 0 else 1.0,
        residual_p50=float(p50),
        residual_p90=float(p90),
        within_p50=float(within),
        slowest=float(slowest),
        fastest=float(fastest),
        total=float(measured_s.sum() / predicted_s.sum()),
    )


def _medians(values: Array, groups: Places) -> Array:
    """The median of each group, 0 of an empty one."""
    medians = np.zeros(int(groups.max()) + 1)
    order = np.argsort(groups, kind="stable")
    held, first = np.unique(groups[order], return_index=True)
    for group, members in zip(held, np.split(values[order], first[1:]), strict=True):
        medians[group] = np.median(members)
    return medians


def _positive(values: Array) -> Array:
    floored: Array = np.maximum(values, 1e-12)
    return floored
