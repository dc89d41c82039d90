"""What a reader does with the page in Chromium: filters, links, downloads, another SLO; on a made sweep and a simulated one."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pyarrow as pa
import pytest

from results.findings import Findings
from results.goodput import Slo, goodput
from results.report import frame, numbers, slo
from results.report.page import render, write_page
from results.report.series import series_of
from results.served import Served, served
from results.store import Store
from results.summary import find

pytest.importorskip("selenium", reason="needs selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.chromium import DEADLINE_S, chromium, show, until

pytestmark = pytest.mark.browser
NAIVE = "vllm / naive · 8"
SLOS = (Slo(ttft_ms=500, tpot_ms=30), Slo(e2e_ms=700))
SIMULATED = """
name: clicked
model: smollm2-135m
workload:
  arrivals: {process: poisson}
  prompts: {source: english, tokens: {distribution: uniform, low: 16, high: 256}}
  output_tokens: {distribution: lognormal, median: 32, sigma: 0.8, minimum: 1, maximum: 256}
arrival_rate: [1, 4, 8]
duration_s: 120
strategies:
  - {strategy: naive, backends: huggingface, max_batch_size: [4, 8]}
  - {strategy: dynamic, backends: [huggingface, vllm], max_batch_size: 8, max_wait_ms: [50, 500]}
  - {strategy: continuous, backends: vllm, max_batch_size: 8}
slo: {ttft_ms: 800, tpot_ms: 40, e2e_ms: 4000}
"""
DRAWN = "return document.documentElement.dataset.drawn"
SHOWN_X = (
    "return [...document.querySelectorAll('#latency [data-chart], #goodput [data-chart]')]"
    ".flatMap(e => e.data).filter(t => t.visible).flatMap(t => t.x)"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def downloads(browser: Any, tmp_path: Path) -> Path:
    """An empty folder for what this test downloads."""
    settings = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", settings)
    return tmp_path


@pytest.fixture(scope="module")
def store(made_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The made sweep with SLOs in its config."""
    root = tmp_path_factory.mktemp("with-slos")
    (root / "cells").symlink_to(Path(made_store.root) / "cells")
    found = Store(root)
    sweep = {key: value for key, value in (made_store.read_sweep() or {}).items() if key != "schema_version"}
    found.write_sweep({**sweep, "config": {"slo": [one.limits for one in SLOS]}})
    return found


@pytest.fixture(scope="module")
def findings(store: Store) -> Findings:
    return find(store)


