"""A simulated sweep: a config, what its backends are taken to be, and how often each cell is run.

Its folder is named after all of these, so that other hardware is another sweep. sweep.json holds them, and
is all that is needed to go on, to draw the page again, and to say what was assumed.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np

from deployments.errors import ModelError
from experiments.capacity import resolve_rates
from experiments.cells import Cell, cell_at, cells, cells_hash
from experiments.config import SweepConfig, parse
from experiments.errors import ConfigError
from experiments.explain.basis import Basis
from experiments.inputs import trace_notes
from experiments.provenance import provenance
from experiments.resolved import Resolved
from experiments.simulation.durations import in_words, lengthened
from experiments.simulation.engines import engine_of
from experiments.simulation.premise import Premise
from results.address import place
from results.errors import StoreError, one_line
from workloads.shape import Shape, shape

FEWEST_REPEATS = 10  # virtual time is cheap
SUFFIX = "-simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """`config` has the repeats that are run; `options` are those that were typed, to be typed again."""

    config: SweepConfig
    premises: Mapping[str, Premise]  # by backend
    options: tuple[str, ...] = ()
    lengthen: bool = False  # short durations are made as long as verdicts need

    @classmethod
    def of(
        cls,
        config: SweepConfig,
        bases: Mapping[str, Basis],
        *,
        repeats: int | None = None,
        rates: Sequence[float] = (),
        options: Sequence[str] = (),
        lengthen: bool = False,
    ) -> Self:
        """`repeats`: 10, or more if the config has more, if left out. ModelError if a model does not fit.

        `rates`: what `arrival_rate: auto` is taken to be; left out: derived from the step times.
        ConfigError if an engine could not be made, or its KV cache, given in blocks, does not hold the shortest request.
        `lengthen`: whether durations may be longer than the config's; its requests are then not a measured sweep's.
        """
        count = max(FEWEST_REPEATS, config.repeats) if repeats is None else repeats
        of_backend = {setting.backend: setting for setting in config.settings}
        update: dict[str, Any] = {"repeats": count} | (
            {"arrival_rate": tuple(map(float, rates))} if rates else {}
        )
        made = cls(
            config=config.model_copy(update=update),
            premises={name: Premise.of(bases[name], setting) for name, setting in of_backend.items()},
            options=tuple(options),
        )
        made._check_engines()
        longer = replace(made, lengthen=True)
        return longer if lengthen and longer.resolve() != made.resolve() else made

    @classmethod
    def from_info(cls, info: Mapping[str, Any], source: str) -> Self:
        """From a sweep.json. ConfigError if its config is not one any more, StoreError if it is damaged."""
        try:
            record = info["simulated"]
            premises = {name: Premise.from_record(one) for name, one in record["backends"].items()}
            repeats, options = int(record["repeats"]), tuple(map(str, record["options"]))
            lengthen = "durations" in record
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = f"{source}: simulated must hold backends, repeats and options: {one_line(error)}"
            raise StoreError(text) from error
        config = parse(info["config"], source=source).on_any_gpu().model_copy(update={"repeats": repeats})
        return cls(config=config, premises=premises, options=options, lengthen=lengthen)

    @property
    def name(self) -> str:
        """Says that it is simulated, in listings and on its page."""
        return f"{self.config.name}{SUFFIX}"

    @property
    def identity(self) -> str:
        """12 hex digits over the config as written, the premises, the repeats, and longer durations if so."""
        premises = {name: premise.to_record() for name, premise in sorted(self.premises.items())}
        known = [
            dict(self.config.as_written),
            premises,
            self.config.repeats,
            *(["lengthened"] if self.lengthen else []),
        ]
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]

    def root(self, results: str | os.PathLike[str]) -> str:
        """Its folder."""
        return str(place(results) / f"{self.name}-{self.identity}")

    def resolve(self) -> Resolved:
        """Rates and durations; automatic ones from the step models."""
        given = self._as_configured()
        return lengthened(self.config, given) if self.lengthen else given

    @property
    def durations(self) -> str | None:
        """Which durations are longer than the config's, in words; None: none is."""
        return in_words(self.config, self._as_configured(), self.resolve()) if self.lengthen else None

    def cells(self, info: Mapping[str, Any] | None = None) -> tuple[Cell, ...]:
        """Every cell; of a sweep that has begun, as it began. ConfigError if they would be others by now.

        Their requests are another matter: see `check_shapes`.
        """
        planned = cells(self.config, Resolved.from_dict(info["resolved"]) if info else self.resolve())
        if info and cells_hash(planned) != info["cells_hash"]:
            raise ConfigError(
                f"{self.name}: its cells are not those that it began with (another version of batchyard): "
                "--fresh starts anew"
            )
        return planned

    def info(self) -> dict[str, Any]:
        """What sweep.json holds. WorkloadError if the workload cannot be made."""
        resolved = self.resolve()
        planned = cells(self.config, resolved)
        return {
            "name": self.name,
            "config_hash": self.identity,
            "config": dict(self.config.as_written),
            "simulated": {
                "repeats": self.config.repeats,
                "options": list(self.options),
                **({"durations": self.durations} if self.lengthen else {}),
                "backends": {name: premise.to_record() for name, premise in self.premises.items()},
            },
            "resolved": resolved.to_dict(),
            "measured": {},
            "planned_cells": len(planned),
            "cells_hash": cells_hash(planned),
            "workload_hashes": shape_hashes(planned),
            **trace_notes(self.config),
            "provenance": provenance(),
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _check_engines(self) -> None:
        """What a cell would fail with, said before anything is written."""
        config, entry = self.config, self.config.simulation
        shortest = int(config.workload.prompt_law().values.min()) + 1  # a request that is larger fails alone
        for index, setting in enumerate(config.settings):
            cell = cell_at(config, Resolved(rates=(), durations_s=()), index, 1.0, 1.0, 0)
            try:
                kv = getattr(engine_of(cell, self.premises[setting.backend], entry), "kv", None)
            except (ModelError, ValueError) as error:
                raise config.error(
                    ("simulation",), f"{setting.label} on {setting.backend}: {error}"
                ) from error
            if entry.kv_blocks is not None and kv is not None and kv.blocks * kv.block_tokens < shortest:
                held = f"{kv.blocks} × {kv.block_tokens}"
                text = f"must hold {shortest} tokens, the shortest prompt and an output token, got {held}"
                raise config.error(("simulation", "kv_blocks"), text)

    def _as_configured(self) -> Resolved:
        models = {name: premise.step_model for name, premise in self.premises.items()}
        return resolve_rates(self.config, models)


def shape_of(cell: Cell) -> Shape:
    """The requests of a cell; the same for all strategies of its rate and repeat."""
    return shape(
        cell.workload, rate=cell.rate, duration_s=cell.duration_s, seed=cell.seed, repeat=cell.repeat
    )


def shape_hash(made: Shape) -> str:
    """16 hex digits over when requests come, how long they are and what they want; times in whole microseconds."""
    columns = [np.round(made.arrival_s * 1e6), made.prompt_tokens, made.output_tokens, [made.max_new_tokens]]
    columns += [] if made.priority is None else [made.priority]
    columns += [] if made.ttft_target_s is None else [np.round(made.ttft_target_s * 1e6)]
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.asarray(column).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def shape_hashes(planned: Sequence[Cell]) -> dict[str, str]:
    """Shape hash by "rate/repeat": all strategies of a rate and repeat get the same requests."""
    one = {f"{cell.rate!r}/{cell.repeat}": cell for cell in planned}
    return {key: shape_hash(shape_of(cell)) for key, cell in one.items()}


def check_shapes(planned: Sequence[Cell], info: Mapping[str, Any]) -> None:
    """ConfigError unless the cells' requests are those that the simulation began with."""
    for key, value in shape_hashes(planned).items():
        if info["workload_hashes"].get(key) != value:
            raise ConfigError(
                f"the requests at rate/repeat {key} are not those that the simulation began with "
                "(another trace or version): --fresh starts anew"
            )
