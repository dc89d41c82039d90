"""The largest rates within a service level, where a folder is of such a search (`batchyard capacity`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from results.findings import Findings
from results.report import numbers

COLUMNS = (
    "strategy",
    "within, req/s",
    "beyond, req/s",
    "all at once, req/s",
    "share",
    "trials",
    "why not beyond",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestRates:
    """The service level in words, a row of texts for each setting, and whether each search came to its bracket.

    `found`: each setting with its bracket in words, the largest rate first.
    """

    level: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    settled: bool
    found: tuple[tuple[str, str], ...]


def largest_rates(findings: Findings) -> LargestRates | None:
    """From sweep.json, whose `capacity` results/sweep_document.py has checked; None for another sweep."""
    asked = findings.sweep.get("capacity")
    if asked is None:
        return None
    rows = []
    for one in asked["answers"]:
        low, high, most = one["within"], one["beyond"], one["saturation"]
        open_end = "none found" if one["complete"] else "not searched yet"
        rows.append(
            (
                f"{one['backend']} / {one['setting']}",
                open_end if low is None else numbers.number(low),
                open_end if high is None else numbers.number(high),
                numbers.number(most),
                numbers.share(low / most) if low is not None and most else numbers.NOTHING,
                f"{numbers.number(one['trials'])}{'' if one.get('settled', True) else ', not settled'}",
                str(one.get("why_beyond") or numbers.NOTHING),
            )
        )
    settled = all(one.get("settled", True) for one in asked["answers"])
    best = sorted(asked["answers"], key=lambda one: -float(one["within"] or 0))
    return LargestRates(
        level=asked["text"],
        columns=COLUMNS,
        rows=tuple(rows),
        settled=settled,
        found=tuple((_name(one), _bracket(one)) for one in best),
    )


def _bracket(one: Mapping[str, Any]) -> str:
    low, high = one["within"], one["beyond"]
    if low is None:
        return "at none that was tried" if one["complete"] else "not known yet"
    if high is None:
        return f"{numbers.number(low)} req/s and more"
    return f"{numbers.number(low)} to {numbers.number(high)} req/s"


def headline(findings: Findings) -> str | None:
    """Which setting keeps the service level at the largest rate, and how far the next one does; None for another sweep."""
    asked = findings.sweep.get("capacity")
    if asked is None:
        return None
    within = [one for one in asked["answers"] if one["within"] is not None]
    if not within:
        searched = all(one["complete"] for one in asked["answers"])
        return (
            f"No setting {'keeps' if searched else 'has been seen to keep'} {asked['text']} at any rate tried"
        )
    first, *others = sorted(within, key=lambda one: -float(one["within"]))
    said = f"{_name(first)} keeps {asked['text']} up to {numbers.rate(first['within'])}"
    if first["beyond"] is not None:
        said += f" and not at {numbers.number(first['beyond'])}"
    if others:
        said += f"; the next, {_name(others[0])}, up to {numbers.number(others[0]['within'])}"
    return said[0].upper() + said[1:]


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['setting']} on {one['backend']}"