@pytest.fixture(scope="module")
def page(findings: Findings, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(findings, store, path)
    return path


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a simulated sweep of 21 settings and rates, with 11,000 requests, and its page."""
    folder = tmp_path_factory.mktemp("simulated")
    (folder / "clicked.yaml").write_text(SIMULATED, encoding="utf-8")
    batchyard = Path(sys.executable).with_name("batchyard")
    words = ("simulate", str(folder / "clicked.yaml"), "--results", str(folder), "--repeats", "3")
    subprocess.run([str(batchyard), *words], check=True, capture_output=True)
    return next(folder.glob("clicked-*"))


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    open_page(browser, page)
    return browser


def open_page(browser: Any, page: Path, link: str = "") -> None:
    """Open it anew, with what a link asks for, and wait until all is drawn."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.set_window_size(1400, 1000)
    browser.get(page.as_uri() + link)
    until(browser, DRAWN, "yes")


def quiet(browser: Any) -> bool:
    """Whether the page reported nothing and loaded nothing."""
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    return not loaded and not [one for one in browser.get_log("browser") if one["level"] != "INFO"]


def text(browser: Any, selector: str) -> str:
    found: str = browser.execute_script(f"return document.querySelector('{selector}').textContent")
    return found.replace("\u00a0", " ")


def link_of(browser: Any) -> dict[str, list[str]]:
    hash_ = browser.execute_script("return location.hash.slice(1)")
    return parse_qs(hash_, keep_blank_values=True)


def click_filter(browser: Any, name: str, value: str) -> None:
    """Open the menu and click, with the keyboard alone."""
    summary = browser.find_element(By.CSS_SELECTOR, f"#filters details[data-filter={name}] summary")
    summary.send_keys(Keys.ENTER)
    browser.find_element(By.CSS_SELECTOR, f"[data-filter={name}] input[value='{value}']").send_keys(
        Keys.SPACE
    )
    summary.send_keys(Keys.ESCAPE)
    assert browser.execute_script("return document.querySelectorAll('#filters details[open]').length") == 0
    until(browser, DRAWN, "yes")


def type_into(browser: Any, state: str, value: str) -> None:
    field = browser.find_element(By.CSS_SELECTOR, f"#goodput [data-state={state}]")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(value or Keys.DELETE)
    until(browser, DRAWN, "yes")


def test_a_filter_by_rate_takes_its_points_and_rows_from_the_whole_page(
    opened: Any, findings: Findings
) -> None:
    click_filter(opened, "rate", "1")
    assert set(opened.execute_script(SHOWN_X)) == {5, 30}
    shown = opened.execute_script(
        "return ['latency', 'goodput', 'changes'].map(id => [...document.querySelectorAll(`#${id} tbody tr`)]"
        ".filter(row => !row.hidden).map(row => row.textContent.includes('1 req/s')))"
    )
    assert all(rows and not any(rows) for rows in shown)
    assert text(opened, "#filter-status").startswith("14 of 21 points shown")
    assert link_of(opened) == {"without-rate": ["1"]}
    opened.find_element(By.CSS_SELECTOR, "#filters [aria-label='Reset all filters']").send_keys(Keys.ENTER)
    until(opened, DRAWN, "yes")
    assert set(opened.execute_script(SHOWN_X)) == {1, 5, 30}
    assert text(opened, "#filter-status") == "all 21 points shown"
    assert link_of(opened) == {}
    assert quiet(opened)


def test_a_rate_that_is_filtered_out_is_not_offered_and_what_speaks_of_all_says_so(
    browser: Any, page: Path
) -> None:
    chosen = (
        "return [...document.querySelectorAll('select[data-control=\"arrival rate\"], [data-panel=closeup] select')]"
        ".map(s => [s.selectedOptions[0].label, s.selectedOptions[0].hidden])"
    )
    of_all = (
        "return ['header', '#answer', '#throughput', '#batches', '#goodput', '#timelines', '#slots']"
        ".map(one => !document.querySelector(`${one} .of-all`).hidden)"
    )
    open_page(browser, page)
    before = browser.execute_script(chosen)
    assert any("30 req/s" in label for label, _ in before)
    click_filter(browser, "rate", "30")
    click_filter(browser, "backend", "huggingface")
    left = browser.execute_script(chosen)
    assert not [label for label, hidden in left if hidden or "30 req/s" in label or "huggingface" in label]
    assert text(browser, "#batches h3").startswith("At 5 req/s")
    assert browser.execute_script(of_all) == [True, True, True, True, False, False, False]
    columns = "return [...document.querySelectorAll('#answer th')].filter(e => e.checkVisibility()).map(e => e.textContent)"
    assert not [column for column in browser.execute_script(columns) if "at 30 req/s" in column]
    open_page(browser, page, browser.execute_script("return location.hash"))
    assert browser.execute_script(chosen) == left
    click_filter(browser, "rate", "1")
    click_filter(browser, "rate", "5")
    nothing = "Nothing of this figure is left: it is all filtered out"
    assert text(browser, "#slots h3") == text(browser, "#changes h3") == nothing
    browser.find_element(By.CSS_SELECTOR, "#filters [aria-label='Reset all filters']").click()
    until(browser, DRAWN, "yes")
    assert browser.execute_script(chosen) == before
    assert not any(browser.execute_script(of_all))
    assert quiet(browser)


def test_with_nothing_selected_the_figures_say_so_instead_of_empty_axes(opened: Any) -> None:
    said = (
        "return ['throughput', 'latency', 'goodput', 'tradeoff', 'changes', 'pareto', 'splits', 'batches'].map(id => ["
        "[...document.querySelectorAll(`#${id} [data-chart]`)].every(e => e.textContent.includes('Nothing of this figure is left')),"
        "document.querySelectorAll(`#${id} :is(.xtick, .ytick)`).length > 0])"
    )
    opened.find_element(By.CSS_SELECTOR, "#filters details[data-filter=setting] summary").send_keys(
        Keys.ENTER
    )
    opened.find_element(By.CSS_SELECTOR, "#filters [aria-label='Hide every strategy']").send_keys(Keys.ENTER)
    until(opened, DRAWN, "yes")
    assert opened.execute_script(said) == [[True, False]] * 8
    opened.find_element(By.CSS_SELECTOR, "#filters [aria-label='Reset all filters']").send_keys(Keys.ENTER)
    until(opened, DRAWN, "yes")
    assert opened.execute_script(said) == [[False, True]] * 8
    assert quiet(opened)


def test_many_settings_have_one_legend_that_stays_in_sight(
    browser: Any, findings: Findings, made_store: Store, tmp_path: Path
) -> None:
    """Not one beside each figure; it names and switches every setting."""
    more = [replace(one, setting=f"{one.setting} · again") for one in findings.cells]
    many = replace(findings, cells=(*findings.cells, *more), sentences=())
    write_page(many, made_store, tmp_path / "many.html")
    open_page(browser, tmp_path / "many.html")
    places = browser.execute_script(
        "return [...document.querySelectorAll('div.legend')].map(e => e.closest('[id]').id)"
    )
    assert places == ["filters", "curves"]
    browser.execute_script("document.querySelector('#changes').scrollIntoView()")
    browser.find_element(By.CSS_SELECTOR, "#filters details.keys summary").click()
    keys = browser.find_elements(By.CSS_SELECTOR, "#filters button[data-series]")
    assert [key.accessible_name for key in keys] == [
        one.name for one in sorted(series_of(many), key=lambda one: one.place)
    ]
    boxes = [(key.rect["x"], key.rect["y"], key.rect["width"], key.rect["height"]) for key in keys]
    for n, (x, y, width, height) in enumerate(boxes):
        assert not [1 for a, b, *_ in boxes[n + 1 :] if x < a + 1 < x + width and y < b + 1 < y + height]
    first = next(key for key in keys if key.get_attribute("data-series") == NAIVE)
    first.click()
    until(browser, DRAWN, "yes")
    assert browser.execute_script(
        "return [...document.querySelectorAll('[data-chart]')].flatMap(e => e.data)"
        f".filter(t => t.meta?.series === '{NAIVE}').every(t => t.visible === false)"
    )
    assert link_of(browser) == {"without-series": [NAIVE]}


def test_a_filter_by_backend_takes_its_series_from_figures_legends_tables_and_sentences(opened: Any) -> None:
    click_filter(opened, "backend", "huggingface")
    visible = opened.execute_script(
        "return [...document.querySelectorAll('#throughput [data-chart], #tradeoff [data-chart], #goodput [data-chart]')]"
        ".flatMap(e => e.data).filter(t => t.visible && t.meta?.series).map(t => t.meta.series)"
    )
    assert visible
    assert all(key.startswith("vllm / ") for key in visible)
    marked = opened.execute_script(
        "return [...document.querySelectorAll('[data-of]')].map(e => [e.dataset.of.includes('huggingface'), e.hidden])"
    )
    assert {(True, True), (False, False)} == {tuple(one) for one in marked}
    keys = opened.execute_script(
        "return [...document.querySelectorAll('button[data-series]')].filter(e => !e.hidden).map(e => e.dataset.series)"
    )
    assert all(key.startswith("vllm") for key in keys)
    rows = "return document.querySelectorAll('#batches [data-chart]')[0].layout.yaxis.categoryarray.length"
    assert opened.execute_script(rows) == 4
    knobs = "return [...document.querySelectorAll('#knobs [data-chart]')].map(e => [e.closest('figure').innerText, e.textContent])"
    emptied = {
        name.split("\n")[0]: "Nothing of this figure is left" in words
        for name, words in opened.execute_script(knobs)
    }
    assert emptied == {"vllm": False, "huggingface": True}
    assert "huggingface" not in text(opened, "#knobs h3")
    names = "return [...document.querySelectorAll('.legend .place > span, th.place')].filter(e => e.checkVisibility()).map(e => e.textContent)"
    assert set(opened.execute_script(names)) == {"vllm"}
    assert quiet(opened)


def test_a_link_brings_back_filters_controls_and_the_slo(browser: Any, page: Path) -> None:
    open_page(browser, page)
    click_filter(browser, "setting", "dynamic · 8 · 50 ms")
    browser.find_element(By.CSS_SELECTOR, f'#curves button[data-series="{NAIVE}"]').click()
    Select(browser.find_element(By.CSS_SELECTOR, "#latency select")).select_by_value("e2e_s")
    type_into(browser, "ttft_ms", "0.25 s")
    link = browser.execute_script("return location.hash")
    said = {one: text(browser, one) for one in ("#latency h3", "#goodput h3", "#filter-status")}
    assert "TTFT ≤ 250 ms" in said["#goodput h3"]
    open_page(browser, page, link)
    assert {one: text(browser, one) for one in said} == said
    assert browser.execute_script("return location.hash") == link
    pressed = browser.find_elements(By.CSS_SELECTOR, f'button[data-series="{NAIVE}"]')
    assert {key.get_attribute("aria-pressed") for key in pressed} == {"false"}
    assert quiet(browser)


def test_a_place_is_gone_to_without_losing_what_was_chosen(opened: Any) -> None:
    click_filter(opened, "rate", "30")
    opened.find_element(By.CSS_SELECTOR, 'nav a[href="#trust"]').click()
    assert link_of(opened) == {"without-rate": ["30"]}
    assert opened.execute_script("return document.activeElement.id") == "trust"
    assert (
        abs(opened.execute_script("return document.getElementById('trust').getBoundingClientRect().top"))
        < 400
    )


@pytest.mark.parametrize(
    "link",
    [
        "#%%%=&=&%E0%A4%A",
        "#without-rate=7&latency.metric=nothing&slo=99&without-toString=x",
        "#a=<script>",
        "#trust",
    ],
)
def test_a_link_of_garbage_opens_the_page_as_it_is(browser: Any, page: Path, link: str) -> None:
    open_page(browser, page, link)
    assert text(browser, "#filter-status") == "all 21 points shown"
    assert SLOS[0].text in text(browser, "#goodput h3")
    assert quiet(browser)


def test_what_is_typed_is_what_goodput_is_counted_for(opened: Any) -> None:
    Select(opened.find_element(By.CSS_SELECTOR, "#goodput [data-state=slo]")).select_by_index(1)
    until(opened, DRAWN, "yes")
    assert f"99 % of offered within {SLOS[1].text}" in text(opened, "#goodput h3")
    type_into(opened, "within", "50")
    assert f"50 % of offered within {SLOS[1].text}" in text(opened, "#goodput h3")
    type_into(opened, "e2e_ms", "soon")
    assert "E2E must be a time such as 500 ms or 0.5 s" in text(opened, "#goodput [role=status]")
    assert opened.find_element(By.ID, "goodput").text.count("E2E must be a time") == 1
    assert text(opened, "#goodput h3").startswith("Not counted")
    drawn = (
        "const e = document.querySelector('#goodput [data-chart]');"
        "return [e.data.length, e.querySelectorAll('.xtick, .ytick').length, e.textContent]"
    )
    *marks, words = opened.execute_script(drawn)
    assert marks == [0, 0], "nothing is drawn of a limit that is half typed, and no axis"
    assert words == "Nothing to draw"
    type_into(opened, "e2e_ms", "")
    assert "one limit at least" in text(opened, "#goodput [role=status]")
    type_into(opened, "e2e_ms", "1,5 s")
    assert text(opened, "#goodput [role=status]") == ""
    assert "E2E ≤ 1.5 s" in text(opened, "#goodput h3")


def test_who_keeps_an_slo_is_named_by_rate_and_share(opened: Any, findings: Findings) -> None:
    type_into(opened, "within", "30")
    kept = []
    for line in series_of(findings):
        shares = [(cell.rate, cell.mean(SLOS[0].of("goodput_share")) or 0.0) for cell in line.cells]
        kept += [(-rate, -share, line.name) for rate, share in shares if share >= 0.3][-1:]
    said = text(opened, "#goodput h3").split(": ")[1].split(", ")
    assert len(kept) > 4
    assert said == [
        *(f"{name} up to {-rate:g} req/s" for rate, _, name in sorted(kept, key=lambda one: one[:2])[:4]),
        f"{len(kept) - 4} more under “Data of this figure”",
    ]


def test_the_goodput_that_the_page_counts_is_the_stores(opened: Any, findings: Findings) -> None:
    """At the configured SLOs, for every measure; the axis and the table say the same."""
    control = Select(opened.find_element(By.CSS_SELECTOR, "#goodput [data-control=measure]"))
    preset = Select(opened.find_element(By.CSS_SELECTOR, "#goodput [data-state=slo]"))
    for position, one in enumerate(SLOS):
        preset.select_by_index(position)
        for measure in ("share", "requests", "tokens"):
            control.select_by_value(measure)
            until(opened, DRAWN, "yes")
            name = f"goodput_{measure}" if measure == "share" else f"goodput_{measure}_per_s"
            drawn = opened.execute_script(
                "return document.querySelector('#goodput [data-chart]').data.map(t => t.y)"
            )
            expected = [[cell.mean(one.of(name)) for cell in line.cells] for line in series_of(findings)]
            assert [y for line in drawn for y in line] == pytest.approx(
                [y for line in expected for y in line], rel=1e-12
            )
    rows = opened.execute_script("return document.querySelectorAll('#goodput tbody tr').length")
    assert rows == len(findings.cells)


def test_figures_and_data_are_downloaded_under_telling_names(opened: Any, downloads: Path) -> None:
    click_filter(opened, "rate", "30")
    for kind in ("png", "svg", "csv"):
        opened.execute_script(f"document.querySelector('#latency [data-download={kind}]').click()")
    files = {path.suffix: path for path in arrived(opened, downloads, 3)}
    assert {path.name for path in files.values()} == {
        f"made-latency-ttft-s-p50.{kind}" for kind in ("png", "svg", "csv")
    }
    assert files[".png"].read_bytes().startswith(b"\x89PNG\r\n")
    assert files[".svg"].read_text(encoding="utf-8").startswith("<svg")
    assert "TTFT" in files[".svg"].read_text(encoding="utf-8")
    with files[".csv"].open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:3] == ["strategy", "backend", "rate (req/s)"]
    assert len(rows) == 14
    assert {row[2] for row in rows} == {"1.0", "5.0"}
    assert quiet(opened)


