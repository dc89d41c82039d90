"""A search for the largest rates as the command line runs it: begun, gone on with, and what is said of it."""

from typing import TYPE_CHECKING, Any

import typer

from experiments.commands.arguments import must_be_named
from experiments.commands.outcome import further
from experiments.console import emit, show, show_prose, tell
from experiments.errors import ConfigError
from experiments.largest_rate.search import MOST_TRIALS
from results.address import Place, place
from results.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.budget import Limits
    from experiments.largest_rate.question import Question
    from experiments.largest_rate.run import Outcome
    from experiments.simulation.premise import Premise
    from experiments.where import Where
    from results.service_level import Target


def run(
    question: "Question",
    results: Place,
    again: str,
    known: "dict[str, Premise] | None",
    where: "Where",
    limits: "Limits",
    *,
    fresh: bool,
) -> "Outcome":
    """Search, or go on with it. `known`: step times by backend, where there are any."""
    from experiments.largest_rate.run import run_measured, run_simulated

    root = question.root(results)
    try:
        if question.premises is None:
            return run_measured(question, root, tell, known, fresh=fresh, where=where, limits=limits)
        for name, premise in question.premises.items():
            tell(f"simulated {name}: {premise.text}")
        return run_simulated(question, root, tell, fresh=fresh)
    except KeyboardInterrupt:
        tell(f"interrupted; nothing that was done is lost: `{again}` goes on")
        raise typer.Exit(130) from None


def resume(
    info: "Mapping[str, Any]",
    folder: Place,
    where: "Where",
    limits: "Limits",
    *,
    again: str,
    as_json: bool,
) -> None:
    """Go on with what sweep.json says was asked last."""
    from experiments.config import parse
    from experiments.largest_rate.question import Question
    from experiments.simulation.premise import Premise

    source = f"{folder}/sweep.json"
    try:
        asked, virtual = info["capacity"], info.get("simulated")
        question = Question(
            config=parse(info["config"], source=source).on_any_gpu(),
            targets=targets(asked["slo"]),
            width=float(asked["width"]),
            max_trials=int(asked.get("max_trials", MOST_TRIALS)),
            strategies=tuple(map(str, asked["strategies"])),
            premises={name: Premise.from_record(one) for name, one in virtual["backends"].items()}
            if virtual
            else None,
            options=tuple(map(str, asked["options"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{source}: capacity must hold slo, width, strategies and options: {error}"
        ) from error
    must_be_named(folder, place(question.root(folder.resolve().parent)).name)
    outcome = run(question, folder.resolve().parent, again, None, where, limits, fresh=False)
    conclude(question, outcome, again, as_json=as_json)


def conclude(question: "Question", outcome: "Outcome", again: str, *, as_json: bool) -> None:
    """Say what was found. Exits with 1 if a search did not come to its end."""
    from experiments.largest_rate.text import cost, doubts, lines, to_dict

    if as_json:
        emit(to_dict(question, outcome))
    else:
        show_prose(
            f"{question.name}: largest rate with {', '.join(target.text for target in question.targets)}"
        )
        for line in lines(outcome.answers):
            show(line)
        if (said := doubts(outcome.answers)) is not None:
            show_prose(said)
        if (paid := cost(question, outcome)) is not None:
            show_prose(paid)
        show(f"page: {outcome.page}")
    if not outcome.complete:
        why = "A trial failed" if outcome.stopped_at is None else f"stopped at {outcome.stopped_at}"
        (tell if as_json else show)(f"{why}; `{again}` goes on{further(outcome.stopped_at)}.")
        raise typer.Exit(1)


def targets(slo: str) -> "tuple[Target, ...]":
    """The limits of `--slo`. ConfigError."""
    from results.service_level import parse

    try:
        return parse(slo)
    except ValueError as error:
        raise ConfigError(f"--slo {error}") from None
