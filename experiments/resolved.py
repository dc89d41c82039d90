"""What was measured to resolve a config: written once to the sweep, re-used on resume."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deployments.models import Dtype, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Arrival rates in requests/s, ascending, the measured period of each, and what `dtype: auto` is."""

    rates: tuple[float, ...]
    durations_s: tuple[float, ...]
    dtype: Dtype | None = None  # None: the config says it, or no model is loaded

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        return {"rates": list(self.rates), "durations_s": list(self.durations_s), "dtype": self.dtype}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Resolved":
        """The inverse of `to_dict`. KeyError if a part is missing, ValueError if the lengths differ."""
        rates = tuple(float(rate) for rate in values["rates"])
        durations_s = tuple(float(duration_s) for duration_s in values["durations_s"])
        if len(rates) != len(durations_s):
            raise ValueError(f"as many durations as rates: got {len(durations_s)} and {len(rates)}")
        return cls(rates=rates, durations_s=durations_s, dtype=values.get("dtype"))

    def fixed(self, model: ModelSpec | None) -> ModelSpec | None:
        """The model with `auto` replaced, so that a resume elsewhere cannot mix precisions."""
        if model is None or model.dtype != "auto" or self.dtype is None:
            return model
        return replace(model, dtype=self.dtype)
