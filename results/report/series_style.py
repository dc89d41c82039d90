"""How a series is drawn: hue says the strategy, shade and marker its setting, the dash of the line where it ran.

The hues are from Okabe and Ito's colour-blind-safe palette (Color Universal Design, 2008); shades of one hue differ
in lightness, and markers differ with them.
"""

from collections.abc import Collection
from dataclasses import dataclass

from results.records import SIMULATED

# family → (light, dark) per setting, the plainest first
FAMILIES: dict[str, tuple[tuple[str, str], ...]] = {
    "naive": (
        ("#c4520a", "#f08a4b"),
        ("#e08a50", "#f8b58c"),
        ("#8f3a04", "#d9702f"),
        ("#b07a1a", "#dcae54"),
        ("#d9534a", "#f2908a"),
        ("#6b4a33", "#c3a189"),
    ),
    "dynamic": (
        ("#0067a8", "#56aeea"),
        ("#4f9bd0", "#9fd2f6"),
        ("#003f6b", "#2f8fd4"),
        ("#6a6fd0", "#a3a6f0"),
        ("#0092b3", "#4cc5e3"),
        ("#7d95b3", "#b9cbe2"),
    ),
    "continuous": (
        ("#007f5c", "#35c79b"),
        ("#47a98b", "#8fe3c6"),
        ("#00523b", "#1aa87d"),
        ("#5d9a2c", "#9ad06a"),
        ("#008f8f", "#45c9c9"),
        ("#7a8f6a", "#b5c7a5"),
    ),
}
OTHERS: tuple[tuple[str, str], ...] = (
    ("#a0457f", "#e08fc2"),
    ("#c27fa9", "#efb9da"),
    ("#702a57", "#c9679f"),
    ("#c0507a", "#ef94b3"),
    ("#8a5cb0", "#bf9be0"),
    ("#9a8090", "#cbb8c4"),
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
STROKES: dict[str, str] = {
    "solid": "none",
    "dash": "6 3",
    "dot": "2 3",
    "dashdot": "7 2 2 2",
    "longdash": "10 3",
    "longdashdot": "10 2 2 2",
    "3px,6px": "3 6",
    "9px,3px,2px,3px,2px,3px": "9 2 2 2 2 2",
}
"""Dash of a line → the same in an SVG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How one strategy setting in one place is drawn."""

    colour: str
    dash: str
    symbol: str

    @property
    def stroke(self) -> str:
        """The dash for the page's own legend."""
        return STROKES[self.dash]


def style(family: str, backend: str, position: int, dash: str | None = None) -> Style:
    """Give the style of the family's setting number `position` (from 0) on a backend, or with a dash of its own."""
    shades = FAMILIES.get(family, OTHERS)
    symbols = _SYMBOLS.get(family, _OTHER_SYMBOLS)
    return Style(
        colour=shades[position % len(shades)][0],
        dash=dash or dash_of(backend),
        symbol=symbols[(position + position // len(shades)) % len(symbols)],
    )


def dash_of(backend: str) -> str:
    """Give the dash of a backend where a page has one sweep."""
    return _DASHES.get(backend.removeprefix(f"{SIMULATED} "), "longdash")


def another_dash(taken: Collection[str]) -> str:
    """Give a dash that is not taken yet; they begin anew where none is left."""
    return next((one for one in STROKES if one not in taken), list(STROKES)[len(taken) % len(STROKES)])
