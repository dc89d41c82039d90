"""Every strategy by name. A new one is one file and one line here, and its knobs in the contract suite."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strategies.continuous import Continuous
from strategies.dynamic import Dynamic, DynamicKnobs
from strategies.knobs import Knobs
from strategies.naive import Naive
from strategies.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A strategy, called with its knobs by name, and the model that checks them."""

    strategy: Callable[..., Strategy]
    knobs: type[Knobs]
    needs_joinable: bool  # runs only where a request may join while others run


STRATEGIES: dict[str, Entry] = {
    "naive": Entry(strategy=Naive, knobs=Knobs, needs_joinable=False),
    "dynamic": Entry(strategy=Dynamic, knobs=DynamicKnobs, needs_joinable=False),
    "continuous": Entry(strategy=Continuous, knobs=Knobs, needs_joinable=True),
}


def create(name: str, knobs: Mapping[str, Any]) -> Strategy:
    """A fresh strategy. ValueError (pydantic's ValidationError is one) if the name or a knob is wrong."""
    entry = _entry(name)
    return entry.strategy(**entry.knobs.model_validate(dict(knobs)).model_dump())


def label(name: str, knobs: Mapping[str, Any]) -> str:
    """A strategy and its settings as a person reads them: "dynamic · 8 · 200 ms". Errors as `create`."""
    return " · ".join([name, *_entry(name).knobs.model_validate(dict(knobs)).label_parts()])


def _entry(name: str) -> Entry:
    if name not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, got {name!r}")
    return STRATEGIES[name]
