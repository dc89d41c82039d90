"""Where a sweep runs: on this machine, on a Ray of its own, or on a cluster that is there; and on how many lanes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Any

from deployments.cluster_ray import check_address, check_answers, cluster_ray, request_gpus
from deployments.errors import DeviceError
from deployments.gpu_claim import claim
from deployments.gpus import Gpu, visible_gpus
from deployments.lane_board import LaneView, start_board
from deployments.lanes import NO_LANE_DEADLINE_S
from deployments.local_ray import local_ray
from deployments.places import KIND_LABEL, Here, OnCluster, Place, in_use
from deployments.ray_session import RaySession
from experiments.config import SweepConfig
from experiments.console import Say
from experiments.errors import ConfigError
from experiments.fits import check_fits, on_cluster
from experiments.preflight import lanes_here, size_key
from results.records import Trial

LOOK_EVERY_S = 1.0
ANSWER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """As it was asked for."""

    lanes: int = 0  # 0: one for each GPU, or one
    address: str | None = None  # of a cluster; None: this machine
    labels: Mapping[str, str] = field(default_factory=dict)  # that a node must have
    on_cpu: bool = False  # a lane on the processors of each node

    def typed(self) -> tuple[object, ...]:
        """The options again, to be typed."""
        return (
            *(("--address", self.address) if self.address else ()),
            *(("--lanes", self.lanes) if self.lanes else ()),
            *(one for key, value in self.labels.items() for one in ("--label", f"{key}={value}")),
            *(("--on-cpu",) if self.on_cpu else ()),
        )


HERE = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Lanes that are open: the board that gives them out, and the Ray that they are of."""

    session: RaySession
    board: Any  # the handle; the lanes go with it
    count: Callable[[], int]  # how many trials may run at the same time now

    def views(self) -> Sequence[LaneView]:
        """What the lanes do now. Ray's error if the board does not say so soon."""
        import ray

        seen: Sequence[LaneView] = ray.get(self.board.view.remote(), timeout=ANSWER_S)
        return seen


def lanes_of(
    config: SweepConfig, where: Where, say: Say, *, kind: str | None = None
) -> AbstractContextManager[Lanes]:
    """The lanes, opened when it is entered. ConfigError or DeviceError before anything is started where there are none.

    `kind`: of GPU, that the sweep's trials have had so far. Blocks while a GPU of this machine is taken.
    """
    if where.address is None:
        check_here(config, where, kind)
        count = lanes_here(config, where.lanes)
        on_model = any(setting.model is not None for setting in config.settings)
        return _here(config, count, claim(say, _wanted_here(config, where)) if on_model else (), say)
    check_answers(where.address)
    check_asked(config, where)
    return _on_cluster(config, where, where.address, say, kind)


def check_where(config: SweepConfig, where: Where, kind: str | None) -> None:
    """ConfigError or DeviceError where lanes are refused before a cluster is asked. `kind` as of `lanes_of`."""
    if where.address is None:
        check_here(config, where, kind)
    else:
        check_address(where.address)
        check_asked(config, where)


def check_asked(config: SweepConfig, where: Where) -> None:
    """ConfigError where no cluster could have such lanes, or none of the kinds that are named holds a model."""
    if where.on_cpu and config.lane_gpus > 1:
        raise config.error(size_key(config.settings[0]), "asks for GPUs, and --on-cpu uses none")
    if where.on_cpu and config.accelerator:
        raise config.error(("accelerator",), "names kinds of GPU, and --on-cpu uses none")
    _check_lanes(config, where)
    if not where.on_cpu:
        named = (where.labels[KIND_LABEL],) if KIND_LABEL in where.labels else ()
        check_fits(config, on_cluster(config.accelerator or named))


def _check_lanes(config: SweepConfig, where: Where) -> None:
    kinds, most = len(config.accelerator or ()), _most(config, where)
    if most is None or most >= kinds:
        return
    if where.lanes:  # a kind that never gets a lane would be waited for in vain
        raise ConfigError(f"--lanes must be at least {kinds}, one for each kind of accelerator, got {most}")
    least = kinds * config.lane_gpus
    text = f"must be at least {least}, a lane for each kind of accelerator, got {config.gpus}"
    raise config.error(("gpus",), text)


def check_here(config: SweepConfig, where: Where, kind: str | None) -> None:
    """ConfigError where what is asked for, or was begun on a `kind` of GPU, needs a cluster."""
    if config.accelerator:
        raise config.error(("accelerator",), "needs a cluster, whose GPUs have kinds: give its --address")
    if given := [name for name, value in (("--label", where.labels), ("--on-cpu", where.on_cpu)) if value]:
        raise ConfigError(f"{given[0]} needs a cluster: give its --address too")
    if kind is not None and not any(
        kind.split("-")[0] in gpu.name.replace("-", " ").split() for gpu in visible_gpus()
    ):
        raise ConfigError(
            f"its trials so far ran on {kind} of a cluster: give its --address, as none of these GPUs is here"
        )


