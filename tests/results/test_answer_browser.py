"""The page of several sweeps in Chromium: told apart, reached by keyboard, printed, and nothing in it run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.findings import Verdict
from results.records import Failure
from results.report import frame, several
from results.report.index import Entry, found_in, render
from results.report.page import render_all
from results.store import Store
from results.summary import find

pytest.importorskip("selenium", reason="needs selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.chromium import OVERLAPS, overflow_px, show

pytestmark = pytest.mark.browser
EVIL = '<script>document.title = "run"</script><img src=x onerror="document.title = 1">'
A4_PX = 718  # wide, without its margins


@pytest.fixture(scope="module")
def page(made_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sweeps, the second of a model, with errors and verdicts, that would like to be run."""
    findings = find(made_store)
    verdict = Verdict(name="failures", detail=EVIL)
    trials = {
        id(one): replace(
            one,
            verdicts=(verdict,),
            trial=one.trial.model_copy(update={"model": EVIL, "setup": {"prompt": EVIL}}),
        )
        for one in findings.trials
    }
    evil = replace(
        findings,
        sweep={**findings.sweep, "name": EVIL, "config": f"prompt: {EVIL}"},
        trials=tuple(trials.values()),
        cells=tuple(
            replace(cell, model=EVIL, trials=tuple(trials[id(one)] for one in cell.trials))
            for cell in findings.cells
        ),
        failures=(Failure(cell_id="x", attempt=1, cause=EVIL, error=EVIL, failed_at="now"),),
    )
    path = tmp_path_factory.mktemp("page") / "together.html"
    shown = several.shown([("one", findings, made_store), ("two", evil, made_store)])
    frame.write(render_all(shown), path)
    return path


def test_what_data_says_is_shown_and_not_run(browser: Any, page: Path) -> None:
    browser.get_log("browser")
    show(browser, page)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.title == f"tiny, {EVIL} · batchyard"
    assert browser.execute_script("return document.images.length") == 0
    for section in ("answer", "curves", "trust", "setup"):
        text = browser.execute_script("return document.getElementById(arguments[0]).textContent", section)
        assert EVIL in text, section


def test_each_place_of_each_sweep_has_a_dash_of_its_own_in_figures_and_legend(
    browser: Any, page: Path
) -> None:
    show(browser, page)
    drawn = browser.execute_script(
        "return document.querySelector('#throughput [data-chart]').data.map(t => [t.name, t.line.dash])"
    )
    dashes: dict[str, set[str]] = {}
    for name, dash in drawn:
        dashes.setdefault(name.partition(" on ")[2], set()).add(dash)
    assert len(dashes) == 4
    assert [len(of) for of in dashes.values()] == [1] * 4
    assert len(set.union(*dashes.values())) == 4
    strokes = browser.execute_script(
        "return [...document.querySelectorAll('#curves > .legend .place')].map(p => new Set("
        "[...p.querySelectorAll('line')].map(l => l.getAttribute('stroke-dasharray'))).size)"
    )
    assert strokes == [1] * 4


@pytest.mark.parametrize("width_px", [800, 1400])
def test_two_sweeps_fit_the_window(browser: Any, page: Path, width_px: int) -> None:
    show(browser, page, width_px, scheme="dark")
    assert overflow_px(browser) <= 0
    assert browser.execute_script(OVERLAPS) == []


def test_the_keyboard_skips_to_the_answer_first_and_sees_where_it_is(browser: Any, page: Path) -> None:
    show(browser, page)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the answer"
    assert skip.rect["x"] >= 0
    assert skip.value_of_css_property("outline-style") == "solid"
    skip.send_keys(Keys.ENTER)
    assert (
        browser.execute_script("return document.getElementById('answer').getBoundingClientRect().top") < 100
    )
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    links = browser.execute_script("return [...document.querySelectorAll('a')].map(a => a.hash.slice(1))")
    assert set(links) <= set(ids)


def test_a_screen_reader_finds_landmarks_and_a_name_for_all_that_it_can_reach(
    browser: Any, page: Path
) -> None:
    show(browser, page)
    counts = browser.execute_script(
        "return ['main', 'header', 'nav[aria-label]', 'h1'].map(s => document.querySelectorAll(s).length)"
    )
    assert counts == [1, 1, 1, 1]
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('[role=img], [role=region], [role=group], [tabindex], select, input')]"
        ".filter(e => !e.closest('.js-plotly-plot .main-svg') && !(e.ariaLabel || e.labels?.length))"
        ".map(e => e.outerHTML.slice(0, 120))"
    )
    assert unnamed == []
    without_table = browser.execute_script(
        "return [...document.querySelectorAll('[data-panel]')].filter(e => !e.querySelector('details.data table'))"
        ".map(e => e.id)"
    )
    assert without_table == []


def test_printed_it_is_white_fits_the_paper_and_leaves_out_what_is_for_the_screen(
    browser: Any, page: Path
) -> None:
    show(browser, page, A4_PX, scheme="dark")
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    hidden = browser.execute_script(
        "return ['.contents', '.skip', '#filters'].map(s => getComputedStyle(document.querySelector(s)).display)"
    )
    glance = browser.execute_script("return document.querySelector('.glance').checkVisibility()")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert ground == "rgb(255, 255, 255)"
    assert hidden == ["none"] * 3
    assert glance


def test_the_list_of_sweeps_leads_to_their_pages(
    browser: Any, page: Path, made_store: Store, tmp_path: Path
) -> None:
    found = found_in(find(made_store))
    entry = Entry(
        name=f"with space & {EVIL}", folder=page.parent, headline=found.headline, progress="63 of 63 done",
        begun="2026-11-01 10:00", models=found.models, devices=found.devices, simulated=True, page=page,
    )  # fmt: skip
    listed = tmp_path / "index.html"
    frame.write(render([entry], page.parent, listed), listed)
    browser.get(listed.as_uri())
    assert found.headline in browser.find_element(By.TAG_NAME, "main").text
    assert "Simulated, no measurement." in browser.find_element(By.TAG_NAME, "main").text
    assert overflow_px(browser) <= 0
    browser.find_element(By.LINK_TEXT, entry.name).click()
    assert browser.current_url == page.as_uri()
