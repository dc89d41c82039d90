"""The answer of a capacity search for a person and for a script."""

from typing import Any

from experiments.console import table
from experiments.cost_so_far import cost_document
from experiments.largest_rate.answers import Answer
from experiments.largest_rate.question import Question
from experiments.largest_rate.run import Outcome
from results.price import Price
from results.report import numbers

NOT_SETTLED = ", not settled"
_TITLES = ("backend", "strategy", "within req/s", "beyond req/s", "all at once", "share", "trials")


def lines(answers: tuple[Answer, ...]) -> list[str]:
    """A row for each setting; the rates are the bracket, the share is of the saturated engine's rate."""
    return table(_TITLES, [_row(answer) for answer in answers], right=2)


def doubts(answers: tuple[Answer, ...]) -> str | None:
    """What a bracket is that was not settled; None where all were."""
    if all(answer.bracket.settled for answer in answers):
        return None
    return (
        "Not settled: the trials were used up before the bracket was narrow and both its ends tried twice. It is what "
        "no trial speaks against: all were within at its lower end, none at its upper end and above. A larger "
        "--max-trials goes on."
    )


def cost(question: Question, outcome: Outcome) -> str | None:
    """What it has cost, with its saturation runs; None without a price, and in virtual time."""
    if (price := _price(question)) is None:
        return None
    return f"Cost: {outcome.spent.text(price)}, {outcome.spent.gpu_hours:.3g} GPU hours."


def _price(question: Question) -> Price | None:
    return None if question.premises is not None else question.config.price


def _row(answer: Answer) -> tuple[str, ...]:
    low, high = answer.bracket.within, answer.bracket.beyond
    share = None if low is None or not answer.saturation else low / answer.saturation
    open_end = "–" if answer.wanted is None else "not yet"
    return (
        answer.backend,
        answer.setting,
        open_end if low is None else numbers.number(low),
        open_end if high is None else numbers.number(high),
        numbers.number(answer.saturation),
        "–" if share is None else f"{100 * share:.0f} %",
        f"{len(answer.tried)}{NOT_SETTLED if not answer.bracket.settled else ''}",
    )


def to_dict(question: Question, outcome: Outcome) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "name": question.name,
        "folder": outcome.root,
        "page": outcome.page,
        "simulated": question.premises is not None,
        "slo": ",".join(target.key for target in question.targets),
        "width": question.width,
        "max_trials": question.max_trials,
        "complete": outcome.complete,
        "stopped_at": outcome.stopped_at,
        "cost": None if (price := _price(question)) is None else cost_document(outcome.spent, price, None),
        "answers": [answer.to_dict() for answer in outcome.answers],
        "problems": list(outcome.problems),
    }
