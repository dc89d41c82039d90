"""The page about one sweep, or several (results/report/frame.py has what every page has)."""

import os
from collections.abc import Mapping, Sequence

from results.findings import Findings
from results.report import (
    batches,
    changes,
    closeup,
    cost,
    curves,
    frame,
    glossary,
    index,
    knobs,
    memory,
    occupancy,
    padding,
    pareto,
    points,
    resident,
    several,
    slo,
    splits,
    theory,
    timelines,
    tradeoff,
)
from results.report.expected import MEANINGS
from results.report.gated import gated_notes
from results.report.origin import origin
from results.report.panel import Absent, Panel
from results.report.part import part
from results.report.series import series_of
from results.report.several import Shown, shown, together
from results.store import Store

_CONTENTS = (  # ids of sections, or of figures
    ("answer", "The answer"),
    ("expected", "Expected"),
    ("curves", "Against rate"),
    ("goodput", "Within an SLO"),
    ("cost", "Cost"),
    ("tradeoff", "Throughput and latency"),
    ("changes", "One over another"),
    ("knobs", "Knobs"),
    ("splits", "Policy and engine"),
    ("batches", "Batches"),
    ("timelines", "Over time"),
    ("memory", "Memory"),
    ("occupancy", "Slots"),
    ("closeup", "One trial"),
    ("trust", "Trust"),
    ("metrics", "Metrics"),
    ("setup", "Set-up"),
)


def write_page(findings: Findings, store: Store, path: str | os.PathLike[str]) -> None:
    """Write the page of one sweep whole, in place of an older one. StoreError if it cannot be written."""
    frame.write(render(findings, store), path, make_folder=False)  # a sweep's folder that is away comes back


def render(findings: Findings, store: Store) -> str:
    """Give the page of one sweep as HTML."""
    return render_all(shown([("", findings, store)]))


def render_all(sweeps: Sequence[Shown], *, refresh_s: int | None = None) -> str:
    """Give the page of one or several sweeps, of at least one; with `refresh_s` it reloads itself that often."""
    findings, names = together(sweeps), [str(one.findings.sweep.get("name", "sweep")) for one in sweeps]
    series = series_of(findings)
    stores = {id(trial): one.store for one in sweeps for cell in one.findings.cells for trial in cell.trials}
    over_time, blocks = timelines.panel(findings, lambda trial: stores[id(trial)])
    close_up, trial_rows = closeup.panels(findings, lambda trial: stores[id(trial)])
    goodput, rows = slo.panel(findings, series)
    panels = _panels(findings, over_time, *close_up, goodput)
    parts = [part(one, series, number) for number, one in enumerate(sweeps)]
    return frame.frame(
        "page.html.j2",
        panels,
        blocks=[*blocks, *trial_rows, *rows],
        origin=[
            origin(shown.findings, of.name or name, of.setup.heading, of.answer.repeats)
            for shown, of, name in zip(sweeps, parts, names, strict=True)
        ],
        title=f"{', '.join(one.name for one in sweeps) if len(sweeps) > 1 else names[0]} · batchyard",
        sweep=", ".join(dict.fromkeys(names)),
        headline=parts[0].answer.headline if len(parts) == 1 else several.heading(sweeps),
        comparisons=several.commands(sweeps),
        contents=contents(panels),
        about=index.found_in(findings).text() if len(sweeps) == 1 else "",
        refresh_s=refresh_s,
        parts=parts,
        simulated=any(one.answer.simulated for one in parts),
        expected_meanings=MEANINGS,
        verdict_meanings=glossary.VERDICTS,
        marks=points.MARKS,
        guided=bool(findings.guides),
        guide_note=theory.note(findings.guides),
        gated=gated_notes(series),
        series=series,
        metrics=glossary.EXPLAINED,
    )


def contents(panels: Mapping[str, Panel | Absent]) -> list[tuple[str, str]]:
    """Give where what is drawn stands: the id of a section or figure, and its title."""
    drawn = {name for name, one in panels.items() if isinstance(one, Panel)}
    return [(place, title) for place, title in _CONTENTS if place in drawn or place not in panels]


def _panels(findings: Findings, *others: Panel | Absent) -> dict[str, Panel | Absent]:
    made = (
        curves.throughput(findings),
        curves.latency(findings),
        cost.panel(findings),
        tradeoff.panel(findings),
        changes.panel(findings),
        splits.panel(findings),
        batches.panel(findings),
        memory.panel(findings),
        padding.panel(findings),
        occupancy.panel(findings),
        knobs.panel(findings),
        pareto.panel(findings),
        resident.panel(findings),
        *others,
    )
    return {panel.name: panel for panel in made}
