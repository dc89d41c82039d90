"""How the page looks: its colours, and the layout that all figures share (results/report/series_style.py: the series).

Every colour has a twin for a dark background: the page swaps them when the reader prefers dark, so figures are
built once, in the light ones.
"""

from collections.abc import Sequence
from typing import Any

from results.report.series_style import FAMILIES, OTHERS

INK = "#1d2530"
MUTED = "#5c6673"
GRID = "#dfe3e8"
PAPER = "#ffffff"
POLICY = "#7a5195"
ENGINE = "#6b7682"
TRIGGERS: dict[str, str] = {
    "size": "#4f5b6a",
    "age": "#d39b00",
    "memory": "#9b3f8c",
    "flush": "#b4bbc4",
    "join": "#7f6b48",
}
ON_BRIGHT = "#1d2531"  # text on a colour that is bright in both schemes
TRIGGER_TEXTS: dict[str, str] = {
    "size": PAPER,
    "age": ON_BRIGHT,
    "memory": PAPER,
    "flush": INK,
    "join": PAPER,
}
"""Text on the colour of each trigger."""
HOLDINGS: dict[str, str] = {
    "prefill": "#d39b00",
    "decode": "#2d7f8f",
    "padding": "#9b3f8c",
    "finished": "#b4bbc4",
    "waiting": "#8a7550",
}
"""What a slot is held for."""
WAIT = "#e3d8c3"  # where waiting would outweigh everything in the colour of a slot's
SCALE = ("#f1f3f6", "#9d8fd0")
"""The two ends of a heatmap's colours, least and most: ink can be read on all between."""
_NEUTRALS: dict[str, str] = {
    INK: "#e8ecf1",
    MUTED: "#a3adba",
    ON_BRIGHT: ON_BRIGHT,
    GRID: "#343c47",
    PAPER: "#181d24",
    POLICY: "#b795d0",
    ENGINE: "#a3adb8",
    "#4f5b6a": "#93a1b3",
    "#d39b00": "#e3b341",
    "#9b3f8c": "#d583c8",
    "#b4bbc4": "#59626e",
    "#8a7550": "#c0a877",
    "#7f6b48": "#c0a877",
    "#2d7f8f": "#58b5c6",
    WAIT: "#4b4437",
    SCALE[0]: "#232a33",
    SCALE[1]: "#5b4aa8",
}
DARK: dict[str, str] = _NEUTRALS | {
    light: dark for shades in (*FAMILIES.values(), OTHERS) for light, dark in shades
}
"""Every colour used in a figure → its twin on a dark background."""


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """Give an axis with its unit in the title."""
    plain = {
        "title": {"text": title, "standoff": 8},
        "gridcolor": GRID,
        "linecolor": MUTED,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": GRID,
        "automargin": True,
        "showline": True,
    }
    return plain | settings


def layout(*, height_px: int, legend: bool = False, **settings: Any) -> dict[str, Any]:
    """Give the layout that all figures share. The page has a legend of its own for the series."""
    shared = {
        "template": {},
        "height": height_px,
        "paper_bgcolor": PAPER,
        "plot_bgcolor": PAPER,
        "font": {
            "family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif",
            "size": 13,
            "color": INK,
        },
        "margin": {"l": 60, "r": 16, "t": 30, "b": 56},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": PAPER,
            "bordercolor": MUTED,
            "font": {"color": INK, "size": 13},
            "align": "left",
        },
        "showlegend": legend,
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "xanchor": "left",
            "font": {"size": 12},
        },
    }
    return shared | settings


def no_change(axis_name: str, value: float) -> dict[str, Any]:
    """Give the line at "no change", across the plot at a value of the x or y axis."""
    across = "y" if axis_name == "x" else "x"
    return {
        "type": "line",
        f"{across}ref": "paper",
        f"{across}0": 0,
        f"{across}1": 1,
        f"{axis_name}0": value,
        f"{axis_name}1": value,
        "line": {"color": INK, "width": 1.2},
    }


def log_ticks(values: Sequence[float], steps: Sequence[float] = (1, 2, 5)) -> list[float]:
    """Give round tick values that cover positive `values` on a logarithmic axis, at most about ten, and finer ones in little room."""
    low, high = min(values), max(values)
    within = sum(low <= step * 10.0**exponent <= high for exponent in range(-9, 10) for step in steps)
    for chosen in ((1, 1.2, 1.5, 2, 3, 5, 7) if within < 3 else tuple(steps), (1, 3), (1,)):
        ticks = [
            float(f"{step}e{exponent}")
            for exponent in range(-9, 10)
            for step in chosen
            if low / 1.5 <= float(f"{step}e{exponent}") <= high * 1.5
        ]
        if len(ticks) <= 10:
            break
    return ticks
