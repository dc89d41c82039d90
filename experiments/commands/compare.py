"""`batchyard compare`: two sweeps cell by cell, measured or simulated."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.arguments import AsJson, Folder, Force, PageFile
from experiments.console import emit, one_line_errors, show, show_prose, table, tell
from results.address import Place

if TYPE_CHECKING:
    from results.store import Store
    from results.sweep_changes import Comparison

EXAMPLES = (
    "Examples:  batchyard compare results/data/local-0123456789ab results/data/local-simulated-ba9876543210  ·  "
    "batchyard compare before after --fail-if-worse 5%  ·  batchyard compare before after -o changes.html. "
    "Exit codes: 0 done, 1 something is worse, 2 bad input."
)


def share(text: str) -> float:
    """5% or 5 % as 0.05."""
    if not (found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())):
        raise typer.BadParameter(f"must be a percentage such as 5%, got {text!r}")
    return float(found[1]) / 100


def compare(
    a: Folder,
    b: Folder,
    fail_if_worse: Annotated[
        float | None,
        typer.Option(
            parser=share,
            metavar="<percent>",
            help="Exit with 1 if a metric of a cell of B is worse than in A by more than this, as 5%, with its "
            "whole 95 % interval, or if a cell is missing, overloaded, cut off or fails requests that did not.",
        ),
    ] = None,
    output: PageFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare two sweeps cell by cell; if one is simulated, how far its predictions are off.

    Throughput, p50 and p99 of TTFT and E2E latency, and goodput where both have an SLO. Changes are paired on
    repeats that were sent the same requests, with a 95 % interval from three such repeats on.
    """
    with one_line_errors():
        from experiments.errors import ConfigError
        from results.output_file import check_output
        from results.report.frame import is_page
        from results.sweep_comparison import compare as compared
        from results.sweep_comparison import find_both

        if output is not None:
            check_output(output, force=force, ours=is_page)
        stores = _store(a), _store(b)
        found = compared(*find_both(*stores), _names(a, b))
        for problem in dict.fromkeys(problem for store in stores for problem in store.problems):
            tell(f"warning: {problem}")
        if fail_if_worse is not None and found.prediction:
            raise ConfigError(
                "--fail-if-worse compares two measured sweeps, or two simulated ones: a prediction that is off "
                "is not worse"
            )
        if output is not None:
            from results.report.comparison import write

            write(found, output)
        worse = found.worse(fail_if_worse) if fail_if_worse is not None else []
        if as_json:
            emit({**_to_dict(found), "worse": [asdict(one) for one in worse], "page": output and str(output)})
        else:
            for line in _text(found):
                show(line)
            for note in found.notes:
                show_prose(f"- {note}")
            if output is not None:
                show(f"page: {output}")
        if fail_if_worse is not None:
            _judge(found, fail_if_worse)
    if worse:
        raise typer.Exit(1)


def _store(folder: Place) -> "Store":
    from results.read import open_sweep
    from results.sweep_document import SHOWN, check_sweep

    store = open_sweep(folder)
    check_sweep(store.read_sweep() or {}, folder, SHOWN)
    return store


def _names(a: Place, b: Place) -> tuple[str, str]:
    """The folders' names, with what is above them as far as that tells them apart."""
    first, second = a.resolve().parts, b.resolve().parts
    depth = 1
    while first[-depth:] == second[-depth:] and depth < max(len(first), len(second)):
        depth += 1
    return "/".join(first[-depth:]), "/".join(second[-depth:])


def _text(found: "Comparison") -> Iterator[str]:
    """A table for each metric, what does not match, and of a prediction its errors in short."""
    from results.report.comparison import NAMES, change_text, value

    first, second = ("measured", "predicted") if found.prediction else ("A", "B")
    names = [f"{one} (simulated)" if one in found.simulated else one for one in (found.a, found.b)]
    yield f"{first}: {names[0]}   {second}: {names[1]}"
    for metric in found.metrics:
        yield ""
        yield NAMES.get(metric, metric)
        rows = []
        for cell in found.cells:
            one = cell.changes[metric]
            mark = "*" if one.censored else ""
            rate = f"{cell.rate_a:g}" if cell.rate_a == cell.rate_b else f"{cell.rate_a:g}/{cell.rate_b:g}"
            shown = (
                value(metric, one.a),
                value(metric, one.b),
                change_text(one) + mark,
                str(one.pairs or "–"),
            )
            rows.append((cell.backend, cell.setting, rate, *shown))
        titles = (
            "backend",
            "setting",
            "req/s",
            first,
            second,
            "error" if found.prediction else "change",
            "pairs",
        )
        yield from table(titles, rows, right=2)
    yield from _no_difference(found)
    if found.prediction:
        yield ""
        yield "Errors by strategy: the median without sign, and the worst; of latency over the cells that kept up"
        rows = [
            (
                one.backend,
                one.strategy,
                NAMES.get(one.metric, one.metric),
                str(one.cells),
                f"{100 * one.median:.1f} %",
                f"{100 * one.worst:+.1f} %".replace("-", "−"),
                one.worst_cell,
            )
            for one in found.errors()
        ]
        lines = table(("backend", "strategy", "metric", "cells", "median", "worst", ""), rows, right=3)
        yield from lines
    for name, cells in ((found.a, found.only_a), (found.b, found.only_b)):
        if cells:
            yield ""
            yield f"Only in {name}: {len(cells)}: {'; '.join(cells[:6])}{' …' if len(cells) > 6 else ''}"


def _no_difference(found: "Comparison") -> Iterator[str]:
    """In how many intervals nothing is shown, of all and by metric; nothing without any."""
    from results.report.comparison import name

    none, told = found.no_difference()
    if not told:
        return
    by_metric = ((name(metric), *found.no_difference(metric)) for metric in found.metrics)
    parts = ", ".join(f"{metric} {some} of {of}" for metric, some, of in by_metric if of)
    yield ""
    yield f"No difference shown in {none} of {told} intervals, {100 * none / told:.0f} %: {parts}"


_WORSE = {
    "missing": "is not there: it failed, or was not run",
    "failures": "fails requests, and did not",
    "stopped": "is overloaded or cut off, and was not",
}


def _judge(found: "Comparison", than: float) -> None:
    """Say what is worse, and what cannot be told."""
    from results.report.comparison import NAMES

    allowed = f"{100 * than:g} %"
    worse = found.worse(than)
    for one in worse:
        if one.by is None:
            tell(f"worse: {one.cell} {_WORSE[one.metric]}")
        else:
            name = NAMES.get(one.metric, one.metric)
            tell(f"worse: {name} of {one.cell}, by {100 * one.by:.1f} % at least (allowed {allowed})")
    if untold := found.untold(than):
        tell(
            f"cannot be told: {len(untold)} changes look worse by more than {allowed} and have no interval, such as "
            f"{NAMES.get(untold[0][0], untold[0][0])} of {untold[0][1]}; three repeats of the same requests on both sides give one"
        )
    if not worse:
        tell(f"nothing is shown to be worse by more than {allowed}")


def _to_dict(found: "Comparison") -> dict[str, Any]:
    return {
        "a": found.a,
        "b": found.b,
        "prediction": found.prediction,
        "simulated": list(found.simulated),
        "cells": [asdict(cell) for cell in found.cells],
        "only_a": list(found.only_a),
        "only_b": list(found.only_b),
        "notes": list(found.notes),
        "no_difference": dict(zip(("shown_in", "of_intervals"), found.no_difference(), strict=True)),
        "errors": [asdict(one) for one in found.errors()] if found.prediction else None,
    }
