"""Fixtures for what reads a store."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from results.store import Store


@pytest.fixture(scope="session")
def made_sweep() -> ModuleType:
    """The module made_sweep.py: `made_sweep.make_sweep(root, repeats=3)`, `request_row`, `make_trial`, …"""
    spec = importlib.util.spec_from_file_location("made_sweep", Path(__file__).with_name("made_sweep.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def made_store(made_sweep: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The made sweep with three repeats, to read only."""
    store: Store = made_sweep.make_sweep(tmp_path_factory.mktemp("made"))
    return store
