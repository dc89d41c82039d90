"""`batchyard sweep --dry-run`: the plan of a sweep in words or as JSON. Nothing is started, nothing written."""

import contextlib
from collections.abc import Iterable
from typing import Any

from deployments.backends.engine_args import SimulatedArgs
from experiments.capacity import resolve_rates
from experiments.cells import Cell
from experiments.config import SweepConfig
from experiments.config_warnings import unfilled_now
from experiments.console import emit, show, table, tell
from experiments.cost_so_far import cost_document
from experiments.plan import LOAD_S, OTHER_LOAD_S, TIMING_S, EarlierRun, Plan, make_plan, to_dict
from experiments.preflight import check, lanes_here
from experiments.resolve import OUTPUT_TOKENS, REPEATS
from experiments.sweep_record import begun, cells_of, sweep_root
from experiments.trial_time import AROUND_S, Span
from experiments.where import HERE, Where, check_where, kind_so_far
from results.address import Place
from results.cost import spent
from results.errors import StoreError
from results.lock import driver
from results.place import check_place
from results.price import Spent
from results.store import Store
from results.sweep_folder import is_sweep


def dry_run(config: SweepConfig, results: Place, *, fresh: bool, as_json: bool, where: Where = HERE) -> None:
    """Say what the sweep would do. ConfigError, DeviceError or StoreError where it would be refused.

    A hub is not asked, the packaged model not converted, and who else uses the GPUs now is left open.
    """
    root = sweep_root(config, results)
    store = Store(root)
    info = None if fresh else begun(config, store)
    cells_of(config, info)  # refuses a sweep that began with other cells
    trials = store.trials() if info is not None else []
    plan = make_plan(config, info, trials, _earlier(config, results, root, fresh=fresh))
    count = 1
    if plan.left:
        check_where(config, where, kind_so_far(trials))
        check(config, tell, offline=True, gpus_here=where.address is None)
        count = lanes_here(config, where.lanes) if where.address is None else where.lanes or 1
        check_place(root)
    for warning in _unfilled(config, plan):
        tell(f"warning: {warning}")
    for problem in store.problems:
        tell(f"warning: {problem}")
    held = driver(root)
    running = held is not None and held.alive is True
    used = spent(store, info, config.price) if info is not None else Spent()
    if as_json:
        cost = _cost_document(config, plan, used)
        head = {"name": config.name, "folder": root, "running": running, "lanes": count, "cost": cost}
        emit({**head, **to_dict(plan)})
        return
    _show(config, plan, root, count)
    for line in _cost_lines(config, plan, used):
        show(line)
    if held is not None and running:
        show(f"It runs already: process {held.pid} since {held.since}.")
    show("Nothing was started, and nothing was written.")


def _earlier(config: SweepConfig, results: Place, root: str, *, fresh: bool) -> EarlierRun | None:
    """The newest sweep of this name and model beside it that has measured something."""
    found: list[tuple[str, Place, dict[str, Any]]] = []
    for folder in results.iterdir() if results.is_dir() else ():
        if not is_sweep(folder) or (str(folder) == root and not fresh):
            continue
        with contextlib.suppress(StoreError):
            info = Store(folder).read_sweep() or {}
            model = info.get("config", {}).get("model")
            if info.get("name") == config.name and model == config.as_written.get("model"):
                found.append((str(info.get("created_at")), folder, info))
    for _, folder, info in sorted(found, key=lambda one: one[0], reverse=True):
        with contextlib.suppress(StoreError):
            if trials := Store(folder).trials():
                return EarlierRun(name=folder.name, info=info, trials=trials)
    return None


