"""The driver of a capacity search: trial after trial, on the lanes of a sweep or in virtual time.

The folder is a sweep's whose cells become known as the search goes. What is to be tried next follows from the
trials that are there, so the same command goes on where it was stopped, also with another service level.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from deployments.interruption import interruptible
from experiments.block import Driver, fit
from experiments.budget import NO_LIMITS, Limit, Limits
from experiments.cells import Cell
from experiments.console import Say
from experiments.inputs import check_inputs, input_hashes
from experiments.largest_rate.allowance import Allowance
from experiments.largest_rate.answers import Answer, Answers
from experiments.largest_rate.question import Question
from experiments.preflight import check
from experiments.progress import SweepProgress
from experiments.provenance import provenance
from experiments.reserves import recorded
from experiments.resolved import Resolved
from experiments.simulation.cell_run import run_cell
from experiments.simulation.premise import Premise
from experiments.sweep import drawn, once_started
from experiments.where import HERE, Where, kind_so_far, lanes_of
from results.cost import spent
from results.earlier_run import move_aside, refuse_remains
from results.errors import StoreError
from results.lock import SweepLock, refuse_if_driven
from results.patience import PATIENCE_S, patience_s
from results.place import check_place
from results.price import Spent
from results.report import numbers
from results.store import Store
from results.sweep_document import RESOLVED, check_sweep
from results.sweep_folder import AT_ONCE
from workloads.shape import shape

# What failed has no attempt that is done; a limit held some back.
Run: TypeAlias = Callable[[Sequence[Cell], Store], Limit | None]

NO_RATES = Resolved(rates=(), durations_s=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the search stands when the driver stops."""

    root: str
    page: str
    answers: tuple[Answer, ...]
    problems: tuple[str, ...]
    spent: Spent
    stopped_at: Limit | None = None  # what this call was allowed to use, and did

    @property
    def complete(self) -> bool:
        """Whether every setting has its bracket."""
        return all(answer.wanted is None for answer in self.answers)


def run_simulated(question: Question, root: str, say: Say, *, fresh: bool = False) -> Outcome:
    """Search in virtual time. `fresh` keeps an earlier search aside. StoreError or WorkloadError."""
    if fresh:
        move_aside(root, say)
    store = Store(root)
    with interruptible(), SweepLock(root, say):
        info = begun(question, store)
        if info is None:
            info = _info(question, NO_RATES)
        return _searched(question, store, info, _virtual(question, info), say)


def run_measured(
    question: Question,
    root: str,
    say: Say,
    calibrated: Mapping[str, Premise] | None = None,
    *,
    fresh: bool = False,
    where: Where = HERE,
    limits: Limits = NO_LIMITS,
) -> Outcome:
    """Search on real engines. Errors as of `experiments.sweep.run_sweep`.

    `calibrated`: by backend, for a search in virtual time first, which says where this one begins.
    """
    store = Store(root)
    allowance = Allowance(limits, question.config, store)
    limits.check(question.config)
    refuse_if_driven(root)
    info = None if fresh else begun(question, store)
    if info is not None:
        known = Answers(question, store, Resolved.from_dict(info["resolved"])).now()
        wanted = [answer.wanted for answer in known if answer.wanted is not None]
        stopped_at = allowance.held_back(info, wanted)
        if not wanted or stopped_at is not None:  # no GPU is asked for
            with SweepLock(root, say):
                return _outcome(question, store, info, known, stopped_at)
    config = question.config
    check_place(root)
    check(config, say, gpus_here=where.address is None)
    opening = lanes_of(config, where, say, kind=None if info is None else kind_so_far(store.trials()))
    guesses = guesses_of(question, calibrated, say) if calibrated is not None else {}
    if fresh:
        move_aside(root, say)
    with SweepLock(root, say) as note:
        if note:
            say(note)
        with opening as lanes, once_started():
            if info is None:
                info = _info(question, *_resolved(question, say))
            allowance.start(info, lanes.session.beside)
            driver = Driver(config, store, lanes, recorded(info), budget=allowance.budget)

            def run(cells: Sequence[Cell], into: Store) -> Limit | None:
                with SweepProgress(cells, cells, lanes.views, at_once=lanes.count()) as progress:
                    fit(replace(driver, store=into, purse=allowance.purse(info, cells)), cells, progress)
                return allowance.reached()

            return _searched(question, store, info, run, say, guesses=guesses, lanes=lanes.count)


