"""From boxes to a page, as the README says, on three hosts: `ray up`, a sweep that loses a host and gets it back, `ray down`.

`python -m tests.hosts.journey` runs it; its last line says in JSON what was found. What it runs is cluster/boxes.yaml, but
for addresses, the key, an environment that is there already, and a Ray that is small and soon notices a lost host.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.hosts import boxes
from tests.hosts.boxes import HEAD, HOSTS, ROOT, WORKERS

PYTHON = sys.executable
RAY = str(Path(sys.executable).parent / "ray")
DASHBOARD = "http://127.0.0.1:8265"
CLUSTER, SWEEP, RESULTS = Path("/root/boxes.yaml"), Path("/root/boxes-sweep.yaml"), Path("/root/results")
SOON = "RAY_health_check_period_ms=500 RAY_health_check_timeout_ms=1000 RAY_health_check_failure_threshold=6 AUTOSCALER_HEARTBEAT_TIMEOUT_S=10 RAY_gcs_rpc_server_reconnect_timeout_s=10 RAY_raylet_start_wait_time_s=120"
SMALL = "--num-cpus=2 --object-store-memory=80000000"
TRIALS = 24
_BEGUN_S = time.monotonic()


def main() -> None:
    """All of it; fails with what did not happen in time."""
    if (reason := boxes.why_not()) is not None:
        sys.exit(f"skipped: {reason}")
    if os.getpid() != 1:  # in namespaces of our own we are the first process
        sys.exit(subprocess.run(boxes.inside("tests.hosts.journey"), check=False).returncode)
    boxes.start()
    _say("three hosts answer")
    found = _journey()
    print(json.dumps(found), flush=True)


def _journey() -> dict[str, Any]:
    os.environ.update(HOME="/root", RAY_AUTH_MODE="token")
    _write_files()
    _run(RAY, "get-auth-token", "--generate")
    _run(RAY, "up", "-y", "--no-config-cache", str(CLUSTER))
    _say("ray up has ended")
    tunnel = subprocess.Popen([RAY, "dashboard", "--no-config-cache", str(CLUSTER)], stdin=subprocess.DEVNULL)
    _wait("the dashboard", lambda: HEAD in _alive())
    job = _batchyard("submit", SWEEP, "--on-cpu").splitlines()[0].removeprefix("job: ")
    _say(f"submitted {job}")
    lost = WORKERS[0]
    _wait("all hosts", lambda: _alive() == set(HOSTS))
    _say("all hosts are in the cluster")
    _wait(f"a trial on {lost}", lambda: len(_measured_as(lost)) == 1)
    boxes.cut(lost, off=True)
    _wait("the loss", lambda: lost not in _alive())
    at_loss = _done(job)
    _say(f"{lost} is cut off, {at_loss} of {TRIALS} trials are done")
    boxes.cut(lost, off=False)
    _wait("its return", lambda: lost in _alive())
    _say(f"{lost} is back, {_done(job)} of {TRIALS} trials are done")
    _wait(f"another trial on {lost}, which is a new node now", lambda: len(_measured_as(lost)) == 2)
    _say(f"{lost} measures again, {_done(job)} of {TRIALS} trials are done")
    logs = _batchyard("logs", job, "--follow")
    folder = _batchyard("fetch", job, "--results", RESULTS).splitlines()[0].removeprefix("results: ")
    _say("the results are home")
    tunnel.terminate()
    _run(RAY, "down", "-y", str(CLUSTER))
    _wait("the end of all Rays", lambda: not _rays())
    _say("ray down has ended")
    return {
        **_of_sweep(Path(folder)),
        "logs": logs,
        "at_loss": at_loss,
        "left": _rays(),
    }


def _write_files() -> None:
    config = yaml.safe_load((ROOT / "cluster" / "boxes.yaml").read_text())
    config["provider"] |= {"head_ip": HEAD, "worker_ips": WORKERS}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": "/root/key"}
    install, *others = config["setup_commands"]
    assert install == "cd ~/batchyard && make install"
    config["setup_commands"] = [f"ln -sfn {sys.prefix} ~/batchyard/.venv", *others]
    for kind in ("head", "worker"):
        name = f"{kind}_start_ray_commands"
        starts = [one.replace("RAY_AUTH_MODE=token", f"RAY_AUTH_MODE=token {SOON}") for one in config[name]]
        config[name] = [
            one.replace("--disable-usage-stats", f"--disable-usage-stats {SMALL}") for one in starts
        ]
    CLUSTER.write_text(yaml.safe_dump(config))
    lengths = {"distribution": "fixed", "tokens": 8}
    sweep = {
        "name": "boxes",
        "workload": {"prompts": {"source": "random", "tokens": lengths}, "output_tokens": lengths},
        "arrival_rate": [4, 6, 8, 10],
        "duration_s": 4,
        "repeats": TRIALS // 4,
        "strategies": [{"strategy": "naive", "backends": "simulated", "max_batch_size": 2}],
    }
    SWEEP.write_text(yaml.safe_dump(sweep))


def _of_sweep(folder: Path) -> dict[str, Any]:
    from results.store import Store

    store = Store(folder)
    trials = store.trials()
    return {
        "cells": len({trial.cell_id for trial in trials}),
        "trials": len(trials),
        "hosts": sorted({trial.setup["node"]["host"] for trial in trials}),
        "problems": list(store.problems),
        "causes": sorted({failure.cause for failure in store.failures()}),
        "page_bytes": (folder / "report.html").stat().st_size,
    }


def _alive() -> set[str]:
    """Addresses of the hosts in the cluster, as its dashboard has them; none while it does not answer."""
    token = Path("/root/.ray/auth_token").read_text().strip()
    asked = urllib.request.Request(
        f"{DASHBOARD}/nodes?view=summary", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            nodes = json.load(answer)["data"]["summary"]
    except OSError:
        return set()
    return {one["raylet"]["nodeManagerAddress"] for one in nodes if one["raylet"].get("state") == "ALIVE"}


def _done(job: str) -> int:
    counts = re.findall(r"^\[(\d+)/\d+\]", _batchyard("logs", job), flags=re.MULTILINE)
    return int(counts[-1]) if counts else 0


def _measured_as(host: str) -> set[str]:
    """The nodes of Ray that a host was, of those on which trials are done; read where the results are, on the head."""
    documents = boxes.ssh(HEAD, "cat ~/batchyard-results/*/cells/*/*/done.json").stdout
    found = re.findall(r'"node": ({[^}]*})', documents)
    nodes = [json.loads(one) for one in found]
    return {node["id"] for node in nodes if node["host"] == boxes.name_of(host)}


def _batchyard(*arguments: object) -> str:
    return _run(PYTHON, "-m", "experiments", *map(str, arguments))


def _run(*command: str) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _rays() -> list[str]:
    """Names of the processes of Ray that run, on all hosts: this process sees them."""
    running = psutil.process_iter(["name", "status"])
    names = [one.info["name"] for one in running if one.info["status"] != psutil.STATUS_ZOMBIE]
    return [name for name in names if name in ("raylet", "gcs_server")]


def _wait(what: str, happened: Callable[[], bool], deadline_s: float = 300) -> None:
    end_s = time.monotonic() + deadline_s
    while not happened():
        if time.monotonic() > end_s:
            logs = "/tmp/ray/session_latest/logs"
            asked = ((HEAD, f"tail -n 40 {logs}/monitor.*"), (WORKERS[0], f"tail -n 40 {logs}/raylet.out"))
            told = "\n".join(boxes.ssh(host, command).stdout for host, command in asked)
            sys.exit(f"{what} did not come in {deadline_s:g} s\n{told}")
        time.sleep(0.5)


def _say(text: str) -> None:
    print(f"{time.monotonic() - _BEGUN_S:5.0f} s  {text}", flush=True)


if __name__ == "__main__":
    main()
