"""How the page looks: colours, dashes, markers, and the layout that all figures share.

Colour says the strategy's family, everywhere on the page and nothing else; marker and lightness tell the
settings of one family apart; the dash of a line says the backend. The hues are from Okabe and Ito's
colour-blind-safe palette (Color Universal Design, 2008). Every colour has a twin for a dark background:
the page swaps them when the reader prefers dark, so figures are built once, in the light ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from results.records import SIMULATED

# family → (light, dark) per setting, the plainest first
_FAMILIES: dict[str, tuple[tuple[str, str], ...]] = {
    "naive": (("#c4520a", "#f08a4b"), ("#e08a50", "#f8b58c"), ("#8f3a04", "#d9702f")),
    "dynamic": (("#0067a8", "#56aeea"), ("#4f9bd0", "#9fd2f6"), ("#003f6b", "#2f8fd4")),
    "continuous": (("#007f5c", "#35c79b"), ("#47a98b", "#8fe3c6"), ("#00523b", "#1aa87d")),
}
_OTHERS: tuple[tuple[str, str], ...] = (
    ("#a0457f", "#e08fc2"),
    ("#c27fa9", "#efb9da"),
    ("#702a57", "#c9679f"),
)
_SYMBOLS: dict[str, tuple[str, ...]] = {
    "naive": ("square", "cross", "pentagon"),
    "dynamic": ("circle", "diamond", "hexagon"),
    "continuous": ("triangle-up", "star", "triangle-down"),
}
_OTHER_SYMBOLS = ("x", "diamond-wide", "octagon")
SHAPES: dict[str, str] = {
    "square": "3,3 11,3 11,11 3,11",
    "cross": "5,2 9,2 9,5 12,5 12,9 9,9 9,12 5,12 5,9 2,9 2,5 5,5",
    "pentagon": "7,2 12,5.6 10,11.5 4,11.5 2,5.6",
    "circle": "7,2 9.5,2.7 11.3,4.5 12,7 11.3,9.5 9.5,11.3 7,12 4.5,11.3 2.7,9.5 2,7 2.7,4.5 4.5,2.7",
    "diamond": "7,1 13,7 7,13 1,7",
    "hexagon": "7,2 11.4,4.5 11.4,9.5 7,12 2.6,9.5 2.6,4.5",
    "triangle-up": "7,1.5 13,11.5 1,11.5",
    "triangle-down": "7,12.5 13,2.5 1,2.5",
    "star": "7,0.5 8.6,5.1 13.4,5.1 9.5,8 11,12.6 7,9.8 3,12.6 4.5,8 0.6,5.1 5.4,5.1",
    "x": "4,1.5 7,4.5 10,1.5 12.5,4 9.5,7 12.5,10 10,12.5 7,9.5 4,12.5 1.5,10 4.5,7 1.5,4",
    "diamond-wide": "7,3 14,7 7,11 0,7",
    "octagon": "5,2 9,2 12,5 12,9 9,12 5,12 2,9 2,5",
}
"""Marker → its outline in a box of 14 × 14, for the page's own legend."""
_DASHES: dict[str, str] = {
    "vllm": "solid",
    "huggingface": "dash",
    "huggingface-continuous": "dot",
    "simulated": "dashdot",
}

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
    "join": "#8a7550",
}
HOLDINGS: dict[str, str] = {
    "prefill": "#d39b00",
    "decode": "#2d7f8f",
    "padding": "#9b3f8c",
    "finished": "#b4bbc4",
    "waiting": "#8a7550",
}
"""What a slot is held for."""
_NEUTRALS: dict[str, str] = {
    INK: "#e8ecf1",
    MUTED: "#a3adba",
    GRID: "#343c47",
    PAPER: "#181d24",
    POLICY: "#b795d0",
    ENGINE: "#a3adb8",
    "#4f5b6a": "#93a1b3",
    "#d39b00": "#e3b341",
    "#9b3f8c": "#d583c8",
    "#b4bbc4": "#59626e",
    "#8a7550": "#c0a877",
    "#2d7f8f": "#58b5c6",
}
DARK: dict[str, str] = _NEUTRALS | {
    light: dark for shades in (*_FAMILIES.values(), _OTHERS) for light, dark in shades
}
"""Every colour used in a figure → its twin on a dark background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How one strategy setting on one backend is drawn."""

    colour: str
    dash: str
    symbol: str


def style(family: str, backend: str, position: int) -> Style:
    """Give the style of the family's setting number `position` (from 0) on a backend."""
    shades = _FAMILIES.get(family, _OTHERS)
    symbols = _SYMBOLS.get(family, _OTHER_SYMBOLS)
    return Style(
        colour=shades[position % len(shades)][0],
        dash=_DASHES.get(backend.removeprefix(f"{SIMULATED} "), "longdash"),
        symbol=symbols[position % len(symbols)],
    )


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
    """Give round tick values that cover positive `values` on a logarithmic axis, at most about ten."""
    low, high = min(values), max(values)
    for chosen in (tuple(steps), (1, 3), (1,)):
        ticks = [
            float(f"{step}e{exponent}")
            for exponent in range(-9, 10)
            for step in chosen
            if low / 1.5 <= float(f"{step}e{exponent}") <= high * 1.5
        ]
        if len(ticks) <= 10:
            break
    return ticks
