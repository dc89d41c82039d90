"""Whom a soak kills: processes of a sweep on this machine, whose Ray is the driver's own.

A new kind is one line: a name, and how its victims are found from the process that they descend from.
"""

from collections.abc import Callable, Mapping

import numpy as np
import psutil

from tests.experiments.descendants import descendants

Victims = Callable[[int], list[psutil.Process]]


def replicas(root: int) -> list[psutil.Process]:
    """One a lane; they call themselves otherwise while they work."""
    return [*descendants(root, "ServeReplica"), *descendants(root, "SERVE_REPLICA")]


def trial_processes(root: int) -> list[psutil.Process]:
    """The clients: Tune's actors, also those that wait for their next trial."""
    return descendants(root, "ResourceTrainable")


PROCESSES: Mapping[str, Victims] = {"replica": replicas, "trial process": trial_processes}


def kill_one(kind: str, driver: int, rng: np.random.Generator) -> bool:
    """A random victim of this kind, if the driver has one: whether it was killed."""
    victims = PROCESSES[kind](driver)
    if not victims:
        return False
    try:
        victims[int(rng.integers(len(victims)))].kill()
    except psutil.NoSuchProcess:  # it ended by itself meanwhile
        return False
    return True
