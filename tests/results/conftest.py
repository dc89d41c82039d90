"""Fixtures for what reads a store."""

from pathlib import Path
from types import ModuleType

import pytest

from results.findings import Findings
from results.report.page import write_page
from results.store import Store
from results.summary import find
from tests.results import made_sweep as made_sweep_module


@pytest.fixture(scope="session")
def made_sweep() -> ModuleType:
    """The module made_sweep.py: `made_sweep.make_sweep(root, repeats=3)`, `request_row`, `make_trial`, …"""
    return made_sweep_module


@pytest.fixture(scope="session")
def made_store(made_sweep: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The made sweep with three repeats, to read only."""
    store: Store = made_sweep.make_sweep(tmp_path_factory.mktemp("made"))
    return store


@pytest.fixture(scope="session")
def findings(made_store: Store) -> Findings:
    """What the made sweep found."""
    return find(made_store)


@pytest.fixture(scope="session")
def page(findings: Findings, made_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the made sweep."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(findings, made_store, path)
    return path
