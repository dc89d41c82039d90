"""What a sweep found, at its end: the table and sentences for a person, the same as one document for a script."""

import sys
from collections.abc import Sequence
from typing import Any

from experiments.console import emit, out, show, show_prose, tell
from experiments.cost_so_far import cost_document
from experiments.text_table import Column, lines
from results.comparisons import THROUGHPUT
from results.cost import PER_MILLION
from results.findings import CellSummary, Findings
from results.footnotes import with_marks
from results.report import numbers

METRICS = (THROUGHPUT, "ttft_s_p50", "e2e_s_p50", "e2e_s_p99")  # means over repeats
_COLUMNS = (
    Column(title="backend", least=9, turn=1),
    Column(title="strategy", least=12),
    *(Column(title=title, right=True) for title in ("req/s", "tok/s", "TTFT", "E2E", "E2E")),
    Column(title="reservations"),
)
_UNITS = ("", "", "", "", "p50 s", "p50 s", "p99 s", "")


def show_findings(findings: Findings, page: str | None) -> None:
    """The table at the end, what one strategy changes over another, what failed, and the path of the page if any."""
    show(f"{findings.sweep['name']}: means over repeats")
    for line in table_lines(findings.cells, out.width if out.is_terminal else None):
        show(line)
    sentences, notes = with_marks([one for one in findings.sentences if one.kind == "policy"])
    for sentence in sentences:
        show_prose(f"- {sentence.text}")
    for note in notes:
        show_prose(note)
    if findings.cells:
        verdicts = ", ".join(f"{one.name} {one.verdict}" for one in findings.expectations)
        show_prose(f"Expected (the page says what, and why): {verdicts}.")
    for cause in sorted({f"{failure.cause}: {failure.error}" for failure in findings.failures}):
        tell(f"failed attempt: {cause}")
    for note in findings.sweep.get("trace_notes", ()):
        show_prose(f"Trace: {note}.")
    if findings.price is not None and findings.spent is not None:
        show_prose(f"Cost: {findings.spent.text(findings.price)}, {findings.spent.gpu_hours:.3g} GPU hours.")
    if page is not None:
        show(f"page: {page}")


def table_lines(cells: Sequence[CellSummary], width: int | None) -> list[str]:
    """The table in lines of that width, a reservation each; without one in as many lines as cells, never cut."""
    rows: list[Sequence[str]] = [_UNITS]
    for cell in cells:
        values = [numbers.number(cell.mean(name)) for name in METRICS]
        named = _verdicts(cell)
        first, *more = [", ".join(named)] if width is None else named or [""]
        rows.append((cell.backend, cell.setting, f"{cell.rate:g}", *values, first))
        rows += [("",) * 7 + (name,) for name in more]
    return lines(_COLUMNS, rows, sys.maxsize if width is None else width)


def emit_findings(findings: Findings, folder: str, page: str, problems: Sequence[str]) -> None:
    """The same as one JSON document on standard output."""
    emit(findings_document(findings, folder, page, problems))


def findings_document(findings: Findings, folder: str, page: str, problems: Sequence[str]) -> dict[str, Any]:
    """The same as plain JSON values; a metric that does not exist is null."""
    done = len(findings.trials)
    return {
        "name": findings.sweep["name"],
        "folder": folder,
        "page": page,
        "planned_cells": findings.planned_cells,
        "done_cells": done,
        "complete": done >= findings.planned_cells,
        "cost": _cost(findings),
        "cells": [_cell(cell) for cell in findings.cells],
        "sentences": [
            {
                "kind": sentence.kind,
                "base": sentence.base,
                "other": sentence.other,
                "text": sentence.text,
                "notes": list(sentence.notes),
            }
            for sentence in findings.sentences
        ],
        "expectations": [
            {
                "name": one.name,
                "claim": one.claim,
                "verdict": one.verdict,
                "evidence": [
                    {"outcome": evidence.outcome, "text": evidence.text} for evidence in one.evidence
                ],
            }
            for one in findings.expectations
        ],
        "failed_attempts": [
            failure.model_dump(mode="json", exclude={"schema_version"}) for failure in findings.failures
        ],
        "problems": list(problems),
    }


def _cost(findings: Findings) -> dict[str, Any] | None:
    if findings.price is None or findings.spent is None:
        return None
    left = 0.0 if len(findings.trials) >= findings.planned_cells else None
    return cost_document(findings.spent, findings.price, left)


def _cell(cell: CellSummary) -> dict[str, Any]:
    return {
        "backend": cell.backend,
        "strategy": cell.strategy,
        "setting": cell.setting,
        "model": cell.model,
        "device": cell.device,
        "rate": cell.rate,
        "repeats": len(cell.trials),
        **{name: cell.mean(name) for name in (*METRICS, "throughput_tokens_per_s", PER_MILLION)},
        "verdicts": _verdicts(cell),
    }


def _verdicts(cell: CellSummary) -> list[str]:
    return sorted({verdict.name for trial in cell.trials for verdict in trial.verdicts})
