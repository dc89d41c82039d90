"""A real Chromium for tests of pages: one for a module, closed at its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
DEADLINE_S = 60
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
OVERLAPS = """
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
return [...document.querySelectorAll('[data-chart]')].flatMap(chart => {
  const labels = [...chart.querySelectorAll('.xtick text, .ytick text, .xtitle, .ytitle, .legendtext')];
  const boxes = labels.map(label => label.getBoundingClientRect());
  return labels.flatMap((label, i) => labels.slice(i + 1)
    .filter((other, j) => meet(boxes[i], boxes[i + 1 + j]))
    .map(other => label.textContent + ' / ' + other.textContent));
});
"""


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """A browser with a profile of its own; skips the test where there is none."""
    if not (CHROMIUM.exists() and DRIVER.exists()):
        pytest.skip("needs Debian's chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for switch in (*SWITCHES, f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        driver.get("about:blank")  # the tab that it begins with loads for a while, into the logs
        yield driver
    finally:
        driver.quit()


def show(browser: Any, path: Path, width_px: int = 1400, scheme: str = "light") -> None:
    """Open a page and wait until it has drawn all its figures."""
    browser.set_window_size(width_px, 1000)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get(path.as_uri())
    WebDriverWait(browser, DEADLINE_S).until(
        lambda driver: driver.execute_script("return document.documentElement.dataset.drawn") == "yes"
    )


def until(browser: Any, script: str, expected: Any) -> None:
    """Wait until a script answers `expected`; fails with what it answered last."""
    try:
        WebDriverWait(browser, DEADLINE_S).until(lambda driver: driver.execute_script(script) == expected)
    except WebDriverException:
        assert browser.execute_script(script) == expected
        raise


def overflow_px(browser: Any) -> int:
    """How much wider the page is than the window."""
    wide: int = browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wide
