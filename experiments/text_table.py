"""Lines of aligned columns that never exceed a width: plain text, cheap enough to draw every second.

A rich table of twenty rows takes several milliseconds to draw, these lines a tenth of one; and where there
is no room it narrows the columns that it is told to, never a number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

WIDE = 100  # from this width on columns stand two blanks apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A title, and what happens to it where there is no room."""

    title: str
    right: bool = False  # numbers stand on the right
    least: int | None = None  # may be narrowed to so many characters; None: never
    turn: int = 0  # those with a low one are narrowed first


def lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The titles and the rows, each at most `width` characters wide."""
    titles = [column.title for column in columns]
    widths = [max(map(cell_len, texts)) for texts in zip(titles, *rows, strict=True)]
    gap = "  " if width >= WIDE else " "
    excess = sum(widths) + len(gap) * (len(widths) - 1) - width
    for place, column in sorted(enumerate(columns), key=lambda one: one[1].turn):
        if column.least is not None and excess > 0:
            narrower = max(min(column.least, widths[place]), widths[place] - excess)
            excess -= widths[place] - narrower
            widths[place] = narrower
    return [fit(gap.join(_cells(columns, widths, row)).rstrip(), width) for row in (titles, *rows)]


def fit(text: str, width: int) -> str:
    """The text, its end replaced by "…" where it is wider than that."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)) + "…"[:width]


def _cells(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> Iterator[str]:
    for column, wide, text in zip(columns, widths, row, strict=True):
        blanks = " " * (wide - cell_len(text))
        yield blanks + text if column.right else fit(text, wide) + blanks
