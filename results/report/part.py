"""What a page says of one sweep alone, beside the figures that it shares with the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from results.report.answer import Answer, answer
from results.report.expected import Row, expected
from results.report.largest_rate import LargestRates, largest_rates
from results.report.series import Series
from results.report.setup import Setup, setup
from results.report.several import Shown
from results.report.trust import Trust, trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One sweep in words; `name` is "" where it is alone on its page, `suffix` what its ids end with, "" of the first."""

    name: str
    suffix: str
    answer: Answer
    largest: LargestRates | None
    expected: tuple[Row, ...]
    trust: Trust
    setup: Setup


def part(shown: Shown, series: Sequence[Series], number: int) -> Part:
    """Give that number `number` (from 0); `series` are all of the page, so that a setting looks alike in words and figures."""
    found = shown.findings
    own = [one for one in series if one.sweep == shown.name]
    return Part(
        name=shown.name,
        suffix=f"-{number + 1}" if number else "",
        answer=answer(found, own),
        largest=largest_rates(found),
        expected=expected(found),
        trust=trust(found, shown.store, own),
        setup=setup(found),
    )
