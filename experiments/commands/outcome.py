"""How a command that ran a sweep ends: what was found, what is missing, and the exit code."""

from typing import TYPE_CHECKING

import typer

from experiments.console import show, tell

if TYPE_CHECKING:
    from experiments.budget import Limit
    from experiments.sweep import Outcome
    from results.findings import Findings


def _spent(findings: "Findings") -> str:
    if findings.price is None or findings.spent is None:
        return ""
    return f", {findings.spent.text(findings.price)} spent"


def further(stopped_at: "Limit | None") -> str:
    """What the command that goes on is to be given too."""
    return " up to a larger one, or without one to its end" if stopped_at == "--max-cost" else ""


def conclude(outcome: "Outcome", *, again: str, as_json: bool) -> None:
    """Say what was found. `again`: the command that goes on. Exits with 1 if cells are missing."""
    from experiments.final_findings import emit_findings, show_findings

    if as_json:
        emit_findings(outcome.findings, outcome.root, outcome.page, outcome.problems)
    else:
        show_findings(outcome.findings, outcome.page)
    say = tell if as_json else show
    if outcome.ran == 0 and outcome.complete:
        say(f"This sweep is complete ({outcome.done} cells); --fresh starts anew.")
    if not outcome.complete and outcome.stopped_at is not None:
        left = outcome.planned - outcome.done
        say(
            f"stopped at {outcome.stopped_at}: {outcome.done} of {outcome.planned} cells are done, {left} left"
            f"{_spent(outcome.findings)}; `{again}` goes on{further(outcome.stopped_at)}"
        )
        raise typer.Exit(1)
    if not outcome.complete:
        failed = outcome.planned - outcome.done
        say(f"{failed} of {outcome.planned} cells failed; `{again}` tries them again.")
        raise typer.Exit(1)
