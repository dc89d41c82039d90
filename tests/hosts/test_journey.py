"""Rented boxes to a page, on three hosts of this machine; and nothing of them is left, whatever ends it."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.hosts import boxes
from tests.hosts.journey import TRIALS

pytestmark = [pytest.mark.ray, pytest.mark.fault]
JOURNEY = [sys.executable, "-m", "tests.hosts.journey"]
OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}  # a newcomer's


@pytest.fixture(autouse=True)
def _possible() -> None:
    if (reason := boxes.why_not()) is not None:
        pytest.skip(reason)


def of_hosts() -> list[str]:
    """The servers of hosts that run now."""
    commands = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [command for command in commands if "/run/sshd_config" in command]


def test_boxes_become_a_cluster_lose_one_get_it_back_and_give_a_page() -> None:
    done = subprocess.run(
        JOURNEY, capture_output=True, text=True, cwd=boxes.ROOT, env=OUTSIDE, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["cells"], found["trials"], found["problems"]) == (TRIALS, TRIALS, [])
    assert found["hosts"][-2:] == [boxes.name_of(worker) for worker in boxes.WORKERS]
    assert found["at_loss"] < TRIALS, "the sweep went on without the host"
    assert set(found["causes"]) <= {"lane-gone", "engine-dead"}, "none if it was cut off between two trials"
    assert f"[{TRIALS}/{TRIALS}] done" in found["logs"]
    assert found["page_bytes"] > 100_000
    assert found["never_typed"] == [], "lines of the README"
    assert found["shown"]["exit_code"] == 130
    assert "the job goes on" in found["shown"]["told"]
    assert ": running, begun " in found["status"]
    assert ": stopped, begun " in found["stopped"]
    assert 1 <= found["early"] < TRIALS
    assert found["again"] == [], "what was done is not done again"
    assert found["opened"][-1].endswith("/report.html")
    assert of_hosts() == []


def test_ctrl_c_leaves_nothing_of_the_hosts() -> None:
    journey = subprocess.Popen(
        JOURNEY, stdout=subprocess.PIPE, text=True, cwd=boxes.ROOT, env=OUTSIDE, start_new_session=True
    )
    assert journey.stdout is not None
    with journey.stdout as said:
        assert "three hosts answer" in said.readline()
        assert of_hosts()
        os.killpg(journey.pid, signal.SIGINT)
        assert journey.wait(60) != 0
    end_s = time.monotonic() + 30
    while of_hosts():
        assert time.monotonic() < end_s, of_hosts()
        time.sleep(0.1)  # the kernel ends them: there is nothing to wait on
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    assert "boxes" not in links
