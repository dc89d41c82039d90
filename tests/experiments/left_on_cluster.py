"""What is left on a Ray cluster after a sweep: run as a module with its address, it prints that as JSON."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests.experiments.descendants import descendants

ROOT = Path(__file__).parents[2]
NOTHING: dict[str, Any] = {"actors": [], "placement_groups": [], "gpus": 0, "processes": []}
OF_NODES = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::IDLE")
GONE_S = 15.0  # what Ray takes to end the processes of a job that is over


def left(address: str) -> dict[str, Any]:
    """Named actors, placement groups that are not removed, the GPUs that are not free, and processes that still live.

    Of a cluster whose nodes this process has started.
    """
    asked = [sys.executable, "-m", "tests.experiments.left_on_cluster", address]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    end_s = time.monotonic() + GONE_S
    while (working := _working()) and time.monotonic() < end_s:
        time.sleep(0.2)  # a poll of other processes: there is nothing to wait on
    return {**found, "processes": working}


def _working() -> list[str]:
    """What Ray has started for somebody and not for itself."""
    titles = [title for one in descendants(os.getpid(), "ray::") if (title := _title(one))]
    return [title for title in titles if not title.startswith(OF_NODES)]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _look(address: str) -> dict[str, Any]:
    import ray

    ray.init(address=address, log_to_driver=False)
    groups = ray.util.placement_group_table()
    have, free = ray.cluster_resources(), ray.available_resources()  # type: ignore[no-untyped-call]
    return {
        "actors": [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)],
        "placement_groups": [one["name"] for one in groups.values() if one["state"] != "REMOVED"],
        "gpus": have.get("GPU", 0) - free.get("GPU", 0),
    }


if __name__ == "__main__":
    print(json.dumps(_look(sys.argv[1])))