def test_an_image_has_its_heading_and_a_key_for_each_curve_and_cuts_nothing(
    browser: Any, simulated: Path, downloads: Path
) -> None:
    """Of a figure with theory, whose curves have one key together; the plot keeps its height."""
    show(browser, simulated / "report.html")
    height_px, heading = browser.execute_script(
        "const e = document.getElementById('throughput');"
        "return [e.querySelector('[data-chart]').getBoundingClientRect().height, e.querySelector('h3').textContent]"
    )
    browser.execute_script("document.querySelector('#throughput [data-download=svg]').click()")
    (file,) = arrived(browser, downloads, 1)
    outside, texts, plot_px = browser.execute_script(
        "const root = document.importNode(new DOMParser().parseFromString(arguments[0], 'image/svg+xml').documentElement, true);"
        "document.body.prepend(root);"
        "const box = root.getBoundingClientRect(), texts = [...root.querySelectorAll('text')];"
        "const beyond = ({ left, right, top, bottom }) =>"
        "  left < box.left || right > box.right || top < box.top || bottom > box.bottom;"
        "const found = [texts.filter(e => beyond(e.getBoundingClientRect())).map(e => e.textContent),"
        "  [...root.children].filter(e => e.tagName === 'text').map(e => e.textContent),"
        "  Number(root.querySelector('svg').getAttribute('height'))];"
        "root.remove(); return found;",
        file.read_text(encoding="utf-8"),
    )
    assert outside == []
    assert plot_px == round(height_px)
    names = [one.name for one in series_of(find(Store(simulated)))]
    end = texts.index("theory (thin lines)") + 1
    title, keys, foot = texts[: end - len(names) - 1], texts[end - len(names) - 1 : end], texts[end:]
    assert keys[:-1] == names
    assert " ".join(title) == heading
    origin = "batchyard · clicked-simulated · smollm2-135m on virtual · 3 repeats, intervals at 95 % · beware: simulated, not measured"
    assert " ".join(foot) == origin


