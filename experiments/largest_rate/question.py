"""What `batchyard capacity` asks: of a config's settings, which is the largest rate within a service level.

Its trials are cells of that config at rates that its config does not name. They do not depend on the service
level or the width, so that another one asked later is answered from the trials that are there, and more.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.capacity import fewest_requests
from experiments.cells import Cell, cell_at
from experiments.config import SweepConfig
from experiments.grid import Setting
from experiments.largest_rate.search import MOST_TRIALS
from experiments.resolved import Resolved
from experiments.simulation.premise import Premise
from results.address import place
from results.service_level import Target
from results.verdicts import FEWEST_ARRIVALS

ARRIVALS = round(1.15 * FEWEST_ARRIVALS)  # expected in a trial: enough for one that judges overload
SIMULATED_ARRIVALS = 2_000  # virtual time is cheap
AT_ONCE_BATCHES = 10  # of the setting, in a saturation run: with few the last ones, not full, count much
AT_ONCE_S = 1e-3  # all requests of a saturation run arrive within this time
AT_ONCE_DRAIN_S = 600.0  # at least: what is overloaded on purpose is waited for, as its rate is the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`premises`: by backend, in virtual time; None: on real engines. `strategies`: none for all."""

    config: SweepConfig
    targets: tuple[Target, ...]
    width: float
    max_trials: int = MOST_TRIALS  # of each setting, its saturation run not counted
    strategies: tuple[str, ...] = ()
    premises: Mapping[str, Premise] | None = None
    options: tuple[str, ...] = ()  # as they were typed, to be typed again

    @property
    def name(self) -> str:
        """As listings and the page show it."""
        return f"{self.config.name}-capacity{'-simulated' if self.premises is not None else ''}"

    @property
    def identity(self) -> str:
        """12 hex digits over what its trials are: the config as written, and the premises."""
        if self.premises is None:
            return self.config.config_hash
        premises = {name: premise.to_record() for name, premise in sorted(self.premises.items())}
        text = json.dumps([self.config.config_hash, premises], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def root(self, results: str | os.PathLike[str]) -> str:
        """Its folder."""
        return str(place(results) / f"{self.name}-{self.identity}")

    @property
    def settings(self) -> dict[int, Setting]:
        """What is searched for, by place in the config."""
        return {
            index: setting
            for index, setting in enumerate(self.config.settings)
            if not self.strategies or setting.strategy in self.strategies
        }

    def cell(self, index: int, rate: float, repeat: int, resolved: Resolved) -> Cell:
        """A setting at a rate: the config's duration, else as long as a judgement needs."""
        duration_s = self.config.duration_s
        if duration_s is None:
            arrivals = ARRIVALS if self.premises is None else SIMULATED_ARRIVALS
            duration_s = max(self.config.minimum_duration_s, float(math.ceil(arrivals / rate)))
        return cell_at(self.config, resolved, index, rate, duration_s, repeat)

    def at_once(self, index: int, resolved: Resolved) -> Cell:
        """The saturation run of a setting: all its requests are there when it begins."""
        requests = SIMULATED_ARRIVALS
        if self.premises is None:
            batch = self.config.settings[index].max_batch_size
            requests = max(fewest_requests(self.config), AT_ONCE_BATCHES * batch)
        drain_s = max(self.config.drain_limit_s or 0.0, AT_ONCE_DRAIN_S)
        patient = self.config.model_copy(update={"drain_limit_s": drain_s})
        return cell_at(patient, resolved, index, requests / AT_ONCE_S, AT_ONCE_S, 0)

    def to_record(self) -> dict[str, Any]:
        """What sweep.json keeps of it."""
        return {
            "slo": ",".join(target.key for target in self.targets),
            "text": ", ".join(target.text for target in self.targets),
            "width": self.width,
            "max_trials": self.max_trials,
            "strategies": list(self.strategies),
            "options": list(self.options),
        }
