"""What is left on a Ray cluster after a sweep: run as a module with its address, it prints that as JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTHING: dict[str, Any] = {"actors": [], "placement_groups": [], "gpus": 0}


def left(address: str) -> dict[str, Any]:
    """Named actors, placement groups that are not removed, and the GPUs that are not free."""
    asked = [sys.executable, "-m", "tests.experiments.left_on_cluster", address]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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