def test_an_image_has_the_heading_of_its_own_figure_names_the_base_and_says_where_it_is_from(
    opened: Any, downloads: Path
) -> None:
    """The second of four."""
    opened.execute_script("document.querySelectorAll('#changes [data-download=svg]')[1].click()")
    (file,) = arrived(opened, downloads, 1)
    image = file.read_text(encoding="utf-8").replace("\u00a0", " ")
    said = opened.execute_script(
        "const root = new DOMParser().parseFromString(arguments[0], 'image/svg+xml').documentElement;"
        "return [...root.querySelectorAll(':scope > text')].map(e => e.textContent)",
        image,
    )
    assert said[0].startswith("P50 TTFT of continuous · 8 is ")
    assert "that of naive · 8" in " ".join(said)
    assert "times naive · 8 on vllm" in image
    assert "P50 TTFT (lower is better)" in said
    assert (
        said[-1] == "batchyard · made · tiny on cpu · 3 repeats, intervals at 95 % · beware: TTFT not settled"
    )
    buttons = opened.find_elements(By.CSS_SELECTOR, "#changes [data-title^='Download plot']")
    assert buttons == [], "Plotly's own image has neither"


def test_what_is_saved_of_goodput_has_the_slo_in_its_name_and_in_its_rows(
    opened: Any, downloads: Path, findings: Findings
) -> None:
    type_into(opened, "ttft_ms", "250")
    opened.execute_script("document.querySelector('#goodput [data-download=csv]').click()")
    (file,) = arrived(opened, downloads, 1)
    assert file.name == "made-goodput-share-of-offered-ttft-250-ms-tpot-30-ms-99.csv"
    with file.open(encoding="utf-8-sig", newline="") as text_file:
        rows = list(csv.DictReader(text_file))
    limits = [(row["TTFT at most (ms)"], row["TPOT at most (ms)"], row["E2E at most (ms)"]) for row in rows]
    assert set(limits) == {("250", "30", "")}
    assert {row["wanted share (ratio)"] for row in rows} == {"0.99"}
    standing = [cell.standing or "kept up" for one in series_of(findings) for cell in one.cells]
    assert [row["state"] for row in rows] == standing
    assert {"kept up", "overloaded"} <= set(standing)


