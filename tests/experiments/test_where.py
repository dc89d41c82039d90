"""What is refused of lanes on a cluster before it is asked, and the kind of GPU that a sweep keeps to."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import experiments.where
from deployments.gpus import visible_gpus
from deployments.places import KIND_LABEL, OnCluster, Place
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.where import HERE, Where, check_asked, check_here, kind_so_far, of_one_kind
from tests.deployments.fake_nvml import Card, FakeNvml

ON_CLUSTER = "10.0.0.1:6379"


@pytest.mark.parametrize(
    ("lanes", "changes", "said"),
    [
        (1, {}, "--lanes must be at least 2, one for each kind of accelerator, got 1"),
        (0, {"gpus": 1}, "gpus: must be at least 2, a lane for each kind of accelerator, got 1"),
    ],
)
def test_fewer_lanes_than_kinds_of_gpu_are_refused(
    made_config: Callable[..., SweepConfig], lanes: int, changes: dict[str, Any], said: str
) -> None:
    config = made_config(accelerator=["A10G", "L4"], **changes)
    with pytest.raises(ConfigError, match=said):
        check_asked(config, Where(lanes=lanes, address=ON_CLUSTER))
    check_asked(made_config(accelerator=["A10G", "L4"]), Where(lanes=2, address=ON_CLUSTER))
    check_asked(made_config(accelerator=["A10G", "L4"]), Where(address=ON_CLUSTER))
    check_asked(made_config(), Where(lanes=1, address=ON_CLUSTER))


def test_the_kind_that_most_trials_had_is_kept_to(made_sweep: ModuleType) -> None:
    def trial(**node: str) -> Any:
        return made_sweep.make_trial([made_sweep.request_row()], setup={"node": node} if node else {})

    assert (
        kind_so_far([trial(kind="L4"), trial(kind="A10G"), trial(kind="L4"), trial(), trial(kind="")]) == "L4"
    )
    assert kind_so_far([trial(), trial(kind="")]) is None


def test_a_model_that_cannot_fit_the_kind_that_is_named_or_found_is_refused(
    made_config: Callable[..., SweepConfig],
) -> None:
    naive = [{"strategy": "naive", "backends": "vllm", "max_batch_size": 4}]
    large = made_config(model="llama-2-13b", strategies=naive)

    def found(kind: str) -> OnCluster:
        return of_one_kind(large, OnCluster(labels={}), [Place(slot=0, gpu=True, kind=kind)], print)

    def labelled(kind: str) -> Where:
        return Where(address=ON_CLUSTER, labels={KIND_LABEL: kind})

    for refused in (
        lambda: check_asked(large, labelled("A10G")),
        lambda: check_asked(
            made_config(model="llama-2-13b", strategies=naive, accelerator=["H100", "A10G"]),
            Where(lanes=2, address=ON_CLUSTER),
        ),
        lambda: found("A10G"),
    ):
        with pytest.raises(
            ConfigError, match=r"model: must fit A10G \(22\.4 GiB, 0\.9 of it for vllm\), got 2"
        ):
            refused()
    check_asked(large, labelled("H100"))
    check_asked(large, Where(address=ON_CLUSTER, labels={KIND_LABEL: "A10G"}, on_cpu=True))
    check_asked(large, Where(address=ON_CLUSTER))
    assert found("H100").kinds == ("H100",)


def test_what_was_begun_on_gpus_of_a_cluster_goes_on_here_only_where_such_a_gpu_is(
    made_config: Callable[..., SweepConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = made_config()
    for found, kind in ((FakeNvml(), "A10G"), (FakeNvml(Card("GPU-1", name="NVIDIA L4")), "A10G")):
        monkeypatch.setattr(experiments.where, "visible_gpus", lambda nvml=found: visible_gpus(nvml, {}))
        with pytest.raises(
            ConfigError, match=r"^its trials so far ran on A10G of a cluster: give its --address"
        ):
            check_here(config, HERE, kind)
        check_here(config, HERE, None)
    check_here(config, HERE, "L4")
