"""What a driver needs of a Ray, be it its own on this machine or a cluster's, and what Ray and Serve read on import."""

import logging
import os
from dataclasses import dataclass

from deployments.gpu_selection import NUMBERING

ENVIRONMENT = {
    **NUMBERING,
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # A call costs half of what it does otherwise, and no second thread holds the interpreter for 5 ms while
    # a request is on its way. The price: a process must make all its calls from one event loop.
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is a KeyboardInterrupt at once
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # the store is the truth, Tune's snapshots are not read
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySession:
    """A Ray that this process is connected to."""

    gpus: int  # of this machine, on a Ray of our own
    folder: str  # goes with it; on the driver's machine
    beside: str  # a resource that only the driver's node has: what asks for a little of it is put there
    node: str | None = None  # Ray's id of the driver's node on a cluster; None: a Ray of our own


def prepare_environment() -> None:
    """Set what Ray reads on import, unless the user has."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def only_warnings() -> None:
    """Ray, Serve and Tune say no less: failures are in the store, and standard output is a document's. Imports ray."""
    from ray._private import worker

    worker._worker_logs_enabled = False  # raylets say 20 lines of a node that died, on standard output
    # `serve.start` sets a level of its own, but leaves filters alone.
    logging.getLogger("ray.serve").addFilter(lambda record: record.levelno >= logging.WARNING)
    for name, level in (("ray", logging.ERROR), ("ray.tune", logging.CRITICAL)):
        logging.getLogger(name).setLevel(level)
