"""Whom a soak kills, and where: a sweep on this machine, or on a Ray cluster of several nodes with counted GPUs.

A new kind is one line: a name, and how its victims are found from the process that they descend from.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import psutil

from tests.experiments.descendants import descendants
from tests.experiments.left_on_cluster import NOTHING, left
from tests.experiments.ray_cluster import RayCluster

Victims = Callable[[int], list[psutil.Process]]


def replicas(root: int) -> list[psutil.Process]:
    """One a lane; they call themselves otherwise while they work."""
    return [*descendants(root, "ServeReplica"), *descendants(root, "SERVE_REPLICA")]


def trial_processes(root: int) -> list[psutil.Process]:
    """The clients: Tune's actors, also those that wait for their next trial."""
    return descendants(root, "ResourceTrainable")


PROCESSES: Mapping[str, Victims] = {"replica": replicas, "trial process": trial_processes}


class Ground(Protocol):
    """Where a sweep is driven."""

    kinds: tuple[str, ...]
    options: tuple[object, ...]  # of the command

    def kill(self, kind: str, driver: int, rng: np.random.Generator) -> bool:
        """One victim of this kind, if there is any: whether it was killed."""

    def replicas(self, driver: int) -> int:
        """How many live."""

    def check_left(self) -> None:
        """AssertionError if something of a sweep that is over is still there."""

    def close(self) -> None:
        """Take away what was made for it."""


class ThisMachine:
    """A Ray of the driver's own: all descend from it."""

    kinds = tuple(PROCESSES)

    def __init__(self, lanes: int) -> None:
        self.options: tuple[object, ...] = ("--lanes", lanes)

    def kill(self, kind: str, driver: int, rng: np.random.Generator) -> bool:
        return _kill_one(PROCESSES[kind](driver), rng)

    def replicas(self, driver: int) -> int:
        return len(replicas(driver))

    def check_left(self) -> None:
        """Its processes are looked for by who drives it."""

    def close(self) -> None:
        """Nothing was made."""


class Cluster:
    """Nodes of one GPU each; one that is killed is replaced by a new one."""

    kinds = (*PROCESSES, "node")

    def __init__(self, lanes: int) -> None:
        self._cluster = RayCluster()
        self._nodes: list[Any] = [self._cluster.add() for _ in range(lanes)]
        self.options: tuple[object, ...] = ("--address", self._cluster.address, "--lanes", lanes)

    def kill(self, kind: str, driver: int, rng: np.random.Generator) -> bool:
        if kind != "node":
            return _kill_one(PROCESSES[kind](os.getpid()), rng)
        self._cluster.kill(self._nodes.pop(int(rng.integers(len(self._nodes)))))
        self._nodes.append(self._cluster.add())
        return True

    def replicas(self, driver: int) -> int:
        return len(replicas(os.getpid()))

    def check_left(self) -> None:
        found = left(self._cluster.address)
        assert found == NOTHING, f"left on the cluster: {found}"

    def close(self) -> None:
        self._cluster.shutdown()


def _kill_one(victims: list[psutil.Process], rng: np.random.Generator) -> bool:
    if not victims:
        return False
    try:
        victims[int(rng.integers(len(victims)))].kill()
    except psutil.NoSuchProcess:  # it ended by itself meanwhile
        return False
    return True
