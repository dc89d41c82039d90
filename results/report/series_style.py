"""How a series is drawn: hue says the strategy, shade and marker its knobs, the dash of the line where it ran.

The hues are from Okabe and Ito's colour-blind-safe palette (Color Universal Design, 2008); shades of one hue differ
in lightness and saturation (made in OKLCH, at the hue of the first).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from results.records import SIMULATED

# family → (light, dark) per setting, the plainest first
FAMILIES: dict[str, tuple[tuple[str, str], ...]] = {
    "naive": (
        ("#c4520a", "#f08a4b"),
        ("#e08a50", "#f8b58c"),
        ("#8f3a04", "#d9702f"),
        ("#a5725c", "#c49275"),
        ("#6d4431", "#97684d"),
        ("#441700", "#ffe1d1"),
    ),
    "dynamic": (
        ("#0067a8", "#56aeea"),
        ("#4f9bd0", "#9fd2f6"),
        ("#003f6b", "#2f8fd4"),
        ("#6484a2", "#7da4c1"),
        ("#38536b", "#537995"),
        ("#002846", "#d3ecff"),
    ),
    "continuous": (
        ("#007f5c", "#35c79b"),
        ("#47a98b", "#8fe3c6"),
        ("#00523b", "#1aa87d"),
        ("#648a79", "#73ad96"),
        ("#38584a", "#49826d"),
        ("#002f20", "#caf3e2"),
    ),
}
OTHERS: tuple[tuple[str, str], ...] = (
    ("#a0457f", "#e08fc2"),
    ("#c27fa9", "#efb9da"),
    ("#702a57", "#c9679f"),
    ("#9b718a", "#b990a9"),
    ("#664357", "#8d677e"),
    ("#411130", "#fcdef0"),
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


def style(family: str, backend: str, place: tuple[int, int] = (0, 0), dash: str | None = None) -> Style:
    """Give the style of the family's setting at a place (`places`) on a backend, or with a dash of its own."""
    shade, marker = place
    shades = FAMILIES.get(family, OTHERS)
    symbols = _SYMBOLS.get(family, _OTHER_SYMBOLS)
    return Style(
        colour=shades[shade % len(shades)][0],
        dash=dash or dash_of(backend),
        symbol=symbols[marker % len(symbols)],
    )


def places(
    settings: Iterable[tuple[str, str, Mapping[str, object]]],
) -> dict[tuple[str, str], tuple[int, int]]:
    """Give the place of each (strategy, setting), of their knobs: it looks alike on every backend."""
    knobs: dict[str, dict[str, Mapping[str, object]]] = {}
    for strategy, setting, of in settings:
        knobs.setdefault(strategy, {}).setdefault(setting, of)
    return {
        (strategy, setting): place
        for strategy, of_family in knobs.items()
        for setting, place in zip(of_family, _places(list(of_family.values())), strict=True)
    }


def _places(knobs: Sequence[Mapping[str, object]]) -> list[tuple[int, int]]:
    """Give the shade and the marker of each setting of a family, by number from 0.

    Of max_batch_size and the other knobs together, the one with more values is the shade and the other the marker.
    Where only one varies, or there are more than there are looks, settings differ in both, one after the other.
    """
    sizes = [repr(one.get("max_batch_size")) for one in knobs]
    others = [repr(sorted((k, v) for k, v in one.items() if k != "max_batch_size")) for one in knobs]
    by_size, by_other = ([list(dict.fromkeys(of)).index(one) for one in of] for of in (sizes, others))
    if max(by_size, default=0) > max(by_other, default=0):
        by_size, by_other = by_other, by_size
    found = list(zip(by_other, by_size, strict=True))
    fits = max(by_other, default=0) < len(OTHERS) and max(by_size, default=0) < len(_OTHER_SYMBOLS)
    if fits and any(by_size) and len(set(found)) == len(found):
        return found
    return [(n % len(OTHERS), n + n // len(OTHERS)) for n in range(len(knobs))]


def dash_of(backend: str) -> str:
    """Give the dash of a backend where a page has one sweep."""
    return _DASHES.get(backend.removeprefix(f"{SIMULATED} "), "longdash")


def another_dash(taken: Collection[str]) -> str:
    """Give a dash that is not taken yet; they begin anew where none is left."""
    return next((one for one in STROKES if one not in taken), list(STROKES)[len(taken) % len(STROKES)])
