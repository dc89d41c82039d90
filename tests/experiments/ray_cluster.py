"""A real Ray cluster of several nodes on this machine, with GPUs that are only counted."""

import os
from typing import Any

from deployments.gpu_selection import VARIABLE
from deployments.places import KIND_LABEL

SOON = {  # a node that died is noticed in five seconds, and one that is slow for as long is not taken for dead
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "10",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}
STORE_BYTES = 80_000_000


class RayCluster:
    """A head without GPUs, and nodes that are added and killed. Its token is this process's."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        os.environ.update(SOON)
        os.environ.pop(VARIABLE, None)  # tests see no GPU, and Ray would count none
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)

    @property
    def address(self) -> str:
        """HOST:PORT of the head."""
        return str(self._cluster.address)

    def add(self, kind: str = "A10G", gpus: int = 1, **environment: str) -> Any:
        """A node with so many GPUs of that kind, and more in the environment of what runs on it."""
        return self._cluster.add_node(
            num_cpus=1,
            num_gpus=gpus,
            object_store_memory=STORE_BYTES,
            labels={KIND_LABEL: kind},
            env_vars=environment or None,
        )

    def kill(self, node: Any) -> None:
        """End all processes of a node at once."""
        self._cluster.remove_node(node, allow_graceful=False)

    def shutdown(self) -> None:
        """End all nodes, the head last; the environment is as it was before."""
        self._cluster.shutdown()
        os.environ.clear()
        os.environ.update(self._environment)
