"""What is refused of lanes on a cluster before it is asked."""

from collections.abc import Callable
from typing import Any

import pytest

from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.where import Where, check_asked

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
