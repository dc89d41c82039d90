"""`batchyard report`: several sweeps, the list of all, the browser, and a page that is drawn while a sweep runs."""

import json
import os
import queue
import shutil
import signal
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import Result
from typer.testing import CliRunner

from experiments.cli import app
from experiments.sweep_page import watch
from results.lock import SweepLock
from results.report.index import found_on
from tests.experiments.command_process import CommandProcess

DEADLINE_S = 120


def batchyard(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=200)


def refusal(*arguments: object) -> str:
    """The one line with which a command was refused."""
    result = batchyard(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, made_sweep: ModuleType) -> Path:
    """A results folder with the made sweep, small, and its twin under another name."""
    folder = tmp_path_factory.mktemp("results")
    made_sweep.make_sweep(folder / "one", repeats=1, rates=(1.0, 30.0), requests=30)
    shutil.copytree(folder / "one", folder / "two")
    return folder


def test_two_sweeps_are_on_one_page_each_with_its_name_and_the_way_to_compare_them(two: Path) -> None:
    result = batchyard("report", two / "one", two / "two")
    assert result.exit_code == 0, result.output
    page = two / "together.html"
    assert result.stdout.splitlines()[-1] == f"page: {page}"
    text = page.read_text(encoding="utf-8")
    assert "2 sweeps side by side: one, two" in text
    assert "<code>batchyard compare one two</code>" in text
    assert text.count('class="glance"') == 2
    documents = json.loads(batchyard("report", two / "one", two / "two", "--json").stdout)
    assert [one["folder"] for one in documents] == [str(two / "one"), str(two / "two")]
    page.unlink()


def test_the_list_says_what_each_found_and_links_its_page(two: Path, tmp_path: Path) -> None:
    assert batchyard("report", two / "one").exit_code == 0
    (two / "broken").mkdir()
    (two / "broken" / "sweep.json").write_text("{")
    listed = batchyard("report", "--index", two, "-o", tmp_path / "list.html")
    assert listed.exit_code == 0, listed.output
    assert listed.stderr.splitlines() == ["reading two: its page does not say what was found by now"]
    text = (tmp_path / "list.html").read_text(encoding="utf-8")
    known = found_on(two / "one" / "report.html")
    assert known is not None
    assert text.count(known.headline) == 2
    assert f'<a href="{os.path.relpath(two / "one" / "report.html", tmp_path)}">one</a>' in text
    assert "batchyard report two" in text
    assert "It cannot be read" in text
    document = json.loads(batchyard("report", "--index", two, "-o", tmp_path / "list.html", "--json").stdout)
    assert [one["name"] for one in document["sweeps"]] == ["broken", "one", "two"]
    shutil.rmtree(two / "broken")


def test_what_is_asked_wrongly_is_refused_in_one_line(two: Path, tmp_path: Path) -> None:
    assert "give the folder of a sweep" in refusal("report")
    assert "each sweep may be given once, got one twice" in refusal("report", two / "one", two / "one")
    assert "got 2" in refusal("report", "--index", two, tmp_path)
    assert "a folder that exists" in refusal("report", "--index", tmp_path / "none")
    assert "--watch" in refusal("report", two / "one", "--watch", "--json")
    assert "holds no sweep.json" in refusal("report", two / "one", tmp_path, "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    (tmp_path / "mine.html").write_text("mine")
    assert "is no page of batchyard" in refusal("report", "--index", two, "-o", tmp_path / "mine.html")


def test_the_page_is_shown_in_the_browser_and_its_path_is_said_where_there_is_none(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/asked\n')
    browser.chmod(0o755)
    page = tmp_path / "page.html"
    monkeypatch.setattr(webbrowser, "_tryorder", [])  # as on a machine without one
    result = batchyard("report", two / "one", "-o", page, "--open")
    assert result.stderr.splitlines()[-1] == f"no browser was found here: open {page}"
    webbrowser.register("ours", None, webbrowser.GenericBrowser([str(browser), "%s"]), preferred=True)
    assert batchyard("report", two / "one", "-o", page, "--open").exit_code == 0
    assert (tmp_path / "asked").read_text().strip() == page.as_uri()


def test_a_page_that_is_watched_reloads_itself_until_the_sweep_is_over(two: Path, tmp_path: Path) -> None:
    root, page = tmp_path / "sweep", tmp_path / "page.html"
    shutil.copytree(two / "one", root)
    said: queue.Queue[str] = queue.Queue()
    with SweepLock(root):
        thread = threading.Thread(target=watch, args=([root], page, said.put))
        thread.start()
        assert said.get(timeout=DEADLINE_S) == f"{page}: 14 of 14 cells done"
        running = page.read_text(encoding="utf-8")
        page.write_text("drawn by the sweep itself, which does not reload")
        said.get(timeout=DEADLINE_S)  # what another wrote is drawn again
        assert 'http-equiv="refresh"' in page.read_text(encoding="utf-8")
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert 'http-equiv="refresh"' in running
    assert "reloads itself" in running
    over = page.read_text(encoding="utf-8")
    assert 'http-equiv="refresh"' not in over
    assert "reloads itself" not in over


@pytest.mark.fault
def test_ctrl_c_leaves_a_whole_page_that_does_not_reload(
    two: Path, tmp_path: Path, started: Callable[..., CommandProcess]
) -> None:
    root, folder = tmp_path / "sweep", tmp_path / "pages"
    shutil.copytree(two / "one", root)
    shutil.rmtree(next((root / "cells").iterdir()))  # it is still running
    folder.mkdir()
    page = folder / "page.html"
    with SweepLock(root):
        watching = started("report", root, "--watch", "-o", page)
        watching.wait_for(page.is_file)
        assert 'http-equiv="refresh"' in page.read_text(encoding="utf-8")
        watching.process.send_signal(signal.SIGINT)
        code, said, told = watching.end()
    assert code == 130, told
    assert "Traceback" not in told
    assert "no longer watched" in told
    assert said.splitlines()[-1] == f"page: {page}", "and not how to go on with what is running"
    text = page.read_text(encoding="utf-8")
    assert 'http-equiv="refresh"' not in text
    assert text.rstrip().endswith("</html>")
    assert list(folder.iterdir()) == [page], "nothing half written lies beside it"
