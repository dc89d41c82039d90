"""Figures that are drawn without a second look at their traces are what plotly takes, layout and all."""

from pathlib import Path
from types import ModuleType

import plotly.graph_objects as go
import pytest

from results.report import drawn
from results.report.page import _panels
from results.report.panel import Panel
from results.summary import find


def test_every_figure_of_a_page_is_valid(made_sweep: ModuleType, tmp_path: Path) -> None:
    panels = _panels(find(made_sweep.make_sweep(tmp_path, repeats=2, rates=(1.0, 30.0), requests=12)))
    figures = [
        chart.figure
        for panel in panels.values()
        if isinstance(panel, Panel)
        for view in panel.views.values()
        for chart in view.charts
    ]
    assert len(figures) > 50
    for figure in figures:
        go.Figure(figure.to_dict())


def test_a_key_that_plotly_does_not_know_is_found() -> None:
    with pytest.raises(ValueError, match="hieght"):
        go.Figure(drawn.figure([go.Scatter(y=[1])], {"hieght": 3}).to_dict())
    with pytest.raises(ValueError, match="modes"):
        drawn.figure([go.Scatter(y=[1], modes="lines")], {})
