"""What every page has: one HTML file that opens offline, with Plotly's script inside it once.

Everything that comes from data is escaped: by the template in HTML, by `html.escape` in Plotly's texts,
and in embedded JSON by writing "<" as \\u003c. A content security policy in the page forbids it to
load anything at all.
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from results.address import Place, head, place
from results.errors import cannot_write
from results.output_file import new_file
from results.report import glossary, series_style, theme
from results.report.packed import Block, deflated
from results.report.panel import Absent, Panel, unbroken
from results.report.series import Series

SCRIPTS = (
    "embedded.js",
    "packed.js",
    "shown.js",
    "offered.js",
    "figures.js",
    "print.js",
    "texts.js",
    "link.js",
    "sentences.js",
    "filters.js",
    "image.js",
    "downloads.js",
    "goodput.js",
    "slo.js",
    "knobs.js",
    "pareto.js",
    "timelines.js",
    "closeup.js",
    "distributions.js",
    "player.js",
    "slots.js",
    "occupancy.js",
    "start.js",
)
"""The page's own scripts in results/report/scripts, run in this order as one strict function."""

STYLES = ("style.css", "answer.css")

GENERATOR = '<meta name="generator" content="batchyard">'

_HERE = Path(__file__).parent
_HEAD_BYTES = 2_000
_MOST_KEYS = 12  # of a legend beside each figure; with more it stands in the bar that stays in sight


def write(page: str, path: str | os.PathLike[str], *, make_folder: bool = True) -> None:
    """Write the page in place of what is there: a reader sees the old one or the new one, whole.

    StoreError if it cannot be written.
    """
    target = place(path)
    try:
        if make_folder and isinstance(target, Path):
            target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(str(target), error) from error
    with new_file(target) as file:
        file.write(page.encode())


def is_page(path: Place) -> bool:
    """Whether a file says in its head that it is a page that this program made."""
    try:
        return GENERATOR.encode() in head(path, _HEAD_BYTES)
    except OSError:
        return False


def frame(
    template: str,
    panels: Mapping[str, Panel | Absent],
    *,
    series: Sequence[Series] = (),
    blocks: Sequence[Block] = (),
    origin: Sequence[str] = (),
    **values: Any,
) -> str:
    """Give a page as HTML: a template that extends frame.html.j2, its panels and what else it names.

    `series`: what the page can be filtered by; `blocks`: columns that its scripts read; `origin`: lines that go with
    every image of a figure, the page's title where there are none.
    """
    page = _environment().get_template(template)
    return page.render(
        panels=panels,
        generator=Markup(GENERATOR),
        dark=theme.DARK,
        shapes=series_style.SHAPES,
        data=deflated(
            _json({name: p.specification() for name, p in panels.items() if isinstance(p, Panel)}).encode()
        ),
        colours=_embedded(theme.DARK),
        formulas=_embedded(glossary.formulas()),
        series=series,
        many=len(series) > _MOST_KEYS,
        known_series=_embedded([one.filters() for one in series]),
        blocks=blocks,
        origin=_embedded(origin),
        plotly=Markup(get_plotlyjs()),
        style=Markup("\n".join((_HERE / name).read_text(encoding="utf-8") for name in STYLES)),
        script=Markup(script()),
        **values,
    )


@cache
def _environment() -> Environment:
    """Compile each template once in a process: it takes a tenth of a second."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    environment.filters["formula"] = glossary.formula_of
    return environment


def script() -> str:
    """Give the page's own scripts as one."""
    parts = [(_HERE / "scripts" / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(('"use strict";', "(async () => {", *parts, "})();"))


def _embedded(value: Mapping[str, Any] | Sequence[Any]) -> Markup:
    """Give JSON that can stand in a script element: it cannot close it."""
    escaped = _json(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(escaped.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
