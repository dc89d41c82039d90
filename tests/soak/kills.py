"""Whom a soak kills. A new kind is one line: a name, and how its victims are found from the driver's process."""

from collections.abc import Callable, Mapping

import psutil

from tests.experiments.descendants import descendants

Victims = Callable[[int], list[psutil.Process]]


def replicas(driver: int) -> list[psutil.Process]:
    """One a lane; they call themselves otherwise while they work."""
    return [*descendants(driver, "ServeReplica"), *descendants(driver, "SERVE_REPLICA")]


def trial_processes(driver: int) -> list[psutil.Process]:
    """The clients: Tune's actors, also those that wait for their next trial."""
    return descendants(driver, "ResourceTrainable")


KINDS: Mapping[str, Victims] = {"replica": replicas, "trial process": trial_processes}