def _unfilled(config: SweepConfig, plan: Plan) -> list[str]:
    """What the sweep will warn of once its rates are known: exactly, or as the simulated engine is written."""
    if plan.rates is not None:
        lasts_s = {cell.rate: cell.duration_s for cell in plan.cells}
        return unfilled_now(config, tuple(lasts_s), tuple(lasts_s.values()))
    if any(setting.backend != "simulated" for setting in config.settings):
        return []
    step_times = {"simulated": SimulatedArgs.model_validate(dict(config.settings[0].engine)).step_model}
    expected = resolve_rates(config, step_times)
    found = unfilled_now(config, expected.rates, expected.durations_s)
    return [f"{warning} (the rates are estimated)" for warning in found]


def _show(config: SweepConfig, plan: Plan, root: str, lanes: int) -> None:
    left, planned = len(plan.left), len(plan.cells)
    stands = f"{planned - left} done, {left} left" if plan.begun else "not begun"
    show(f"{config.name}: {planned} cells ({stands}), results in {root}")
    for line in _table(plan):
        show(line)
    if not left:
        show(f"This sweep is complete ({planned} cells); --fresh starts anew.")
        return
    if plan.rates is None:
        show(
            "Rates: auto. Three are set once the engines have been timed: half and nine tenths of what the "
            "slowest setting can do, and at least 3 times what naive can do."
        )
    if plan.probes:
        show(f"Measured first: {_probes(plan)}; {_likely(plan.measuring)} with the loading.")
    loads = sum(plan.loads.values())
    show(f"Engine loads: {loads} ({_by_backend(plan)}) with {len(plan.loads)} different engine set-ups.")
    each = ", ".join(f"repeat {repeat + 1} {_likely(span)}" for repeat, span in plan.repeats.items())
    show(f"Time on one lane: {minutes(plan.whole)} ({each}); n lanes take about an n-th.")
    if lanes > 1:
        show(f"Time on {lanes} lanes: {minutes(plan.whole / lanes)}, and a load for each further lane.")
    for line in _rests_on(plan):
        show(f"  {line}")


def _cost_document(config: SweepConfig, plan: Plan, used: Spent) -> dict[str, Any] | None:
    """What was spent and what is left, between the least and the most; None without a price."""
    if config.price is None:
        return None
    left = plan.cost(config.price)
    likely = None if left is None else left.low_s if left.likely_s is None else left.likely_s
    between = {"left_at_least": left and left.low_s, "left_at_most": left and left.high_s}
    return cost_document(used, config.price, likely) | between


def _cost_lines(config: SweepConfig, plan: Plan, used: Spent) -> list[str]:
    """The same in words."""
    price = config.price
    if price is None:
        return []
    lines = [f"Spent so far: {used.text(price)}, {used.gpu_hours:.3g} GPU hours."] if plan.begun else []
    if plan.left and (left := plan.cost(price)) is None:
        lines.append(
            "Cost: not known, price_per_gpu_hour has none for the GPUs that are there; `any` names one."
        )
    elif plan.left and left is not None:
        between = f"{price.text(left.low_s)} to {price.text(left.high_s)}"
        likely = "" if left.likely_s is None else f"about {price.text(left.likely_s)}, "
        lines.append(f"Cost of what is left: {likely}{between} in any case, on however many lanes.")
    return lines


def _table(plan: Plan) -> list[str]:
    """One row per setting on a backend: all have the same rates and repeats."""
    left = {cell.cell_id for cell in plan.left}
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in plan.cells:
        groups.setdefault((cell.backend, cell.setting), []).append(cell)
    rows = [
        (
            backend,
            setting,
            "auto (3)" if plan.rates is None else _listed(f"{cell.rate:g}" for cell in cells),
            str(len({cell.repeat for cell in cells})),
            str(len(cells)),
            str(sum(cell.cell_id not in left for cell in cells)),
        )
        for (backend, setting), cells in groups.items()
    ]
    return table(("backend", "strategy", "requests/s", "repeats", "cells", "done"), rows, right=3)


