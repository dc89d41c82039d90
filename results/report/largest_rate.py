"""The largest rates within a service level, where a folder is of such a search (`batchyard capacity`)."""

from dataclasses import dataclass

from results.findings import Findings
from results.report import numbers

COLUMNS = (
    "strategy",
    "largest rate within (req/s)",
    "lowest rate beyond",
    "completed when all are there at once",
    "share of that",
    "trials",
    "what it does not keep beyond",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestRates:
    """The service level in words, and a row of texts for each setting."""

    level: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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
                numbers.NOTHING if most is None else f"{numbers.number(most)} req/s",
                numbers.share(low / most) if low is not None and most else numbers.NOTHING,
                f"{numbers.number(one['trials'])}{'' if one.get('settled', True) else ', not settled'}",
                str(one.get("why_beyond") or numbers.NOTHING),
            )
        )
    return LargestRates(level=asked["text"], columns=COLUMNS, rows=tuple(rows))
