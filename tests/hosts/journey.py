"""From boxes to a page, with the commands of the README, on three hosts.

`ray up`, a sweep that goes on while the laptop is closed, is stopped and submitted again, loses a host and gets it back,
`ray down`. `python -m tests.hosts.journey` runs it; its last line says in JSON what was found. What it types are the lines
of the README's block and no others. What they bring up is cluster/boxes.yaml, but for addresses, the key, an environment
that is there already, GPUs that are only counted, and a Ray that is small and soon notices a lost host.
"""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.hosts import boxes
from tests.hosts.boxes import HEAD, HOSTS, ROOT, WORKERS
from tests.hosts.typed import Typed

DASHBOARD = "http://127.0.0.1:8265"
LAPTOP = Path("/root")  # the folder that all is typed in
CLUSTER, SWEEP, OPENED = LAPTOP / "boxes.yaml", LAPTOP / "boxes-sweep.yaml", LAPTOP / "opened"
SOON = "RAY_health_check_period_ms=500 RAY_health_check_timeout_ms=1000 RAY_health_check_failure_threshold=6 AUTOSCALER_HEARTBEAT_TIMEOUT_S=10 RAY_gcs_rpc_server_reconnect_timeout_s=10 RAY_raylet_start_wait_time_s=120"
SMALL = "--num-cpus=2 --object-store-memory=80000000"
GPU = {"head": "--num-gpus=0", "worker": "--num-gpus=1"}
TRIALS = 24
_BEGUN_S = time.monotonic()


@cache
def _typed() -> Typed:
    return Typed({"CONFIG": str(SWEEP), "cluster/boxes.yaml": str(CLUSTER)})


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
    _write_files()
    os.environ.update(_typed().exported, **_environment())
    _run("ray get-auth-token")
    _run("ray up", answer="y")
    _say("ray up has ended")
    tunnel = _open_tunnel()
    job = _submit()
    shown = _shown_until_interrupted(job)
    _close(tunnel)
    _say("the laptop is closed")
    lost = WORKERS[0]
    _wait(f"a trial on {lost}", lambda: len(_measured_as(lost)) == 1)
    tunnel = _open_tunnel()
    status = _run("batchyard status", JOB=job)
    _say(f"the laptop is open again, {_done()} of {TRIALS} trials are done")
    _run("ray job stop", JOB=job)
    stopped, early = _run("batchyard status", JOB=job), _fetched(job)
    job = _submit()
    _say(f"stopped, and submitted again with {len(early)} of {TRIALS} trials done")
    _wait("a trial of this job, and all hosts", lambda: _done() > len(early) and _alive() == set(HOSTS))
    boxes.cut(lost, off=True)
    _wait("the loss", lambda: lost not in _alive())
    at_loss = _done()
    _say(f"{lost} is cut off, {at_loss} of {TRIALS} trials are done")
    boxes.cut(lost, off=False)
    _wait("its return", lambda: lost in _alive())
    _say(f"{lost} is back, {_done()} of {TRIALS} trials are done")
    _wait(f"another trial on {lost}, which is a new node now", lambda: len(_measured_as(lost)) == 2)
    _say(f"{lost} measures again, {_done()} of {TRIALS} trials are done")
    logs = _run("batchyard logs", JOB=job)
    late = _fetched(job)
    _say("the results are home")
    _close(tunnel)
    _run("ray down", answer="y")
    _wait("the end of all Rays", lambda: not _rays())
    _say("ray down has ended")
    return {
        **_of_sweep(),
        "shown": shown,
        "status": status,
        "stopped": stopped,
        "early": len(early),
        "again": sorted(cell for cell, attempt in early.items() if late[cell] != attempt),
        "logs": logs,
        "at_loss": at_loss,
        "opened": OPENED.read_text().split(),
        "left": _rays(),
        "never_typed": sorted(_typed().never),
    }


def _open_tunnel() -> "subprocess.Popen[str]":
    tunnel = _begin("ray dashboard")
    _wait("the dashboard", lambda: HEAD in _alive())
    return tunnel


