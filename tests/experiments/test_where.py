"""What is refused of lanes on a cluster before it is asked, and the kind of GPU that a sweep keeps to."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.where import Where, check_asked, kind_so_far

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
