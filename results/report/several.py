"""Several sweeps on one page: what tells them apart, and their findings under names that do.

Nothing is compared across sweeps here: every change, split and sentence stays within the sweep that it was found in.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from results.findings import Change, Findings, Split
from results.store import Store
from results.wording import NO_MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A sweep on a page: its name there ("" where it is alone), its folder's, what was found in it, and its rows."""

    name: str
    folder: str
    findings: Findings
    store: Store


def shown(sweeps: Sequence[tuple[str, Findings, Store]]) -> tuple[Shown, ...]:
    """Name sweeps, given with the names of their folders, and all that their findings name; one alone stays as it is."""
    if len(sweeps) == 1:
        return (Shown(name="", folder=sweeps[0][0], findings=sweeps[0][1], store=sweeps[0][2]),)
    names = names_of([(folder, findings) for folder, findings, _ in sweeps])
    return tuple(
        Shown(name=name, folder=folder, findings=_named(findings, name), store=store)
        for name, (folder, findings, store) in zip(names, sweeps, strict=True)
    )


def names_of(sweeps: Sequence[tuple[str, Findings]]) -> list[str]:
    """Give the shortest names that tell sweeps apart: by device, model, whether simulated, else by their folders."""
    told = [_aspects(findings) for _, findings in sweeps]
    kinds = list(told[0])
    for count in (1, 2, 3):
        for chosen in combinations(kinds, count):
            names = [", ".join(dict.fromkeys(one[kind] for kind in chosen if one[kind])) for one in told]
            if all(names) and len(set(names)) == len(names):
                return names
    return [folder for folder, _ in sweeps]


def heading(sweeps: Sequence[Shown]) -> str:
    """Give the title of a page of several sweeps: nothing is found of all of them."""
    return f"{len(sweeps)} sweeps side by side: {', '.join(one.name for one in sweeps)}"


def commands(sweeps: Sequence[Shown]) -> list[str]:
    """Give the command that compares each further sweep with the first."""
    first, *others = [one.folder for one in sweeps]
    return [shlex.join(["batchyard", "compare", first, other]) for other in others]


def together(sweeps: Sequence[Shown]) -> Findings:
    """Give all as one, for the figures; `sweep` is that of the first, and what is said of one sweep is left to it."""
    if len(sweeps) == 1:
        return sweeps[0].findings
    all_of = [one.findings for one in sweeps]
    return replace(
        all_of[0],
        trials=tuple(one for found in all_of for one in found.trials),
        cells=tuple(one for found in all_of for one in found.cells),
        changes=tuple(one for found in all_of for one in found.changes),
        splits=tuple(one for found in all_of for one in found.splits),
        sentences=tuple(one for found in all_of for one in found.sentences),
        knees={side: knee for found in all_of for side, knee in found.knees.items()},
        failures=tuple(one for found in all_of for one in found.failures),
        planned_cells=sum(found.planned_cells for found in all_of),
        slos=tuple(dict.fromkeys(slo for found in all_of for slo in found.slos)),
        expectations=(),
        price=all_of[0].price if all(found.price == all_of[0].price for found in all_of) else None,
        spent=None,
        guides=tuple(one for found in all_of for one in found.guides),
        occupancy=tuple(one for found in all_of for one in found.occupancy),
        invalid=tuple(one for found in all_of for one in found.invalid),
    )


def _aspects(findings: Findings) -> Mapping[str, str]:
    """What may tell a sweep from another, in words; empty where it has none."""
    simulated = "simulated" in findings.sweep
    options = [str(option) for option in findings.sweep.get("simulated", {}).get("options", ())]
    hardware = options[options.index("--hardware") + 1 :][:1] if "--hardware" in options else []
    trials = [one.trial for one in findings.trials]
    devices = [one for one in dict.fromkeys(trial.device for trial in trials) if one != NO_MODEL]
    models = [one for one in dict.fromkeys(trial.model for trial in trials) if one != NO_MODEL]
    return {
        "simulated": "simulated" if simulated else "measured",
        "device": " ".join(["simulated", *hardware]) if simulated else ", ".join(devices),
        "model": ", ".join(models),
        "name": str(findings.sweep.get("name", "")),
    }


def _named(findings: Findings, name: str) -> Findings:
    """The findings with the sweep's name on every series, as `results.report.series` names it."""

    def side(key: str) -> str:
        return f"{key} / {name}"

    def change(one: Change) -> Change:
        return replace(one, base=side(one.base), other=side(one.other))

    def split(one: Split) -> Split:
        return replace(one, total=change(one.total), policy=change(one.policy), engine=change(one.engine))

    return replace(
        findings,
        cells=tuple(replace(one, sweep=name) for one in findings.cells),
        changes=tuple(map(change, findings.changes)),
        splits=tuple(map(split, findings.splits)),
        sentences=tuple(
            replace(one, base=side(one.base), other=side(one.other)) for one in findings.sentences
        ),
        knees={side(key): knee for key, knee in findings.knees.items()},
        guides=tuple(replace(one, sweep=name) for one in findings.guides),
        occupancy=tuple(replace(one, sweep=name) for one in findings.occupancy),
        invalid=tuple(replace(one, sweep=name) for one in findings.invalid),
    )
