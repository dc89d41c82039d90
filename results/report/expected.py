"""What was expected, what became of it, and every case with its interval."""

from collections import Counter
from dataclasses import dataclass

from results.findings import Evidence, Expectation, Findings
from results.report import numbers

_FIRST = {"refuted": 0, "not shown": 1, "confirmed": 2}

MEANINGS: dict[str, str] = {
    "confirmed": "the interval of every case says so",
    "refuted": "the interval of at least one case says the contrary",
    "not shown": "the intervals allow both",
    "not tested": "the sweep has no such cells, or none that can be compared",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One expectation; `evidence` has what decides it first."""

    expectation: Expectation
    counts: str
    evidence: tuple[Evidence, ...]


def expected(findings: Findings) -> tuple[Row, ...]:
    """Give H1 to H6 as the page shows them; nothing with nothing measured."""
    return tuple(_row(one) for one in findings.expectations) if findings.cells else ()


def _row(one: Expectation) -> Row:
    counts = Counter(evidence.outcome for evidence in one.evidence)
    parts = [
        f"{counts[outcome]} {outcome}" for outcome in ("confirmed", "not shown", "refuted") if counts[outcome]
    ]
    cases = numbers.count(len(one.evidence), "case")
    return Row(
        expectation=one,
        counts=f"{cases}: {', '.join(parts)}" if parts else MEANINGS["not tested"],
        evidence=tuple(sorted(one.evidence, key=lambda evidence: _FIRST[evidence.outcome])),
    )