def _searched(
    question: Question,
    store: Store,
    info: dict[str, Any],
    run: Run,
    say: Say,
    *,
    guesses: Mapping[int, float] | None = None,
    lanes: Callable[[], int] = lambda: 1,
) -> Outcome:
    """Run what is wanted next, of so many loaded engines at a time, until nothing is or its tries ran out."""
    resolved = Resolved.from_dict(info["resolved"])
    _record(question, store, info, Answers(question, store, resolved, guesses).now())
    store = Store(store.root, wait_s=PATIENCE_S)
    answers = Answers(question, store, resolved, guesses)
    at_once = Store(store.place / AT_ONCE, wait_s=patience_s(store.place))
    given_up: set[int] = set()
    found = answers.now()
    stopped_at: Limit | None = None
    while wanted := {one.index: one.wanted for one in found if one.wanted and one.index not in given_up}:
        keys = list(dict.fromkeys(cell.lane_key for cell in wanted.values()))[: lanes()]
        now = {index: cell for index, cell in wanted.items() if cell.lane_key in keys}
        first = {one.index: now[one.index] for one in found if one.saturates and one.index in now}
        now, into = (first, at_once) if first else (now, store)
        if first:
            at_once.create()  # a trial waits for a folder, it does not make it
        stopped_at = run(list(now.values()), into)
        done = into.done_cells({cell.cell_id for cell in now.values()})
        given_up |= {index for index, cell in now.items() if cell.cell_id not in done}
        found = answers.now()
        again = done.keys() & {one.wanted.cell_id for one in found if one.wanted}
        assert not again, f"the search would run for ever: {again} is done, and wanted again"
        _record(question, store, info, found)
        for one in found:
            if one.index in now and (stopped_at is None or now[one.index].cell_id in done):
                say(_line(one, now[one.index], saturated=bool(first)))
        if stopped_at is not None:
            break
    return _outcome(question, store, info, found, stopped_at)


def _line(answer: Answer, cell: Cell, *, saturated: bool) -> str:
    """What the last trial of a setting said."""
    name = f"{answer.backend}  {answer.setting}"
    if saturated and answer.saturation is not None:
        return f"{name}  all at once: {numbers.rate(answer.saturation)}"
    for one in answer.tried:
        if (one.rate, one.repeat) == (cell.rate, cell.repeat):
            return f"{name}  {one.rate:g} req/s {'within' if one.within else 'NOT within'}: {one.why}"
    return f"{name}  {cell.rate:g} req/s failed; the same command tries it again"


def _virtual(question: Question, info: Mapping[str, Any]) -> Run:
    assert question.premises is not None, "virtual time needs step times"
    premises = question.premises

    def run(cells: Sequence[Cell], into: Store) -> None:
        for cell in cells:
            made = shape(
                cell.workload, rate=cell.rate, duration_s=cell.duration_s, seed=cell.seed, repeat=cell.repeat
            )
            entry = question.config.simulation
            run_cell(cell, made, premises[cell.backend], entry, into, info["provenance"])

    return run


def guesses_of(question: Question, premises: Mapping[str, Premise], say: Say) -> dict[int, float]:
    """Where a search in virtual time ends, by place of the setting."""
    virtual = replace(question, premises=premises)
    with tempfile.TemporaryDirectory() as folder:
        found = run_simulated(virtual, f"{folder}/guess", lambda _: None).answers
    guesses = {one.index: rate for one in found if (rate := one.bracket.within or one.bracket.beyond)}
    for one in found:
        if one.index in guesses:
            say(f"{one.backend}  {one.setting}  begins at {guesses[one.index]:g} req/s, as simulated")
    return guesses


def begun(question: Question, store: Store) -> dict[str, Any] | None:
    """The sweep.json of this search, if it has begun. StoreError if it is of another."""
    info = store.read_sweep()
    if info is None:
        refuse_remains(store)
        return None
    check_sweep(info, store.root, RESOLVED)
    if "capacity" not in info or info["config_hash"] != question.identity:
        raise StoreError(
            f"{store.root}/sweep.json is not of this search: move it away, or --fresh starts anew"
        )
    check_inputs(question.config, info)
    return info


def _info(
    question: Question, resolved: Resolved, measured: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    simulated: dict[str, Any] = {}
    if question.premises is not None:
        backends = {name: premise.to_record() for name, premise in question.premises.items()}
        simulated = {"simulated": {"repeats": 1, "options": list(question.options), "backends": backends}}
    return {
        "name": question.name,
        "config_hash": question.identity,
        "config": dict(question.config.as_written),
        **simulated,
        "resolved": resolved.to_dict(),
        "measured": dict(measured or {}),
        "cells_hash": "",
        "workload_hashes": {},
        "input_hashes": input_hashes(question.config),
        "provenance": provenance(),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _resolved(question: Question, say: Say) -> tuple[Resolved, dict[str, Any]]:
    """What `dtype: auto` is, and what was measured; rates are the search's own."""
    from experiments.resolve import run

    found, measured = run(question.config.model_copy(update={"arrival_rate": (1.0,)}), say)
    return replace(NO_RATES, dtype=found.dtype), measured


def _record(question: Question, store: Store, info: dict[str, Any], answers: Sequence[Answer]) -> None:
    """Into sweep.json: what was asked, and how it stands; how many cells there are is known at the end."""
    info["capacity"] = {**question.to_record(), "answers": [answer.to_dict() for answer in answers]}
    info.pop("planned_cells", None)
    if all(answer.wanted is None for answer in answers):
        info["planned_cells"] = len(store.done_cells())
    store.write_sweep(info)


def _outcome(
    question: Question,
    store: Store,
    info: dict[str, Any],
    answers: tuple[Answer, ...],
    stopped_at: Limit | None = None,
) -> Outcome:
    _record(question, store, info, answers)
    page, _ = drawn(store)
    return Outcome(
        root=store.root,
        page=page,
        answers=answers,
        problems=tuple(store.problems),
        spent=spent(store, info, question.config.price),
        stopped_at=stopped_at,
    )
