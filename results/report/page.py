"""The page about one sweep (results/report/frame.py has what every page has)."""

import os

from results.findings import Findings
from results.report import (
    batches,
    changes,
    curves,
    frame,
    glossary,
    knobs,
    occupancy,
    pareto,
    points,
    resident,
    slo,
    splits,
    theory,
    timelines,
    tradeoff,
)
from results.report.answer import answer
from results.report.expected import MEANINGS, expected
from results.report.largest_rate import largest_rates
from results.report.panel import Absent, Panel
from results.report.series import series_of
from results.report.setup import setup
from results.report.trust import trust
from results.store import Store


def write_page(findings: Findings, store: Store, path: str | os.PathLike[str]) -> None:
    """Write the page whole, in place of an older one. StoreError if it cannot be written."""
    frame.write(render(findings, store), path)


def render(findings: Findings, store: Store) -> str:
    """Give the page as HTML."""
    series = series_of(findings)
    over_time, blocks = timelines.panel(findings, lambda _: store)
    goodput, rows = slo.panel(findings, series)
    return frame.frame(
        "page.html.j2",
        _panels(findings, over_time, goodput),
        blocks=[*blocks, *rows],
        title=f"{findings.sweep.get('name', 'sweep')} · batchyard",
        sweep=findings.sweep.get("name", "sweep"),
        answer=answer(findings),
        largest=largest_rates(findings),
        expected=expected(findings),
        expected_meanings=MEANINGS,
        verdict_meanings=glossary.VERDICTS,
        marks=points.MARKS,
        guided=bool(findings.guides),
        guide_note=theory.note(findings.guides),
        series=series,
        metrics=glossary.EXPLAINED,
        trust=trust(findings, store),
        setup=setup(findings),
    )


def _panels(findings: Findings, *others: Panel | Absent) -> dict[str, Panel | Absent]:
    made = (
        curves.throughput(findings),
        curves.latency(findings),
        tradeoff.panel(findings),
        changes.panel(findings),
        splits.panel(findings),
        batches.panel(findings),
        occupancy.panel(findings),
        knobs.panel(findings),
        pareto.panel(findings),
        resident.panel(findings),
        *others,
    )
    return {panel.name: panel for panel in made}
