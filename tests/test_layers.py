"""Imports point one way: workloads, results ← strategies ← deployments ← experiments."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "workloads": set(),
    "results": set(),
    "strategies": {"workloads", "results"},
    "deployments": {"workloads", "results", "strategies"},
    "experiments": {"workloads", "results", "strategies", "deployments"},
}
FORBIDDEN_TO_STRATEGIES = {"ray", "torch", "asyncio"}
MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def imported_packages(source: str, package: str) -> set[str]:
    """The top-level names that a module imports anywhere, inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(package if node.level or not node.module else node.module.split(".")[0])
    return names


def test_the_walk_sees_every_form_of_import():
    source = (
        "import ray.serve as s, json\ndef f():\n    from torch.nn import Module\n    from . import x\ntry:\n"
        "    import asyncio\nexcept ImportError:\n    pass\n"
    )
    assert imported_packages(source, "here") == {"ray", "json", "torch", "here", "asyncio"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    package = path.relative_to(ROOT).parts[0]
    imported = imported_packages(path.read_text(encoding="utf-8"), package)
    assert (imported & set(MAY_IMPORT)) - {package} <= MAY_IMPORT[package]
    if package == "strategies":
        assert not imported & FORBIDDEN_TO_STRATEGIES


def test_every_package_is_walked():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(MAY_IMPORT)
