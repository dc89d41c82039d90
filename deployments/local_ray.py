"""A Ray of our own on this machine: private, token-protected, on loopback, and gone afterwards.

Ray reads some of its settings from the environment when it is imported, so `prepare` comes first. Nothing
here touches another Ray on the host: the session has its own address, folder and token.
"""

import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deployments.gpu_selection import only
from deployments.gpus import Gpu, visible_gpus
from deployments.interruption import Signals
from deployments.ray_session import RaySession, only_warnings, prepare_environment

_FOLDER = "batchyard"  # what is removed must be ours; short, because socket paths have at most 100 characters

_DRIVER_RESOURCE = "driver"  # binds trials to this node, as on a cluster something else does


def prepare() -> None:
    """Set what Ray reads on import, unless the user has; call before anything imports ray."""
    prepare_environment()
    for name, value in _LOCAL.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))


_LOCAL = {
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # keeps all but one port on loopback
    "RAY_worker_niceness": "0",  # replicas would give way (15) to whatever else the machine does, the page included
}


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
def local_ray(gpus: Sequence[Gpu] | None = None) -> Iterator[RaySession]:
    """Ray and Serve on this machine for the length of the block; no other GPU than these (None: all) is seen."""
    prepare()
    import ray
    from ray import serve

    only_warnings()
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
            resources={_DRIVER_RESOURCE: 1},
            _temp_dir=folder,
        )
        signals.take(signal.SIGTERM)  # after `init`, whose own handler ends the process
        serve.start(proxy_location="Disabled", logging_config={"log_level": "WARNING"})
        yield RaySession(gpus=_gpus(), folder=folder, beside=_DRIVER_RESOURCE)
    finally:
        signals.ignore()
        ray.shutdown()
        seen.close()
        shutil.rmtree(folder, ignore_errors=True)
        signals.give_back()
