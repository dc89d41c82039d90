"""The reserves of a sweep: measured once for each backend that pads, recorded, and read again on resume."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from deployments.errors import BackendError, last_line
from deployments.lanes import Call, raised_there
from deployments.reserve import Reserve
from experiments.capacity import BUDGET, Probe

RESERVES = "reserves"  # in what a sweep measured


def recorded(info: Mapping[str, Any]) -> dict[str, Reserve]:
    """By backend, those in a sweep.json; what could not be measured, or is damaged, is left out."""
    found = {}
    for backend, values in dict(info.get("measured", {}).get(RESERVES) or {}).items():
        with contextlib.suppress(KeyError, TypeError, ValueError):
            found[backend] = Reserve.from_dict(values)
    return found


async def measured_reserve(
    call: Call, probe: Probe, prompt_tokens: int, notify: Callable[[str], None]
) -> dict[str, Any]:
    """What padded batches take beside their keys and values, as it is recorded; or why that is not known.

    BackendError for the latter where `kv_budget_bytes: auto` is written.
    """
    try:
        found: Reserve | None = await call("measure_reserve", prompt_tokens)
        why = "neither its memory nor what a token of cache takes is known" if found is None else ""
    except Exception as error:  # noqa: BLE001 - whatever it is, batches are still served
        found, why = None, last_line(raised_there(error))
    if found is not None:
        return found.to_dict()
    text = f"{probe.backend}: the memory of a padded batch could not be measured ({why})"
    if BUDGET in probe.engine:
        raise BackendError(f"{text}: give kv_budget_bytes in bytes")
    notify(f"warning: {text}: its batches have no limit")
    return {"failed": why}
