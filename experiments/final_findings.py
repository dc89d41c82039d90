"""What a sweep found, at its end: the table and sentences for a person, the same as one document for a script."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from experiments.console import emit, out, show, tell
from results.findings import CellSummary, Findings

METRICS = ("throughput_tokens_per_s", "ttft_s_p50", "e2e_s_p50", "e2e_s_p99")  # means over repeats


def show_findings(findings: Findings, page: str) -> None:
    """The table at the end, what one strategy changes over another, what failed, and the path of the page."""
    table = Table(
        title=f"{findings.sweep['name']}: means over repeats",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("backend", "strategy", "req/s", "tok/s", "TTFT\np50 s", "E2E\np50 s", "E2E\np99 s"):
        text = name in ("backend", "strategy")
        table.add_column(name, justify="left" if text else "right", no_wrap=text, min_width=5)
    table.add_column("reservations", overflow="fold")
    for cell in findings.cells:
        numbers = [_number(cell.mean(name)) for name in METRICS]
        table.add_row(cell.backend, cell.setting, f"{cell.rate:g}", *numbers, "\n".join(_verdicts(cell)))
    out.print(table)
    for sentence in findings.sentences:
        if sentence.kind == "policy":
            show(f"- {sentence.text}")
    for cause in sorted({failure.in_words for failure in findings.failures}):
        tell(f"failed attempt: {cause}")
    show(f"page: {page}")


def emit_findings(findings: Findings, folder: str, page: str, problems: Sequence[str]) -> None:
    """The same as one JSON document; a metric that does not exist is null."""
    done = len(findings.trials)
    emit(
        {
            "name": findings.sweep["name"],
            "folder": folder,
            "page": page,
            "planned_cells": findings.planned_cells,
            "done_cells": done,
            "complete": done >= findings.planned_cells,
            "cells": [_cell(cell) for cell in findings.cells],
            "sentences": [
                {"kind": sentence.kind, "base": sentence.base, "other": sentence.other, "text": sentence.text}
                for sentence in findings.sentences
            ],
            "failed_attempts": [
                failure.model_dump(mode="json", exclude={"schema_version"}) for failure in findings.failures
            ],
            "problems": list(problems),
        }
    )


def _cell(cell: CellSummary) -> dict[str, Any]:
    return {
        "backend": cell.backend,
        "strategy": cell.strategy,
        "setting": cell.setting,
        "model": cell.model,
        "device": cell.device,
        "rate": cell.rate,
        "repeats": len(cell.trials),
        **{name: cell.mean(name) for name in METRICS},
        "verdicts": _verdicts(cell),
    }


def _verdicts(cell: CellSummary) -> list[str]:
    return sorted({verdict.name for trial in cell.trials for verdict in trial.verdicts})


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
