"""Fixtures for what reads a store."""

from types import ModuleType

import pytest

from results.store import Store
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
