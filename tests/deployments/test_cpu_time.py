"""CPU time of a process and those below it, as the system counts it."""

import subprocess
import sys
import time

from deployments.cpu_time import CpuTime

BUSY = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nsys.stdin.read()"


def test_it_counts_from_when_it_was_made_and_only_work():
    here = CpuTime(descendants=False)
    before_s = time.process_time()
    assert here.used_s() < 0.2
    while time.process_time() - before_s < 0.2:
        pass
    assert here.used_s() >= 0.15  # the system counts in hundredths


def test_a_process_below_counts_also_when_it_has_ended():
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys\nsys.stdin.readline()\n" + BUSY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    both, here = CpuTime(), CpuTime(descendants=False)
    child.stdin.write("go\n")
    child.stdin.flush()
    assert child.stdout.readline() == "done\n"
    used_s = both.used_s()
    assert used_s >= here.used_s() + 0.1
    child.communicate()
    assert both.used_s() >= used_s
