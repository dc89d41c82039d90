"""Places: where lanes can be. One machine has as many as were asked for; those of a cluster come and go.

On a cluster each GPU of a living node is a place (where lanes have several GPUs as many of one node), or with
`on_cpu` each node, the driver's own while there is no other. A place names its node, so that a replica is put where
its lane is and nowhere else: Ray labels each node with its id.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

NODE_LABEL = "ray.io/node-id"
KIND_LABEL = "ray.io/accelerator-type"
_KIND_RESOURCE = "accelerator_type:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Room for one lane."""

    slot: int  # which of its node's, from 0
    gpu: bool
    node: str | None = None  # Ray's id of it; None: this machine is all there is
    host: str = ""
    kind: str = ""  # of GPU, as Ray names it ("A10G"); empty where it is not known or there is none
    cores: int | None = None
    gpus: int = 1  # that a lane has there, if it is on GPUs
    spare: bool = False  # no new trial begins there while there is another place


Look: TypeAlias = Callable[[], Sequence[Place]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The places of this machine, which stay as they are."""

    lanes: int
    gpu: bool
    gpus: int = 1  # of each lane
    kind: str = ""  # of them, as their driver names it

    def __call__(self) -> tuple[Place, ...]:
        """As many as were asked for."""
        return tuple(
            Place(slot=slot, gpu=self.gpu, gpus=self.gpus, kind=self.kind) for slot in range(self.lanes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCluster:
    """The places of the Ray cluster that this process is connected to, as they are at each call."""

    labels: Mapping[str, str]  # a node must have them all
    kinds: tuple[str, ...] | None = None  # of GPU; None: any
    gpus: int = 1  # of each lane, all of one node
    on_cpu: bool = False
    driver: str = ""  # the id of the driver's node, whose processors are spare

    def __call__(self) -> tuple[Place, ...]:
        """Asks Ray which nodes live."""
        import ray

        return places_of(ray.nodes(), self)  # type: ignore[no-untyped-call]

    def most_gpus(self) -> int:
        """GPUs of the living node that has most of them."""
        import ray

        return most_gpus(ray.nodes(), self)  # type: ignore[no-untyped-call]


def places_of(nodes: Sequence[Mapping[str, Any]], wanted: OnCluster) -> tuple[Place, ...]:
    """The places on nodes as `ray.nodes()` tells of them, in order of their ids."""
    found = [
        node
        for node in sorted(nodes, key=lambda node: str(node["NodeID"]))
        if node["Alive"] and _fits(node, wanted)
    ]
    if not wanted.on_cpu:
        return tuple(
            _place(node, slot, gpu=True, gpus=wanted.gpus)
            for node in found
            for slot in range(_gpus(node) // wanted.gpus)
        )
    return tuple(_place(node, 0, gpu=False, spare=node["NodeID"] == wanted.driver) for node in found)


def in_use(places: Sequence[Place]) -> Sequence[Place]:
    """Where trials may begin: the spare ones only if there is no other."""
    return [place for place in places if not place.spare] or places


def most_gpus(nodes: Sequence[Mapping[str, Any]], wanted: OnCluster) -> int:
    """GPUs of the living node that has most of those that are wanted."""
    return max((_gpus(node) for node in nodes if node["Alive"] and _fits(node, wanted)), default=0)


def _gpus(node: Mapping[str, Any]) -> int:
    return int(node["Resources"].get("GPU", 0))


def kind_of(node: Mapping[str, Any]) -> str:
    """What GPUs a node has: a label of it, or the resource that Ray makes of what it finds there."""
    if kind := str(node.get("Labels", {}).get(KIND_LABEL, "")):
        return kind
    kinds = (
        name.removeprefix(_KIND_RESOURCE) for name in node["Resources"] if name.startswith(_KIND_RESOURCE)
    )
    return next(kinds, "")


def _fits(node: Mapping[str, Any], wanted: OnCluster) -> bool:
    has = {**node.get("Labels", {}), KIND_LABEL: kind_of(node)}
    return all(has.get(key) == value for key, value in wanted.labels.items()) and (
        wanted.kinds is None or kind_of(node) in wanted.kinds
    )


def _place(node: Mapping[str, Any], slot: int, *, gpu: bool, gpus: int = 1, spare: bool = False) -> Place:
    return Place(
        slot=slot,
        gpu=gpu,
        node=str(node["NodeID"]),
        host=str(node["NodeManagerHostname"]),
        kind=kind_of(node) if gpu else "",
        cores=int(node["Resources"].get("CPU", 0)) or None,
        gpus=gpus,
        spare=spare,
    )
