"""A calibration as a value and as a file: what each backend of a measured sweep costs, and what it was measured on.

The file is JSON with `calibration_version`; what is wrong with one is said in a line that begins with its path.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from deployments.virtual.step_model import Linear, record, recorded
from experiments.calibration.fit import Fit
from experiments.errors import ConfigError
from results.address import Place, head, place
from results.errors import one_line, said
from results.output_file import new_file

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEngine:
    """One engine as it was asked for, and what it then said of itself; None: it said nothing."""

    asked: Mapping[str, Any]
    max_num_batched_tokens: int | None = None
    kv_blocks: int | None = None
    kv_block_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """One backend: its costs, how well they hold, and what they hold for."""

    fit: Fit
    arrival_lag_s: float  # from a planned arrival until the replica has the request, median
    model: str
    dtype: str | None  # None: there is none, or it was not told
    device: str
    threads: int | None
    versions: Mapping[str, str]
    engines: tuple[MeasuredEngine, ...]

    @property
    def costs(self) -> Linear:
        """Of a step."""
        return self.fit.costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Of one sweep. `config` is its config as written, `rates` those that it had."""

    sweep: str  # the name of its folder
    config_hash: str
    config: Mapping[str, Any]
    rates: tuple[float, ...]
    git_commit: str | None
    backends: Mapping[str, Calibrated]

    @property
    def simulated(self) -> bool:
        """Whether nothing of it was measured."""
        return all(one.device == "virtual" for one in self.backends.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        backends = {
            name: {**asdict(one), "fit": {**asdict(one.fit), "costs": record(one.costs)}}
            for name, one in self.backends.items()
        }
        known = {
            "sweep": self.sweep,
            "config_hash": self.config_hash,
            "config": dict(self.config),
            "rates": list(self.rates),
            "git_commit": self.git_commit,
        }
        return {"calibration_version": VERSION, **known, "backends": backends}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """KeyError, TypeError, ValueError or AttributeError if that is not what it is."""
        return cls(
            sweep=str(values["sweep"]),
            config_hash=str(values["config_hash"]),
            config=dict(values["config"]),
            rates=tuple(map(float, values["rates"])),
            git_commit=values["git_commit"],
            backends={name: _calibrated(one) for name, one in values["backends"].items()},
        )

    def write(self, path: Place) -> None:
        """In place of what is there, whole or not at all. StoreError if it cannot be written."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        with new_file(path) as file:
            file.write(text.encode())


def read(path: str | os.PathLike[str]) -> Calibration:
    """ConfigError, in one line, unless it is a calibration of this version."""
    values = _document(path)
    if (version := values.get("calibration_version")) != VERSION:
        hint = "`batchyard calibrate SWEEP` makes one"
        if type(version) is int and version > VERSION:
            hint = "it was written by a newer batchyard: use that one"
        raise ConfigError(f"{path}: calibration_version must be {VERSION}, got {version!r}; {hint}"[:300])
    try:
        return Calibration.from_dict(values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else one_line(error)
        raise ConfigError(f"{path} is damaged: {what}; `batchyard calibrate SWEEP` makes it anew") from error


def calibrated_sweep(path: Place) -> str | None:
    """The sweep of which a file is a calibration, of any version; None if it is none."""
    try:
        values = _document(path)
    except ConfigError:
        return None
    return str(values.get("sweep")) if "calibration_version" in values else None


def _document(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        values = json.loads(head(place(path)))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {said(error)}; give a calibration's JSON file") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} must be JSON, as `batchyard calibrate SWEEP` writes it") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold a calibration, as `batchyard calibrate SWEEP` writes it")
    return values


def _calibrated(values: Mapping[str, Any]) -> Calibrated:
    """The costs are what is reckoned with; the rest is shown."""
    costs = recorded(values["fit"]["costs"])
    if not isinstance(costs, Linear) or costs.step_s(1) <= 0:
        raise ValueError(f"the costs must be linear and let a step take time, got {values['fit']['costs']}")
    lag_s = float(values["arrival_lag_s"])
    if not 0 <= lag_s < float("inf"):
        raise ValueError(f"arrival_lag_s must be at least 0, got {lag_s}")
    engines = tuple(MeasuredEngine(**one) for one in values["engines"])
    return Calibrated(
        **{
            **values,
            "fit": Fit(**{**values["fit"], "costs": costs}),
            "arrival_lag_s": lag_s,
            "engines": engines,
        }
    )
