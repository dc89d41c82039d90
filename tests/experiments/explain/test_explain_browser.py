"""The page of theory in Chromium: nothing is loaded, everything is drawn, the controls and the legend work."""

from pathlib import Path
from typing import Any

import pytest

from experiments.explain.basis import bases
from experiments.explain.explanation import explain
from experiments.explain.page import write
from results.report import theme

pytest.importorskip("selenium", reason="needs selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from tests.chromium import OVERLAPS, overflow_px, show, until

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(made_config: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "theory.html"
    config = made_config(arrival_rate=[0.5, 2, 10, 50])
    write(explain(config, bases(config)), path)
    return path


@pytest.mark.parametrize("width_px", [800, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_whole_and_loads_nothing(browser: Any, page: Path, width_px: int, scheme: str) -> None:
    browser.get_log("browser")
    show(browser, page, width_px, scheme)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('[data-chart]')].map(e => [e.closest('[data-panel]').id,"
        "e.querySelectorAll('.scatterlayer .trace').length, e.getBoundingClientRect().width])"
    )
    assert [name for name, *_ in drawn] == [
        "steps",
        "efficiency",
        "throughput",
        "latency",
        "batches",
        "batches",
    ]
    assert all(traces > 0 and width > 300 for _, traces, width in drawn)
    assert overflow_px(browser) <= 0
    assert browser.execute_script(OVERLAPS) == []


def test_dark_swaps_every_colour(browser: Any, page: Path) -> None:
    colours = (
        "return [...document.querySelectorAll('[data-chart]')].flatMap(e => e.data).map(t => t.line.color)"
    )
    show(browser, page)
    light = browser.execute_script(colours)
    show(browser, page, scheme="dark")
    assert browser.execute_script(colours) == [theme.DARK[colour] for colour in light]


def test_controls_and_legend_change_the_figures(browser: Any, page: Path) -> None:
    show(browser, page)
    percentile = Select(browser.find_elements(By.CSS_SELECTOR, "#latency select")[1])
    highest = "return Math.max(...document.querySelector('#latency [data-chart]').data[0].y)"
    before = browser.execute_script(highest)
    percentile.select_by_value("p99")
    until(browser, f"{highest} > {before}", True)
    browser.find_element(By.CSS_SELECTOR, '#curves button[data-series="vllm / naive · 4"]').click()
    until(
        browser,
        "return [...document.querySelectorAll('[data-chart]')].flatMap(e => e.data)"
        ".filter(t => t.meta?.series === 'vllm / naive · 4').every(t => t.visible === false)",
        True,
    )