def test_the_heading_of_goodput_is_about_the_measure_that_is_drawn(opened: Any, findings: Findings) -> None:
    """Of requests and tokens: the most that each setting has."""
    Select(opened.find_element(By.CSS_SELECTOR, "#goodput [data-control=measure]")).select_by_value("tokens")
    until(opened, DRAWN, "yes")
    name = SLOS[0].of("goodput_tokens_per_s")
    most = max(
        (value, one.name, cell.rate)
        for one in series_of(findings)
        for cell in one.cells
        if (value := cell.mean(name)) is not None
    )
    said = text(opened, "#goodput h3")
    best = f"{numbers.number(most[0])} tokens/s with {most[1]} at {most[2]:g} req/s, "
    assert said.startswith(f"The most tokens/s within {SLOS[0].text}: {best}")


def arrived(browser: Any, folder: Path, count: int) -> list[Path]:
    """Wait for files that are whole."""

    def whole(_: Any) -> Any:
        files = [path for path in folder.iterdir() if path.suffix in (".png", ".svg", ".csv")]
        return files if len(files) == count and all(path.stat().st_size for path in files) else None

    found: list[Path] = WebDriverWait(browser, DEADLINE_S).until(whole)
    return found


def test_every_control_changes_what_its_panel_shows(browser: Any, simulated: Path) -> None:
    """On the page of a simulated sweep, whose numbers are the store's."""
    browser.get_log("browser")
    show(browser, simulated / "report.html")
    state = (
        "const e = document.getElementById(arguments[0]);"
        "return JSON.stringify([e.querySelector('h3').textContent,"
        "...[...e.querySelectorAll('[data-chart]')].map(c => [c.getAttribute('aria-label'), c.data, c.layout])])"
    )
    controls = browser.execute_script(
        "return [...document.querySelectorAll('[data-panel] select[data-control]')].filter(s => s.options.length > 1)"
        ".map(s => [s.closest('[data-panel]').id, s.dataset.control])"
    )
    assert len(controls) > 8
    for panel, name in controls:
        before = browser.execute_script(state, panel)
        browser.execute_script(
            "const s = document.querySelector(`#${arguments[0]} [data-control='${arguments[1]}']`);"
            "s.selectedIndex = s.options.length - 1; s.dispatchEvent(new Event('change', {bubbles: true}))",
            panel,
            name,
        )
        until(browser, DRAWN, "yes")
        assert browser.execute_script(state, panel) != before, (panel, name)
    assert quiet(browser)


