"""What a backend is taken to be in virtual time: how long its steps take, how large its KV cache is, and the like."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from deployments.virtual.step_model import StepModel, record, recorded
from experiments.calibration.calibration import MeasuredEngine
from experiments.explain.basis import Basis
from experiments.grid import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Premise:
    """Of one backend."""

    step_model: StepModel
    kind: str  # where it comes from: data sheet, measured, config, default, calibration
    text: str  # the same in words, with the numbers
    kv_tokens: int | None = None  # what the KV cache holds; None: not known, and no limit
    kv_bytes_per_token: int | None = None
    swap_bytes_per_s: float | None = None  # between the GPU and its host
    arrival_lag_s: float = 0.0  # from a planned arrival until the strategy sees the request
    engines: tuple[MeasuredEngine, ...] = ()  # what measured engines said of their limits

    @classmethod
    def of(cls, basis: Basis, setting: Setting) -> Self:
        """What a basis of theory says of a backend; the setting is any on it. ModelError as `Basis.kv_tokens`."""
        return cls(
            step_model=basis.model,
            kind=basis.kind,
            text=basis.text,
            kv_tokens=basis.kv_tokens(setting),
            kv_bytes_per_token=basis.kv_bytes_per_token,
            swap_bytes_per_s=basis.hardware.pcie_bytes_per_s if basis.hardware else None,
            arrival_lag_s=basis.arrival_lag_s,
            engines=basis.engines,
        )

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values; `from_record` is the inverse."""
        return {
            "step_model": record(self.step_model),
            "kind": self.kind,
            "text": self.text,
            "kv_tokens": self.kv_tokens,
            "kv_bytes_per_token": self.kv_bytes_per_token,
            "swap_bytes_per_s": self.swap_bytes_per_s,
            "arrival_lag_s": self.arrival_lag_s,
            "engines": [asdict(one) for one in self.engines],
        }

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> Self:
        """KeyError, TypeError or ValueError if that is not what it is."""
        engines = tuple(MeasuredEngine(**one) for one in values.get("engines", ()))
        return cls(**{**values, "step_model": recorded(values["step_model"]), "engines": engines})
