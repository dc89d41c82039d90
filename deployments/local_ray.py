"""A Ray of our own on this machine: private, token-protected, on loopback, and gone afterwards.

Ray reads some of its settings from the environment when it is imported, so `prepare` comes first. Nothing
here touches another Ray on the host: the session has its own address, folder and token.
"""

import logging
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deployments.gpu_selection import NUMBERING, only
from deployments.gpus import Gpu, visible_gpus
from deployments.interruption import Signals

DRIVER_RESOURCE = "driver"  # binds trials to the driver's node

_FOLDER = "batchyard"  # what is removed must be ours; short, because socket paths have at most 100 characters

_ENVIRONMENT = {
    **NUMBERING,
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # keeps all but one port on loopback
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # A call costs half of what it does otherwise, and no second thread holds the interpreter for 5 ms while
    # a request is on its way. The price: a process must make all its calls from one event loop.
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_worker_niceness": "0",  # replicas would give way (15) to whatever else the machine does, the page included
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
class LocalRay:
    """What a local Ray offers: GPUs that it found, and a folder that goes with it."""

    gpus: int
    folder: str


def prepare() -> None:
    """Set what Ray reads on import, unless the user has; call before anything imports ray."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))


def _remove_left_behind() -> None:
    """Folders of drivers that were killed, which could not remove them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}-*-*"):
        pid = folder.name.split("-")[1]
        if pid.isdecimal() and not Path("/proc", pid).exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _gpus() -> int:
    import ray

    return int(ray.cluster_resources().get("GPU", 0))  # type: ignore[no-untyped-call]


@contextmanager
def local_ray(gpus: Sequence[Gpu] | None = None) -> Iterator[LocalRay]:
    """Ray and Serve on this machine for the length of the block; no other GPU than these (None: all) is seen."""
    prepare()
    import ray
    from ray import serve

    # `serve.start` sets a level of its own, but leaves filters alone.
    logging.getLogger("ray.serve").addFilter(lambda record: record.levelno >= logging.WARNING)
    for name, level in (("ray", logging.ERROR), ("ray.tune", logging.CRITICAL)):  # failures are in the store
        logging.getLogger(name).setLevel(level)
    _remove_left_behind()
    folder = tempfile.mkdtemp(prefix=f"{_FOLDER}-{os.getpid()}-")
    gpus = visible_gpus() if gpus is None else gpus
    seen, signals = ExitStack(), Signals()
    try:
        signals.take(signal.SIGINT)
        seen.enter_context(only([gpu.label for gpu in gpus]))
        ray.init(
            address="local",
            num_gpus=len(gpus),  # Ray would take "-1" for a GPU, and count without our driver
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            object_store_memory=200_000_000,
            resources={DRIVER_RESOURCE: 1_000},
            _temp_dir=folder,
        )
        signals.take(signal.SIGTERM)  # after `init`, whose own handler ends the process
        serve.start(proxy_location="Disabled", logging_config={"log_level": "WARNING"})
        yield LocalRay(gpus=_gpus(), folder=folder)
    finally:
        signals.ignore()
        ray.shutdown()
        seen.close()
        shutil.rmtree(folder, ignore_errors=True)
        signals.give_back()
