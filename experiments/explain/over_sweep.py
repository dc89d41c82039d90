"""Theory over what was measured: lines for the page of a sweep, from the step times that it measured itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from experiments.config import parse
from experiments.errors import ConfigError
from experiments.explain.basis import assumed, bases
from experiments.explain.explanation import explain
from experiments.explain.guide_lines import guides
from experiments.resolved import Resolved
from results.findings import Findings, Guide
from results.records import VIRTUAL
from results.summary import shown_backend
from workloads.errors import WorkloadError

KNOWN = ("config", "measured", "assumed")  # bases that say something about this sweep


def with_guides(findings: Findings) -> Findings:
    """The findings with the lines that can be drawn; a page is never lost for want of them."""
    try:
        return replace(findings, guides=guides_of(findings.sweep))
    except (ConfigError, WorkloadError, KeyError, TypeError, ValueError):
        return findings  # a sweep of another version, or one whose trace is gone


def guides_of(sweep: Mapping[str, Any]) -> tuple[Guide, ...]:
    """A guide for each setting whose step times are known: timed for `auto`, or those of the simulated engine.

    `sweep` is a sweep.json. ConfigError, WorkloadError, KeyError, TypeError or ValueError if it does not hold
    what a sweep of this version holds.
    """
    if not isinstance(sweep.get("config"), Mapping):
        return ()
    config = parse(sweep["config"], source="sweep.json")
    found = bases(config, sweep=sweep) if "simulated" not in sweep else assumed(sweep["simulated"])
    rates = Resolved.from_dict(sweep["resolved"]).rates
    known = {backend for backend, basis in found.items() if basis.kind in KNOWN}
    drawn = [guide for guide in guides(explain(config, found, rates)) if guide.backend in known]
    if "simulated" in sweep:
        drawn = [replace(guide, backend=shown_backend(guide.backend, VIRTUAL)) for guide in drawn]
    return tuple(drawn)
