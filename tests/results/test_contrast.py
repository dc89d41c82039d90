"""Text can be read: its contrast is at least 4.5, as WCAG 2.2 has it, in both schemes and in print."""

import re

import pytest

from results.report import frame, theme

LEAST = 4.5
TEXTS = {  # variable of the text → those that it stands on
    "ink": ("paper", "ground"),
    "muted": ("paper", "ground"),
    "accent": ("paper", "ground"),
    "warn": ("paper", "warn-ground"),
    "bad": ("paper",),
    "good": ("paper",),
}


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_known_pairs() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_text_of_the_page() -> None:
    schemes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", (frame._HERE / "style.css").read_text(), re.DOTALL)
    ]
    assert len(schemes) == 3  # light, dark, printed
    for scheme in schemes:
        found = {(a, b): contrast(scheme[a], scheme[b]) for a, on in TEXTS.items() for b in on}
        assert {pair: value for pair, value in found.items() if value < LEAST} == {}


@pytest.mark.parametrize("scheme", [{}, theme.DARK], ids=["light", "dark"])
def test_text_in_figures(scheme: dict[str, str]) -> None:
    on = [(theme.INK, theme.PAPER), (theme.MUTED, theme.PAPER), (theme.PAPER, theme.POLICY)]
    on += [(theme.PAPER, theme.ENGINE), *((theme.INK, end) for end in theme.SCALE)]
    on += [(theme.TRIGGER_TEXTS[name], colour) for name, colour in theme.TRIGGERS.items()]
    found = {pair: contrast(*(scheme.get(colour, colour) for colour in pair)) for pair in on}
    assert {pair: value for pair, value in found.items() if value < LEAST} == {}
