"""Theory over what was measured: lines for the page of a sweep, from its calibration or what it timed itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deployments.errors import ModelError
from experiments.calibration.calibration import Calibration, read
from experiments.config import parse
from experiments.errors import ConfigError
from experiments.explain.basis import assumed, bases
from experiments.explain.explanation import explain
from experiments.explain.guide_lines import guides
from experiments.resolved import Resolved
from results.address import Place
from results.findings import Findings, Guide
from results.records import VIRTUAL
from results.summary import shown_backend
from results.sweep_folder import CALIBRATION
from workloads.errors import WorkloadError

KNOWN = ("config", "calibration", "measured", "assumed")  # bases that say something about this sweep


def with_guides(findings: Findings, folder: Place) -> Findings:
    """The findings with the lines that can be drawn; a page is never lost for want of them."""
    for calibration in (calibration_of(folder, findings.sweep), None):
        try:
            return replace(findings, guides=guides_of(findings.sweep, calibration))
        except (ConfigError, ModelError, WorkloadError, KeyError, TypeError, ValueError):
            continue  # a sweep of another version, one whose trace is gone, or a calibration without a backend
    return findings


def calibration_of(folder: Place, sweep: Mapping[str, Any]) -> Calibration | None:
    """What `batchyard calibrate` wrote into the folder of this sweep, if it did and can be read."""
    try:
        found = read(folder / CALIBRATION)
    except ConfigError:
        return None
    return found if found.config_hash == sweep.get("config_hash") else None


def guides_of(sweep: Mapping[str, Any], calibration: Calibration | None = None) -> tuple[Guide, ...]:
    """A guide for each setting whose step times are known: calibrated, timed for `auto`, or of the simulated engine.

    `sweep` is a sweep.json. ConfigError, ModelError, WorkloadError, KeyError, TypeError or ValueError if it does
    not hold what a sweep of this version holds, and ConfigError for a calibration that does not hold for it.
    """
    if not isinstance(sweep.get("config"), Mapping):
        return ()
    config = parse(sweep["config"], source="sweep.json").on_any_gpu()
    if "simulated" in sweep:
        found = assumed(sweep["simulated"])
    else:
        found = bases(config, calibration=calibration, sweep=sweep)
    rates = Resolved.from_dict(sweep["resolved"]).rates
    known = {backend for backend, basis in found.items() if basis.kind in KNOWN}
    drawn = [guide for guide in guides(explain(config, found, rates)) if guide.backend in known]
    if "simulated" in sweep:
        drawn = [replace(guide, backend=shown_backend(guide.backend, VIRTUAL)) for guide in drawn]
    return tuple(drawn)
