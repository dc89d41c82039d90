"""A Ray cluster that runs already: connect as a driver, run one sweep, and leave nothing of it behind.

The checkout goes along as Ray's working directory, so that every node runs the driver's own code. Serve may have
applications of somebody else: then only what is ours in it is removed. One sweep at a time has the lanes of a
cluster, because its lane board is what keeps two deployments off one GPU: who has it, a named actor says.
"""

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deployments.errors import DeviceError, last_line
from deployments.interruption import Signals
from deployments.lane_board import LEAST_SHARE, NAMESPACE
from deployments.ray_session import ENVIRONMENT, RaySession, only_warnings, prepare_environment

OURS = "lane-"  # how the names of our applications begin
_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set in what was submitted as a job, which has its working directory
_EXCLUDED = (".git", ".venv", "results/data", "tests", "docs", "**/__pycache__")
_CONNECT_DEADLINE_S = 10.0
_LAST_PORT = 65_535


@contextmanager
def cluster_ray(address: str, say: Callable[[str], None]) -> Iterator[RaySession]:
    """Ray and Serve of the cluster at `address` ("auto", or HOST:PORT of its head) for the length of the block.

    DeviceError if none answers there, or another sweep runs on it.
    """
    prepare_environment()
    import ray
    from ray import serve

    only_warnings()
    spare = _last_words(
        f"ended from outside, or with the Ray at {address}: the same command goes on once that is there"
    )
    folder, signals = tempfile.mkdtemp(prefix=f"batchyard-{os.getpid()}-"), Signals()
    claim = None
    try:
        signals.take(signal.SIGINT)
        _connect(address)
        signals.take(signal.SIGTERM)  # after `init`, whose own handler ends the process
        node = ray.get_runtime_context().get_node_id()
        beside = only_there(ray.nodes(), node)  # type: ignore[no-untyped-call]
        claim = _claim(address, beside)
        serve.start(proxy_location="Disabled", logging_config={"log_level": "WARNING"})
        if left := _delete_ours():
            say(f"removed what an earlier driver left on the cluster: {', '.join(left)}")
        yield RaySession(gpus=0, folder=folder, beside=beside, node=node)
    finally:
        signals.ignore()
        serve_log = logging.getLogger("ray.serve")
        serve_log.disabled = True  # it warns of how it is shut down
        if claim is not None:  # else what is there is another driver's
            with contextlib.suppress(Exception):  # a head that is gone has nothing left to be removed
                request_gpus(0)
                _delete_ours()
                _end_serve()
        ray.shutdown()
        serve_log.disabled = False
        spare()
        shutil.rmtree(folder, ignore_errors=True)
        signals.give_back()


def _last_words(text: str) -> Callable[[], None]:
    """Have it said if this process ends before what is returned was called: Ray ends one whose node is gone, at once."""
    said = subprocess.Popen(
        ["sh", "-c", 'read -r spared || echo "$0" >&2', text], stdin=subprocess.PIPE, start_new_session=True
    )

    def spare() -> None:
        said.communicate(b"spared\n")

    return spare


def check_address(address: str) -> None:
    """DeviceError if it cannot be a head's."""
    host, _, port = address.rpartition(":")
    if address != "auto" and (not host or "/" in host or not port.isdecimal() or int(port) > _LAST_PORT):
        raise DeviceError(
            f"--address must be HOST:PORT of a cluster's head, or auto, got {address or 'nothing'}"
        )


def check_answers(address: str) -> None:
    """DeviceError if nothing listens at HOST:PORT; `auto` is Ray's to find."""
    check_address(address)
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_DEADLINE_S):
            return
    except OSError as error:
        raise DeviceError(f"no Ray cluster answers at {address}: {error.strerror or error}") from error


def request_gpus(
    count: int, kinds: Sequence[str] = (), labels: Mapping[str, str] | None = None, *, each: int = 1
) -> None:
    """Ask the cluster's autoscaler, if it has one, for so many lanes (of each kind), until asked for others; 0: for none.

    `each`: GPUs of a lane.
    """
    from ray.autoscaler.sdk import request_resources

    bundles = [
        {"GPU": float(each), **({f"accelerator_type:{kind}": 0.001} if kind else {})}
        for kind in kinds or ("",)
        for _ in range(count)
    ]
    selectors = [dict(labels) for _ in bundles] if labels else None
    request_resources(bundles=bundles, bundle_label_selectors=selectors)


def only_there(nodes: Sequence[Mapping[str, Any]], node: str) -> str:
    """A resource that only this node has, to put things on it. DeviceError if there is none."""
    of_others = {
        name for other in nodes if other["Alive"] and other["NodeID"] != node for name in other["Resources"]
    }
    [mine] = [one["Resources"] for one in nodes if one["NodeID"] == node]
    if found := sorted(name for name in mine if name.startswith("node:") and name not in of_others):
        return str(found[0])
    raise DeviceError(
        "the driver's node cannot be told from others of its address: start the sweep on the head"
    )


def _connect(address: str) -> None:
    import ray

    workers = {"env_vars": {name: os.environ[name] for name in ENVIRONMENT}}
    checkout = {"working_dir": str(Path(__file__).parent.parent), "excludes": list(_EXCLUDED)}
    try:
        ray.init(
            address=address,
            runtime_env=workers if _JOB in os.environ else {**workers, **checkout},
            log_to_driver=False,
            configure_logging=False,
        )
    except Exception as error:
        raise refused(address, error) from error


def refused(address: str, error: Exception) -> DeviceError:
    """Why Ray could not connect, in one line."""
    if str(error).startswith("Version mismatch"):  # on six lines, of which the last is no reason
        return DeviceError(
            f"the cluster at {address} is of another Ray or Python: {' '.join(str(error).split())}"
        )
    text = "a Ray cluster's head, or auto on one of its nodes"
    return DeviceError(f"--address must be {text}, got {address}: {last_line(error)}")


class _Claim:
    """Only its name matters: there is one on a cluster, and it goes with its driver, if that dies some seconds later."""


def _claim(address: str, beside: str) -> Any:
    """Have the cluster for this driver alone; the handle must be kept. DeviceError if another one has it.

    It comes before all else: what a driver removes at its start would be the lanes of one that had looked just before.
    """
    import ray

    options = {"name": "batchyard-driver", "namespace": NAMESPACE, "resources": {beside: LEAST_SHARE}}
    try:
        return ray.remote(num_cpus=0)(_Claim).options(**options).remote()
    except ValueError as error:
        text = f"another sweep runs on the cluster at {address}: wait for it, or end it"
        raise DeviceError(text) from error


def _delete_ours() -> list[str]:
    """Remove the applications that are ours; their names."""
    from ray import serve

    ours = [name for name in serve.status().applications if name.startswith(OURS)]
    for name in ours:
        with contextlib.suppress(Exception):  # it may raise or hang, and the others are to go too
            serve.delete(name)
    return ours


def _end_serve() -> None:
    """Unless somebody else has an application in it; a killed driver's is ended too."""
    import ray
    from ray import serve
    from ray.serve._private.constants import SERVE_NAMESPACE

    if serve.status().applications:
        return
    with contextlib.suppress(Exception):  # of a node that died it may wait for what is gone
        serve.shutdown()  # type: ignore[no-untyped-call]
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == SERVE_NAMESPACE:
            with contextlib.suppress(Exception):
                ray.kill(ray.get_actor(actor["name"], namespace=SERVE_NAMESPACE))
