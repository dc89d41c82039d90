"""How long does a page of a million requests take to make, to open and to answer a click? (2 minutes)

A sweep of 200 cells × 5,000 requests is simulated into a temporary folder; then `batchyard report` draws it, in a
process of its own: its wall and processor time and peak memory, and the size of the file. A real Chromium opens the page:
from the start of its navigation until a figure is drawn and painted, from a click on a filter until every figure in
the window is drawn and painted again (the median of five, and the slowest), and from another limit of the SLO until its
figure is. Needs Debian's chromium and chromium-driver. `--keep FOLDER` keeps the sweep, and uses one that is there.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from selenium.webdriver.support.ui import WebDriverWait

from tests.chromium import chromium

CONFIG = """
name: million
model: smollm2-135m
workload:
  arrivals: {process: poisson}
  prompts: {source: english, tokens: {distribution: uniform, low: 16, high: 256}}
  output_tokens: {distribution: lognormal, median: 32, sigma: 0.8, minimum: 1, maximum: 256}
arrival_rate: [1, 2, 3, 4]
duration_s: 2000
strategies:
  - {strategy: naive, backends: [huggingface, vllm], max_batch_size: 8}
  - {strategy: dynamic, backends: [huggingface, vllm], max_batch_size: 8, max_wait_ms: 50}
  - {strategy: continuous, backends: vllm, max_batch_size: 8}
repeats: 10
slo:
  - {ttft_ms: 500, tpot_ms: 40}
  - {e2e_ms: 3000}
"""
DEADLINE_S = 120
CLICKS = 5
FIRST = """
const done = arguments[0];
const painted = () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
const look = () => document.querySelector('[data-chart] .main-svg .point') ? painted() : setTimeout(look, 5);
look();
"""
AGAIN = """
const [selector, done] = arguments;
const within = ({top, bottom}) => bottom > 0 && top < innerHeight;
const element = document.querySelector(selector);
const changed = element.closest('[data-panel]') ?? document; // a control of one panel redraws that one
const charts = [...changed.querySelectorAll('[data-chart]')].filter(one => within(one.getBoundingClientRect()));
const drawn = charts.map(chart => new Promise(go => chart.once('plotly_afterplot', go)));
const begun = performance.now();
if (element.type === 'checkbox') element.click();
else {
  element.value = `${400 + Math.round(begun) % 200} ms`;
  element.dispatchEvent(new Event('input', {bubbles: true}));
}
Promise.all(drawn).then(() => requestAnimationFrame(() => requestAnimationFrame(() => done([performance.now() - begun, charts.length]))));
"""


def simulate(folder: Path) -> Path:
    """Give the folder of the sweep; what is there is gone on with."""
    (folder / "million.yaml").write_text(CONFIG, encoding="utf-8")
    run("simulate", str(folder / "million.yaml"), "--results", str(folder / "data"))
    return next((folder / "data").glob("million-*"))


def run(*words: str) -> tuple[float, float, float]:
    """Run the command: wall seconds, processor seconds, peak memory in GB of the largest process that ended so far."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun_s = time.perf_counter()
    subprocess.run(
        [str(Path(sys.executable).with_name("batchyard")), *words], check=True, stdout=subprocess.DEVNULL
    )
    took_s, after = time.perf_counter() - begun_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took_s, processor_s, after.ru_maxrss / 1e6


def answered_ms(browser: Any, selector: str) -> tuple[list[float], int]:
    """Milliseconds of each change, and how many figures it redraws in the window."""
    found, figures = [], 0
    for _ in range(CLICKS):
        settle(browser)
        milliseconds, figures = browser.execute_async_script(AGAIN, selector)
        found.append(milliseconds)
    return found, figures


def settle(browser: Any) -> None:
    """Wait until every figure is drawn."""
    WebDriverWait(browser, DEADLINE_S).until(
        lambda driver: driver.execute_script("return document.documentElement.dataset.drawn") == "yes"
    )


def look(page: Path, profile: Path) -> None:
    """Print what the page takes in a browser."""
    with chromium(profile) as browser:
        browser.set_script_timeout(DEADLINE_S)
        browser.set_window_size(1400, 1000)
        opened = []
        for _ in range(3):
            browser.get("about:blank")
            browser.get(page.as_uri())
            opened.append(browser.execute_async_script(FIRST))
        print(
            f"first figure visible after {statistics.median(opened) / 1000:.2f} s (slowest {max(opened) / 1000:.2f})"
        )
        settle(browser)
        browser.execute_script("document.querySelector('#curves .pair').scrollIntoView()")
        for what, selector in (
            ("a filter click", "#filters details[data-filter=rate] input"),
            ("another limit of the SLO", "#goodput [data-state=ttft_ms]"),
        ):
            if "goodput" in selector:
                browser.execute_script("document.querySelector('#goodput .charts').scrollIntoView()")
                browser.execute_async_script(AGAIN, selector)  # unpacks the requests, once
            took_ms, figures = answered_ms(browser, selector)
            print(
                f"{what} redraws what is in the window ({figures}) in {statistics.median(took_ms):.0f} ms "
                f"(slowest {max(took_ms):.0f})"
            )


def main() -> None:
    """Print a line a question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="batchyard-bench-") as temporary:
        folder = Path(temporary) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        sweep = simulate(folder)
        page = Path(temporary) / "page.html"
        took_s, processor_s, peak_gb = run("report", str(sweep), "-o", str(page))
        print(
            f"report in {took_s:.1f} s, {processor_s:.1f} s of processor time on {os.cpu_count()} cores, at most "
            f"{peak_gb:.2f} GB; {page.stat().st_size / 1e6:.1f} MB"
        )
        look(page, Path(temporary) / "profile")


if __name__ == "__main__":
    main()
