"""How far the numbers can be trusted: verdicts, failures, clocks, client lag and memory, trial by trial."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from results.conservation import PRECISION
from results.findings import Findings, TrialSummary, Verdict
from results.report import glossary, numbers
from results.report.panel import Mark
from results.report.series import Series, backend_name
from results.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One trial as text, with its verdicts."""

    cells: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """Attempts or requests that failed for one cause, with the first error in full."""

    what: str
    cause: str
    count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The section on trust."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    verdicts: tuple[tuple[str, int, str], ...]  # name, trials, what it means
    failures: tuple[FailureRow, ...]
    memory: tuple[tuple[str, str], ...]  # kind, what it means
    problems: tuple[str, ...]
    trace: tuple[str, ...]  # what became of a recorded trace
    laws: str
    drain: str


def trust(findings: Findings, store: Store, series: Sequence[Series] = ()) -> Trust:
    """Give the section; reads the store's request rows only for the causes of failed requests.

    `series`: those of these findings, for the page's filters.
    """
    keys = {trial.trial.cell_id: one.key for one in series for cell in one.cells for trial in cell.trials}
    counts = Counter(verdict.name for trial in findings.trials for verdict in trial.verdicts)
    kinds = list(dict.fromkeys(trial.trial.memory_kind for trial in findings.trials))
    return Trust(
        heading=_heading(findings.trials),
        columns=_COLUMNS,
        rows=tuple(_row(trial, keys.get(trial.trial.cell_id)) for trial in _in_order(findings)),
        verdicts=tuple((name, n, glossary.VERDICTS.get(name, "")) for name, n in counts.most_common()),
        failures=(*_attempts(findings), *_requests(findings, store)),
        memory=tuple((kind, glossary.MEMORY.get(kind, "")) for kind in kinds),
        problems=tuple(store.problems),
        trace=tuple(map(str, findings.sweep.get("trace_notes", ()))),
        laws=_laws(findings.trials),
        drain=_drain(findings.trials),
    )


_COLUMNS = (
    "strategy",
    "backend",
    "rate",
    "repeat",
    "requests",
    "steady window",
    "in system",
    "clock offset",
    "drift",
    "dispatch lag p99",
    "step probe",
    "peak memory",
)


def _heading(trials: Sequence[TrialSummary]) -> str:
    if not trials:
        return "No trial to judge yet"
    marked = sum(bool(trial.verdicts) for trial in trials)
    if not marked:
        return (
            f"No reservations about {'the one trial' if len(trials) == 1 else f'any of {len(trials)} trials'}"
        )
    return f"{marked:,} of {numbers.count(len(trials), 'trial')} {'has' if marked == 1 else 'have'} a reservation"


def _in_order(findings: Findings) -> list[TrialSummary]:
    """Give the trials by setting, as the cells are ordered, then rate and repeat."""
    settings: dict[tuple[str, ...], int] = {}
    for cell in (*findings.cells, *findings.invalid):
        settings.setdefault((cell.model, cell.device, cell.backend, cell.setting), len(settings))

    def key(one: TrialSummary) -> tuple[float, ...]:
        trial = one.trial
        of = (trial.model, trial.device, trial.backend, trial.setting)
        return settings.get(of, len(settings)), trial.rate, trial.repeat

    return sorted(findings.trials, key=key)


def _row(summary: TrialSummary, key: str | None) -> TrialRow:
    trial, clock = summary.trial, summary.trial.clock
    drift = numbers.NOTHING if clock.drift_s is None else numbers.duration(clock.drift_s)
    memory = numbers.size(trial.memory_bytes)
    return TrialRow(
        cells=(
            trial.setting,
            backend_name(trial.backend),
            numbers.rate(trial.rate),
            str(trial.repeat + 1),
            f"{trial.planned_requests:,}",
            _window(summary),
            numbers.number(summary.metrics.get("requests_in_system")),
            f"{numbers.duration(clock.offset_s)} ± {numbers.duration(clock.uncertainty_s)}",
            drift,
            numbers.duration(summary.metrics.get("dispatch_lag_s_p99")),
            numbers.duration(trial.step_probe_s),
            memory if trial.memory_bytes is None else f"{memory} {trial.memory_kind}",
        ),
        verdicts=summary.verdicts,
        mark=Mark(series=() if key is None else (key,), rate=trial.rate),
    )


def _window(summary: TrialSummary) -> str:
    start_s, count = summary.metrics.get("steady_start_s"), summary.metrics.get("steady_requests")
    if start_s is None or count is None:
        return numbers.NOTHING
    return f"from {numbers.duration(start_s)}: {count:,.0f}"


def _laws(trials: Sequence[TrialSummary]) -> str:
    """Say whether what must hold of any run holds of these, and how exactly."""
    checked = [one.metrics for one in trials if one.metrics.get("little_error") is not None]
    if not checked:
        return ""
    errors = [max(one.get(name) or 0.0 for one in checked) for name in ("little_error", "identity_error")]
    miscounted = sum(one.get("miscounted_requests") or 0.0 for one in checked)
    if max(errors) <= PRECISION and not miscounted:
        return (
            f"Checked on {numbers.count(len(checked), 'trial')}: the requests in the system over time add up to the "
            f"time that requests spend in it (Little's law, off by at most {errors[0]:.0e}), and E2E = TTFT + "
            f"(output tokens − 1) · TPOT (off by at most {errors[1]:.0e})."
        )
    return (
        f"Stamps do not add up: Little's law is off by up to {errors[0]:.1e}, E2E = TTFT + (output tokens − 1) · TPOT "
        f"by up to {errors[1]:.1e}, and {miscounted:,.0f} answers have other token times than tokens. Trust no "
        "latency here before this is explained."
    )


def _attempts(findings: Findings) -> list[FailureRow]:
    by_cause: dict[str, list[str]] = {}
    for failure in findings.failures:
        by_cause.setdefault(failure.cause, []).append(failure.error)
    return [
        FailureRow(what="attempts", cause=cause, count=len(errors), example=errors[0])
        for cause, errors in sorted(by_cause.items())
    ]


def _requests(findings: Findings, store: Store) -> list[FailureRow]:
    """Count requests that failed or were rejected, by cause; only trials that say so are read.

    What was cut off did not fail: `_drain` tells of it.
    """
    cells = [one.trial.cell_id for one in findings.trials if one.has("failures")]
    table = store.requests(cells, columns=("status", "cause", "error"))
    table = table.filter(pc.is_in(table.column("status"), pa.array(["failed", "rejected"])))
    found: dict[tuple[str, str], list[str]] = {}
    for row in table.to_pylist():
        found.setdefault((row["status"], row["cause"] or "no cause"), []).append(row["error"] or "")
    return [
        FailureRow(what=f"requests {status}", cause=cause, count=len(errors), example=errors[0])
        for (status, cause), errors in sorted(found.items())
    ]


def _drain(trials: Sequence[TrialSummary]) -> str:
    if not trials:
        return ""
    limits = sorted({trial.trial.drain_limit_s for trial in trials})
    span = numbers.duration(limits[0])
    if len(limits) > 1:
        span += f" to {numbers.duration(limits[-1])}"
    cut = sum(trial.trial.cut_off for trial in trials)
    return (
        f"After the last arrival a trial drains for at most {span}; what is still running then is cut off and "
        f"counted as unfinished ({cut:,} of {numbers.count(len(trials), 'trial')} reached that limit). So the latency "
        "of an overloaded trial tells how long the trial was, not how quick the server is; where a percentile "
        "falls among what was cut off, it is unknown and there is no point."
    )
