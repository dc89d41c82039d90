"""A panel: a heading that states a finding, charts, the controls that change them, and the data as a table."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from results.report.amounts import Cell

_UNITS = re.compile(r"(\d) (%|ms\b|s\b)")
SEPARATOR = "|"  # between the values of the controls in a view's key


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a row of a table or a choice is about: it is shown, and offered, while all its series and its rate are."""

    series: tuple[str, ...] = ()  # keys
    rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One position of a control; `title` explains it when the pointer rests on it.

    With a `mark` it is offered while what it is about is shown (scripts/offered.js).
    """

    value: str
    label: str
    title: str = ""
    mark: Mark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One list to choose from."""

    name: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure; `summary` says in words what it shows.

    Where a panel has several, `title` names it, `meaning` explains that, and `heading` states what it shows when it
    stands alone, as an image.
    """

    figure: go.Figure
    summary: str
    title: str = ""
    meaning: str = ""
    heading: str = ""

    def specification(self) -> dict[str, Any]:
        """Give what the page's script draws."""
        spec: dict[str, Any] = json.loads(self.figure.to_json())
        said = {"summary": self.summary, "title": self.title, "heading": unbroken(self.heading)}
        return {"data": spec["data"], "layout": spec["layout"], **said}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a panel shows at one position of its controls. `note` is a sentence below the charts."""

    heading: str
    charts: tuple[Chart, ...]
    note: str = ""

    def specification(self) -> dict[str, Any]:
        """Give what the page's script shows."""
        return {
            "heading": unbroken(self.heading),
            "note": self.note,
            "charts": [chart.specification() for chart in self.charts],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Data in rows: what is a number is a `Value`, so that the CSV has it as it is stored."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marks: tuple[Mark, ...] = ()  # what each row is about, so that the page's filters reach it


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Views by key: the values of the controls in order, joined by `SEPARATOR`.

    Every combination of choices has a view and all views have as many charts; the first choices are shown.
    With `live`, JSON that the page's script with this panel's name gets (results/report/scripts), that script makes
    the views; `views` then holds the first alone, whose charts keep the places.
    """

    name: str
    controls: tuple[Control, ...]
    views: Mapping[str, View]
    table: Table
    notes: tuple[str, ...] = ()
    live: Mapping[str, Any] | None = None

    @property
    def first(self) -> View:
        """The view that is shown when the page opens."""
        return self.views[SEPARATOR.join(control.choices[0].value for control in self.controls)]

    def specification(self) -> dict[str, Any]:
        """Give all views for the page's script, or what it makes them from."""
        views = {} if self.live is not None else self.views
        return {
            "live": self.live,
            "views": {key: view.specification() for key, view in views.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A panel that cannot be drawn, and why: the page says so instead of showing an empty figure."""

    name: str
    heading: str
    reason: str


def unbroken(text: str) -> str:
    """Keep a setting such as "dynamic · 8 · 50 ms" on one line, and a number with its unit and its "≤"."""
    return _UNITS.sub("\\1\u00a0\\2", text.replace(" · ", "\u00a0·\u00a0").replace("≤ ", "≤\u00a0"))