def _most(config: SweepConfig, where: Where) -> int | None:
    """Lanes of a cluster; None: as many as there are places."""
    return where.lanes or (config.gpus and config.gpus // config.lane_gpus)


def _wanted_here(config: SweepConfig, where: Where) -> int | None:
    """GPUs of this machine; None: all."""
    if where.lanes:
        return where.lanes * config.lane_gpus
    return config.gpus and config.gpus - config.gpus % config.lane_gpus


@contextmanager
def _here(config: SweepConfig, count: int, gpus: Sequence[Gpu], say: Say) -> Iterator[Lanes]:
    say("starting Ray on this machine")
    with local_ray(gpus) as session:
        kind = gpus[0].name if gpus else ""
        here = Here(lanes=count, gpu=session.gpus > 0, gpus=config.lane_gpus, kind=kind)
        with _closed_first(start_board(here, session.beside)) as board:
            yield Lanes(session=session, board=board, count=lambda: count)


def kind_so_far(trials: Iterable[Trial]) -> str | None:
    """The kind of GPU that most of a sweep's trials had on a cluster; None if none had any."""
    kinds = Counter(str(trial.setup.get("node", {}).get("kind") or "") for trial in trials)
    del kinds[""]
    return kinds.most_common(1)[0][0] if kinds else None


@contextmanager
def _on_cluster(
    config: SweepConfig, where: Where, address: str, say: Say, kind: str | None
) -> Iterator[Lanes]:
    say(f"connecting to the Ray cluster at {address}")
    with cluster_ray(address, say) as session:
        look = OnCluster(
            labels=where.labels,
            kinds=_kinds(config, where, kind, say),
            gpus=config.lane_gpus,
            on_cpu=where.on_cpu,
            driver=session.node or "",
        )
        most = _most(config, where)
        if not where.on_cpu:
            _ask_for(where, look, most)
        look = of_one_kind(config, look, _first(config, look, most, say), say)

        def count() -> int:
            there = max(1, len(in_use(look())))
            return min(there, most or there)

        kinds = config.accelerator or ()
        with _closed_first(start_board(look, session.beside, most, kinds)) as board:
            yield Lanes(session=session, board=board, count=count)


@contextmanager
def _closed_first(board: Any) -> Iterator[Any]:
    """Trials that run at the end of the block learn that they lose their lanes to nobody's fault."""
    import ray

    try:
        yield board
    finally:
        with suppress(Exception):  # a board that is gone says as much
            ray.get(board.close.remote(), timeout=ANSWER_S)


def _kinds(config: SweepConfig, where: Where, kind: str | None, say: Say) -> tuple[str, ...] | None:
    """Those that it compares, or the one that it has begun with, on which it goes on; None: any."""
    if config.accelerator or kind is None or where.on_cpu:
        return config.accelerator
    if (chosen := where.labels.get(KIND_LABEL, kind)) != kind:
        say(f"its trials so far ran on {kind}: with those on {chosen} they are not compared")
        return None
    say(f"keeping to {kind}, on which its trials ran: --label {KIND_LABEL}=KIND takes others")
    return (kind,)


def _ask_for(where: Where, look: OnCluster, most: int | None) -> None:
    """Have the autoscaler bring what is missing, and keep what is there."""
    kinds = look.kinds or ()
    each = -(-most // len(kinds)) if most and kinds else most
    request_gpus(each or max(1, len(look())), kinds, where.labels, each=look.gpus)


def _first(config: SweepConfig, look: OnCluster, most: int | None, say: Say) -> Sequence[Place]:
    """Wait until there is a place at all. DeviceError if none comes up.

    ConfigError where no node that has GPUs has as many as a lane needs.
    """
    until_s, told = monotonic() + NO_LANE_DEADLINE_S, False
    while not (places := look()):
        if 0 < (largest := look.most_gpus()) < look.gpus:
            text = f"must be at most the GPUs of the cluster's largest node, {largest}, got {look.gpus}"
            raise config.error(size_key(config.settings[0]), text)
        if monotonic() > until_s:
            raise DeviceError(
                f"no {_wanted(look)} came up on the cluster within {NO_LANE_DEADLINE_S / 60:g} minutes"
            )
        if not told:
            say(f"the cluster has no {_wanted(look)} yet; asked its autoscaler for {most or 1}, waiting")
            told = True
        sleep(LOOK_EVERY_S)
    return places


def _wanted(look: OnCluster) -> str:
    kind = " or ".join(look.kinds or ()) or ("node" if look.on_cpu else "GPU")
    kind = f"node with {look.gpus} times {kind}" if look.gpus > 1 else kind
    labels = ", ".join(f"{key}={value}" for key, value in look.labels.items())
    return f"{kind} with {labels}" if labels else kind


def of_one_kind(config: SweepConfig, look: OnCluster, places: Sequence[Place], say: Say) -> OnCluster:
    """Without `accelerator` a sweep has one kind of GPU, so that no comparison is between two of them.

    ConfigError where a model cannot fit it.
    """
    counts: dict[str, int] = {}
    for place in places:
        counts[place.kind] = counts.get(place.kind, 0) + 1
    if look.on_cpu or look.kinds or KIND_LABEL in look.labels:
        return look
    kind = max(counts, key=lambda kind: (counts[kind], kind))
    if others := ", ".join(sorted(one or "unnamed" for one in counts if one != kind)):
        say(
            f"using the cluster's {kind or 'unnamed'} GPUs and no others ({others}): `accelerator` in the config "
            f"compares kinds, --label {KIND_LABEL}=KIND chooses one"
        )
    check_fits(config, on_cluster((kind,)))
    return replace(look, kinds=(kind,))
