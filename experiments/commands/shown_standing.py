"""How a sweep stands, for a person and for a script: what `ls` and `status` say alike."""

from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import command
from results.address import Place
from results.fetched import fetched_of

if TYPE_CHECKING:
    from results.standing import Standing


def standing_document(one: "Standing") -> dict[str, Any]:
    """How a sweep stands as plain JSON values."""
    held = one.driver
    return {
        "name": one.name,
        "folder": str(one.folder),
        "state": one.state,
        "simulated": "simulated" in one.info,
        "begun_at": one.begun_at,
        "driver": held and {"pid": held.pid, "host": held.host, "since": held.since, "alive": held.alive},
        "planned_cells": one.planned,
        "done_cells": len(one.done),
        "failed_cells": len(one.failed),
        "failed_attempts": one.failed_attempts,
        "last_row_at": one.last_row_at,
        "page": None if one.page is None else str(one.page),
        "problems": warnings_of(one),
    }


def warnings_of(one: "Standing") -> list[str]:
    """What could not be read of it, and that nobody finds it under its name; one line each."""
    from results.earlier_run import is_aside

    own = one.own_name
    if own is None or one.name == own or is_aside(one.name, own):
        return list(one.problems)
    text = f"its folder must be named {own}, got {one.name}: by this name neither sweep nor resume finds it"
    return [*one.problems, text]


def in_words(one: "Standing") -> str:
    """Its state, with who drives it."""
    held = one.driver
    if one.state == "running" and held is not None:
        return f"running (process {held.pid})"
    if one.state == "elsewhere" and held is not None:
        return f"process {held.pid} on {held.host}, which cannot be seen from here"
    kinds = (("simulated", "simulated" in one.info), ("fetched", fetched_of(one.folder) is not None))
    return ", ".join([one.state, *(kind for kind, so in kinds if so)])


def go_on(folder: Place) -> str:
    """The command that runs what is missing: of a copy, where it was measured."""
    return "batchyard submit CONFIG" if fetched_of(folder) is not None else command("resume", folder)


def when(stamp: str | None) -> str:
    """A stamp (ISO 8601, UTC) as a person reads it."""
    return "–" if stamp is None else stamp[:16].replace("T", " ")