def test_slots_of_hidden_strategies_leave_the_figure_its_heading_and_its_table(
    browser: Any, simulated: Path
) -> None:
    open_page(browser, simulated / "report.html")
    named = (
        "const e = document.getElementById('occupancy'), c = e.querySelector('[data-chart]');"
        "return [c.layout.annotations.map(a => a.text.split('</b>')[0].slice(3)), e.querySelectorAll('.nsewdrag').length,"
        " [...new Set([...e.querySelectorAll('tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent))],"
        " ['naive', 'dynamic', 'continuous'].map(one => e.querySelector('h3').textContent.includes(one)),"
        " !e.querySelector('.of-all').hidden]"
    )
    all_three, *_ = browser.execute_script(named)
    assert [one.split(" ")[0] for one in all_three] == ["naive", "dynamic", "continuous"]
    height = "return document.querySelector('#occupancy [data-chart]').layout.height"
    whole_px = browser.execute_script(height)
    click_filter(browser, "setting", all_three[1])
    left = [all_three[0], all_three[2]]
    assert browser.execute_script(named) == [left, 2, left, [True, False, True], False]
    assert browser.execute_script(height) < whole_px
    click_filter(browser, "backend", "simulated vllm (no measurement)")
    assert browser.execute_script(named) == [left[:1], 1, left[:1], [True, False, False], False]
    x_axis = "return document.querySelector('#occupancy .xtitle').textContent"
    assert browser.execute_script(x_axis) == "forward pass"
    assert quiet(browser)


