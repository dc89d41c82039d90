"""What theory says as a page: the frame, the figures and the colours of a sweep's page, and nothing measured."""

import os
from collections.abc import Sequence

from experiments.explain import engine_figures, memory_figures, rate_figures
from experiments.explain.explanation import Explanation
from experiments.explain.guide_lines import guides
from experiments.explain.setting_theory import Theory
from results.report import frame, numbers, series_style
from results.report.series import Series, backend_name


def write(explanation: Explanation, path: str | os.PathLike[str]) -> None:
    """Write the page whole, in place of an older one. StoreError if it cannot be written."""
    frame.write(render(explanation), path)


def render(explanation: Explanation) -> str:
    """Give the page as HTML."""
    series, lines = series_of(explanation.theories), guides(explanation)
    panels = (
        engine_figures.steps(explanation),
        engine_figures.efficiency(explanation),
        memory_figures.largest_batch(explanation),
        rate_figures.throughput(explanation, series, lines),
        rate_figures.latency(explanation, series, lines),
        rate_figures.together(explanation, series),
    )
    return frame.frame(
        "theory.html.j2",
        {panel.name: panel for panel in panels},
        title=f"{explanation.name} · theory · batchyard",
        name=explanation.name,
        headline=headline(explanation),
        bases=[
            f"Step times of {', '.join(map(backend_name, backends))}: {text}."
            for text, backends in explanation.backends_by_basis.items()
        ],
        series=series,
    )


def headline(explanation: Explanation) -> str:
    """The widest ratio of capacities that one backend offers, at an equal batch size where there is one."""
    pairs = [
        (one, other)
        for one in explanation.theories
        for other in explanation.theories
        if one.setting.backend == other.setting.backend
        and one.setting.max_batch_size == other.setting.max_batch_size
        and one.setting.lockstep_bound
        and not other.setting.lockstep_bound
    ]
    if not pairs:
        best = max(explanation.theories, key=lambda one: one.capacity)
        return f"In theory {best.setting.label} sustains most: {numbers.rate(best.capacity)}"
    worst, best = max(pairs, key=lambda pair: pair[1].capacity / pair[0].capacity)
    return (
        f"In theory {best.setting.label} sustains {numbers.ratio(best.capacity / worst.capacity)} the requests/s of "
        f"{worst.setting.label} on {backend_name(best.setting.backend)}"
    )


def series_of(theories: Sequence[Theory]) -> tuple[Series, ...]:
    """One series for each setting, without cells, styled as a sweep's page styles it."""
    settings = [one.setting for one in theories]
    places = series_style.places((one.strategy, one.label, one.knobs) for one in settings)
    found = []
    for theory in theories:
        setting = theory.setting
        found.append(
            Series(
                strategy=setting.strategy,
                setting=setting.label,
                backend=setting.backend,
                place=backend_name(setting.backend),
                key=f"{setting.backend} / {setting.label}",
                cells=(),
                style=series_style.style(
                    setting.strategy, setting.backend, places[setting.strategy, setting.label]
                ),
            )
        )
    return tuple(found)