def _arrivals(plan: Plan) -> str:
    """How long a trial sends, by rate."""
    if plan.rates is None:
        more = " or more" if plan.grows_below is not None else ""
        return f"{plan.cells[0].duration_s:g} s{more}"
    by_length: dict[float, list[str]] = {}
    for rate, length_s in {cell.rate: cell.duration_s for cell in plan.cells}.items():
        by_length.setdefault(length_s, []).append(f"{rate:g}")
    if len(by_length) == 1:
        return f"{next(iter(by_length)):g} s"
    return ", ".join(f"{length_s:g} s at {', '.join(rates)}/s" for length_s, rates in by_length.items())


def _probes(plan: Plan) -> str:
    timed = [
        f"the step times of {probe.backend} at batch {_listed(map(str, probe.batch_sizes))}"
        f" ({1 + REPEATS} runs each of {OUTPUT_TOKENS} tokens after a prompt of {probe.prompt_tokens})"
        for probe in plan.probes
        if probe.batch_sizes
    ]
    padded = [
        f"what padded batches of {probe.backend} take of memory beside keys and values (2 small batches)"
        for probe in plan.probes
        if probe.reserve
    ]
    return "; ".join([*timed, *padded])


def _by_backend(plan: Plan) -> str:
    backends: dict[str, int] = {}
    of_key = {cell.lane_key: cell.backend for cell in plan.cells}
    of_key |= {probe.lane_key: probe.backend for probe in plan.probes}
    for key, count in plan.loads.items():
        backends[of_key[key]] = backends.get(of_key[key], 0) + count
    return ", ".join(f"{name} {count}" for name, count in backends.items())


def _rests_on(plan: Plan) -> list[str]:
    """What the time is made of, so that it can be doubted in the right place."""
    limits = _listed(f"{cell.drain_limit_s:g}" for cell in plan.left)
    used = {cell.backend for cell in plan.left}
    named = [f"{name} {seconds:g} s" for name, seconds in LOAD_S.items() if name in used]
    if used - set(LOAD_S):
        named.append(f"{', '.join(sorted(used - set(LOAD_S)))} {OTHER_LOAD_S:g} s")
    timing = f", {TIMING_S:g} s for measuring an engine" if plan.probes else ""
    around = (
        f"It rests on: arrivals ({_arrivals(plan)} a trial); draining of 0 s to the limit ({limits} s) a trial; {AROUND_S:g} s "
        f"around a trial; loading of a small model ({', '.join(named)}){timing}."
    )
    lines = [around, *_drains(plan)]
    if plan.known:
        lines.append(
            f"{plan.known} of the cells left have a twin that is done, here or in an earlier run, and are counted "
            "as long as that."
        )
    if plan.grows_below is not None:
        lines.append(
            f"A rate below {plan.grows_below:g} requests/s, which a slow machine gets, makes its trials longer."
        )
    return lines


def _drains(plan: Plan) -> list[str]:
    """How it is known what overload leaves behind; nothing to say where every trial has a twin."""
    if plan.known == len(plan.left):
        return []
    if plan.whole.likely_s is None:
        text = "nothing in the results folder has timed these engines"
        return [f"Which trials have much to drain is not known: {text}."]
    return [f"Likely is what each rate leaves behind, by the step times of {plan.capacities_of}."]


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(values))


def minutes(span: Span) -> str:
    """What is likely, and between what; in minutes, or in hours where it is long."""
    low, high = (_short(seconds, span) for seconds in (span.low_s, span.high_s))
    if low == high:
        return f"about {low} {_unit(span)[1]}"
    between = f"{low} to {high} {_unit(span)[1]}"
    return between if span.likely_s is None else f"{_likely(span)}, {low} to {high} in any case"


def _likely(span: Span) -> str:
    """What is likely, or between what it is."""
    if span.likely_s is None:
        return minutes(span)
    return f"about {_short(span.likely_s, span)} {_unit(span)[1]}"


def _short(seconds: float, span: Span) -> str:
    value = seconds / _unit(span)[0]
    return f"{value:.1f}" if _unit(span)[1] == "h" else str(max(1, round(value)))


def _unit(span: Span) -> tuple[int, str]:
    return (3600, "h") if span.high_s >= 2 * 3600 else (60, "min")