def test_a_simulated_sweeps_goodput_is_the_stores(browser: Any, simulated: Path) -> None:
    show(browser, simulated / "report.html")
    found = find(Store(simulated))
    name = found.slos[0].of("goodput_share")
    drawn = browser.execute_script(
        "return document.querySelector('#goodput [data-chart]').data.map(t => t.y)"
    )
    assert drawn == [[cell.mean(name) for cell in one.cells] for one in series_of(found)]


def test_a_share_is_exact_at_configured_slos_and_near_at_others(browser: Any) -> None:
    """50,000 requests: a third of TPOTs alike, one-token answers, failures; at 60 SLOs that were not configured."""
    rng = np.random.default_rng(7)
    count = 50_000
    ttft_s = rng.lognormal(-1, 1, count)
    tokens = rng.integers(1, 300, count)
    tpot_s = np.where(rng.random(count) < 0.3, 0.0248, rng.normal(0.03, 0.004, count))
    rows = pa.table(
        {
            "planned_s": np.sort(rng.random(count)) * 1000,
            "sent_s": np.zeros(count),
            "status": np.where(rng.random(count) < 0.9, "finished", "failed"),
            "output_tokens": tokens,
            "ttft_s": ttft_s,
            "tpot_s": pa.array(np.where(tokens > 1, tpot_s, np.nan), from_pandas=True),
            "itl_p99_s": pa.array(np.where(tokens > 1, tpot_s * 1.2, np.nan), from_pandas=True),
            "e2e_s": ttft_s + (tokens - 1) * tpot_s,
        }
    )
    configured = (
        Slo(ttft_ms=float(1000 * ttft_s[5]), tpot_ms=24.8),
        Slo(e2e_ms=float(1000 * rows["e2e_s"][9].as_py())),
        Slo(itl_ms=36.0, e2e_ms=9000.0),
    )
    others = [
        Slo(ttft_ms=float(a), tpot_ms=float(b), e2e_ms=float(c))
        for a, b, c in zip(
            rng.lognormal(6, 1, 60), rng.uniform(20, 40, 60), rng.lognormal(8, 1, 60), strict=True
        )
    ]
    exact = goodput(rows, [*configured, *others])
    found = count_in(browser, served(rows, configured), [*configured, *others])
    for one, counted in zip([*configured, *others], found, strict=True):
        expected = {name: exact[one.of(f"goodput_{key}")] for name, key in MEASURES.items()}
        if one in configured:
            assert counted == pytest.approx(expected, rel=1e-12)
        else:
            assert counted["share"] == pytest.approx(expected["share"], abs=2e-4)


MEASURES = {"share": "share", "requests": "requests_per_s", "tokens": "tokens_per_s"}