def _close(tunnel: "subprocess.Popen[str]") -> None:
    """As the lid of a laptop does: an ssh that others share, which `ray dashboard` leaves behind, goes too."""
    os.killpg(tunnel.pid, signal.SIGKILL)
    here = os.readlink("/proc/self/ns/net")
    for one in psutil.process_iter(["name"]):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):  # it ended by itself
            if one.info["name"] == "ssh" and os.readlink(f"/proc/{one.pid}/ns/net") == here:
                one.kill()
    _wait("the tunnel's end", lambda: not _alive())


def _submit() -> str:
    return _run("batchyard submit").splitlines()[0].removeprefix("job: ")


def _shown_until_interrupted(job: str) -> dict[str, Any]:
    """What Ctrl-C makes of `logs --follow`, once it has shown something."""
    showing = _begin("batchyard logs", JOB=job)
    assert showing.stdout is not None
    first = showing.stdout.readline()
    showing.send_signal(signal.SIGINT)
    _, told = showing.communicate(timeout=60)
    return {"first": first, "told": told, "exit_code": showing.returncode}


def _fetched(job: str) -> dict[str, int]:
    """Bring home what there is: by cell, the attempt that counts."""
    _run("batchyard fetch", JOB=job)
    from results.store import Store

    return {trial.cell_id: trial.attempt for trial in Store(_folder()).trials()}


def _folder() -> Path:
    [folder] = (LAPTOP / "results" / "data").iterdir()
    return folder


def _environment() -> dict[str, str]:
    """A home of our own, the environment's commands on the path, this code, and a browser that notes what it is to show."""
    browser = LAPTOP / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {OPENED}\n')
    browser.chmod(0o755)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"HOME": str(LAPTOP), "PATH": path, "PYTHONPATH": str(ROOT), "BROWSER": str(browser)}


def _write_files() -> None:
    config = yaml.safe_load((ROOT / "cluster" / "boxes.yaml").read_text())
    config["provider"] |= {"head_ip": HEAD, "worker_ips": WORKERS}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": "/root/key"}
    assert config["file_mounts"]["~/batchyard"] == "."
    config["file_mounts"]["~/batchyard"] = str(ROOT)
    install, *others = config["setup_commands"]
    assert install == "cd ~/batchyard && make install"
    config["setup_commands"] = [f"ln -sfn {sys.prefix} ~/batchyard/.venv", *others]
    for kind in ("head", "worker"):
        name = f"{kind}_start_ray_commands"
        starts = [one.replace("RAY_AUTH_MODE=token", f"RAY_AUTH_MODE=token {SOON}") for one in config[name]]
        config[name] = [
            one.replace("--disable-usage-stats", f"--disable-usage-stats {SMALL} {GPU[kind]}")
            for one in starts
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


def _of_sweep() -> dict[str, Any]:
    from results.store import Store

    store = Store(folder := _folder())
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


def _done() -> int:
    """Trials of the sweep that are done, by what is on the head."""
    return len(boxes.ssh(HEAD, "ls ~/batchyard-results/*/cells/*/*/done.json").stdout.split())


def _measured_as(host: str) -> set[str]:
    """The nodes of Ray that a host was, of those on which trials are done; read where the results are, on the head."""
    documents = boxes.ssh(HEAD, "cat ~/batchyard-results/*/cells/*/*/done.json").stdout
    found = re.findall(r'"node": ({[^}]*})', documents)
    nodes = [json.loads(one) for one in found]
    return {node["id"] for node in nodes if node["host"] == boxes.name_of(host)}


def _run(begin: str, *, answer: str | None = None, **replaced: str) -> str:
    """A line of the README; `answer` is what is typed when it asks, which it does on a terminal only."""
    terminal, stdin = pty.openpty()
    os.write(terminal, f"{answer}\n".encode() if answer else b"")
    words = _typed().words(begin, **replaced)
    done = subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        cwd=LAPTOP,
        stdin=stdin if answer else subprocess.DEVNULL,
    )
    os.close(stdin)
    os.close(terminal)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _begin(begin: str, **replaced: str) -> "subprocess.Popen[str]":
    """The same, left running."""
    return subprocess.Popen(
        _typed().words(begin, **replaced),
        cwd=LAPTOP,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


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
