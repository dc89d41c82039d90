"""From a sweep's folder to its calibration: its rows trial by trial, a fit for each backend, and what it ran on.

Of what is no step one part counts: the way of a request from its planned arrival to the replica, 2.3 ms
(huggingface) and 2.2 ms (vllm) in the default sweep on a quiet machine, 3 % of continuous batching's time to first
token, and 9 and 7 ms where other work goes on. From the last
token of a batch to the next step it is 1.9 and 3.4 ms, 0.2 and 0.3 % of a batch, and is left out.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from deployments.backends.registry import BACKENDS
from experiments.calibration.calibration import Calibrated, Calibration, MeasuredEngine
from experiments.calibration.fit import TooFewRows, fit
from experiments.calibration.observations import Observations, iteration_rows, lockstep_rows
from results.errors import StoreError
from results.metrics import column
from results.read import open_sweep, sweep_name
from results.records import Trial
from results.summary import what_counts
from results.sweep_document import CONFIGURED, check_sweep

ALIKE = ("dtype", "device", "threads")  # of the engines of one backend, or they have no common costs

Watch = Callable[[Sequence[Trial]], Iterator[Trial]]  # tells how far it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrating:
    """A calibration with the rows that it rests on, by backend, and what could not be used, in words."""

    calibration: Calibration
    observed: Mapping[str, Observations]
    problems: tuple[str, ...]


def calibrate(folder: str | os.PathLike[str], watch: Watch = iter) -> Calibrating:
    """Fit every backend that has rows. StoreError if the folder is no sweep, or none has enough."""
    store = open_sweep(folder)
    info = store.read_sweep() or {}
    check_sweep(info, folder, CONFIGURED)
    trials = [trial for trial in store.trials() if trial.incarnation_end == trial.incarnation]
    if not trials:
        raise StoreError(f"{folder} has no trial that is done: nothing to calibrate with")
    parts: dict[str, list[Observations]] = defaultdict(list)
    lags: dict[str, list[np.ndarray]] = defaultdict(list)
    for trial in watch(trials):
        _, requests, batches = what_counts(store, {trial.cell_id})
        parts[trial.backend].append(_rows(trial, requests, batches))
        lags[trial.backend].append(column(requests, "arrived_s") - column(requests, "planned_s"))
    found, observed, problems = {}, {}, list(store.problems)
    for backend in dict.fromkeys(trial.backend for trial in trials):
        together = Observations.together(parts[backend])
        try:
            fitted = fit(together)
        except TooFewRows as error:
            problems.append(f"{backend} is left out: {error}")
            continue
        observed[backend] = together
        found[backend] = Calibrated(
            fit=fitted,
            arrival_lag_s=_median(np.concatenate(lags[backend])),
            **_ran_on(folder, backend, [trial for trial in trials if trial.backend == backend]),
        )
    if not found:
        raise StoreError(f"{folder}: {'; '.join(problems)}")
    calibration = Calibration(
        sweep=sweep_name(store),
        config_hash=str(info.get("config_hash", "")),
        config=info["config"],
        rates=_rates(info, trials),
        git_commit=(info.get("provenance") or {}).get("git_commit"),
        backends=found,
    )
    return Calibrating(calibration=calibration, observed=observed, problems=tuple(problems))


def _rates(info: Mapping[str, Any], trials: Sequence[Trial]) -> tuple[float, ...]:
    """Those that the sweep was resolved to, also if not all of them were measured yet."""
    resolved = (info.get("resolved") or {}).get("rates") or {trial.rate for trial in trials}
    return tuple(sorted(map(float, resolved)))


def _rows(trial: Trial, requests: pa.Table, batches: pa.Table) -> Observations:
    args = BACKENDS[trial.backend].args_type.model_validate(dict(trial.engine))
    return (iteration_rows if args.joinable else lockstep_rows)(requests, batches)


def _median(lags_s: np.ndarray) -> float:
    known = lags_s[np.isfinite(lags_s)]
    return max(0.0, float(np.median(known))) if len(known) else 0.0


def _ran_on(folder: str | os.PathLike[str], backend: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """What the engines of one backend said. StoreError if they differ in what makes a step slow."""
    told = [trial.setup.get("engine") or {} for trial in trials]
    alike = {}
    for key in ALIKE:
        values = {engine.get(key) for engine in told}
        if len(values) > 1:
            text = " and ".join(sorted(map(str, values)))
            raise StoreError(f"{folder}: {backend} ran with {key} {text}: such engines have no common costs")
        (alike[key],) = values
    engines = {repr(sorted(trial.engine.items())): _engine(trial) for trial in trials}
    return {
        "model": trials[0].model,
        "dtype": alike["dtype"],
        "device": trials[0].device,
        "threads": alike["threads"],
        "versions": dict(told[0].get("versions") or {}),
        "engines": tuple(engines.values()),
    }


def _engine(trial: Trial) -> MeasuredEngine:
    told = trial.setup.get("engine") or {}
    limits = told.get("engine_args") or {}
    return MeasuredEngine(
        asked=dict(trial.engine),
        max_num_batched_tokens=limits.get("max_num_batched_tokens"),
        kv_blocks=told.get("kv_blocks"),
        kv_block_tokens=told.get("kv_block_tokens"),
    )