def count_in(browser: Any, trial: Served, slos: list[Slo]) -> list[dict[str, float]]:
    """Give what the page's own script counts of one trial, for each SLO."""
    browser.get("about:blank")
    block = slo.block([trial])
    scripts = "".join(
        (Path(frame.__file__).parent / "scripts" / name).read_text(encoding="utf-8")
        for name in ("packed.js", "goodput.js")
    )
    counted: list[dict[str, float]] = browser.execute_async_script(
        scripts + "const [about, text, slos, done] = arguments;"
        "const element = Object.assign(document.createElement('script'), {type: 'text/plain', textContent: text});"
        "element.dataset.about = about;"
        "unpack(element).then(withE2e).then(rows => done(slos.map(one => goodputOf(rows, one)[0])))",
        block.about,
        block.text,
        [one.limits for one in slos],
    )
    return counted


def test_more_requests_than_a_page_holds_are_said_to_be_left_out(
    findings: Findings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slo, "MOST_ROWS", 100)
    html = render(replace(findings), store)
    assert "too many for this page" in html
    assert 'id="packed-served"' not in html
    assert 'data-panel="goodput"' not in html


def test_an_open_list_of_filters_covers_nothing_and_no_group_of_sentences_is_left_without_one(
    opened: Any,
) -> None:
    """Wherever the page is scrolled to."""
    covered = (
        "const { bottom } = document.querySelector('#filters details[open] fieldset').getBoundingClientRect();"
        "const bar = document.querySelector('#filters').getBoundingClientRect();"
        "return ['header .of-all', '#answer .of-all'].map(one => document.querySelector(one).getBoundingClientRect())"
        ".filter(({ top, height }) => height && top + height > bar.top && top < bottom).length"
    )
    groups = (
        "return [...document.querySelectorAll('[data-sentences]')].filter(e => !e.hidden).map(e => ["
        "[...e.querySelectorAll('li')].filter(li => li.checkVisibility()).length, Boolean(e.querySelector('details[open]'))])"
    )
    before = opened.execute_script(groups)
    bar = "const e = document.querySelector('#filters').getBoundingClientRect(); return [e.top + scrollY, e.height]"
    top, height = opened.execute_script(bar)
    opened.find_element(By.CSS_SELECTOR, "#filters details[data-filter=backend] summary").click()
    opened.find_element(By.CSS_SELECTOR, "[data-filter=backend] input[value=vllm]").click()
    until(opened, DRAWN, "yes")
    assert opened.execute_script(bar)[1] > height + 50
    for scrolled in (0, top):
        opened.execute_script("scrollTo(0, arguments[0])", scrolled)
        assert opened.execute_script(covered) == 0
    left = opened.execute_script(groups)
    assert left
    assert all(count > 0 for count, _ in left)
    assert text(opened, "[data-sentences] summary").endswith(" of other settings")
    opened.find_element(By.CSS_SELECTOR, "#filters [aria-label='Reset all filters']").click()
    until(opened, DRAWN, "yes")
    assert opened.execute_script(groups) == before
    until(opened, bar, [top, height])
    assert quiet(opened)


def test_printed_as_soon_as_it_is_open_it_has_every_figure_and_all_its_text(browser: Any, page: Path) -> None:
    """By Chromium's own printing; what is folded afterwards is what was folded before."""
    browser.get("about:blank")
    no_time = {"source": "window.requestIdleCallback = () => {};"}  # to draw what is further down
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", no_time)
    try:
        browser.get(page.as_uri())
        until(browser, "return document.documentElement.dataset.prepared", "yes")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    folded = "return [...document.querySelectorAll('main details')].map(e => e.open)"
    undrawn = (
        "[...document.querySelectorAll('[data-chart]')].filter(e => !e.querySelector('.main-svg')).length"
    )
    shut = "[...document.querySelectorAll('#answer details, #curves > details')].filter(e => !e.open).length"
    data = "document.querySelectorAll('details.data[open]').length"
    before = browser.execute_script(folded)
    assert browser.execute_script(f"return {undrawn}") > 5
    browser.execute_script(
        f"addEventListener('beforeprint', () => window.onPaper = [{undrawn}, {shut}, {data}])"
    )
    browser.execute_cdp_cmd("Page.printToPDF", {})
    assert browser.execute_script("return window.onPaper") == [0, 0, 0]
    assert browser.execute_script(folded) == before
