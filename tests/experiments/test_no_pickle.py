"""A results folder comes from anywhere, by mail too: nothing that reads it loads what could run code."""

import ast
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import Result

ROOT = Path(__file__).parents[2]
READERS = ("results", "experiments", "workloads")
MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "jsonpickle"}
CALLS = {
    "torch.load",
    "pd.read_pickle",
    "pandas.read_pickle",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
}
CALLS |= {"eval", "exec", "pa.deserialize", "pyarrow.deserialize"}


def loads(source: str) -> Iterator[str]:
    """What a module imports or calls that loads objects which may run code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            pickled = [one for one in node.keywords if one.arg == "allow_pickle"]
            if name in CALLS or any(
                not isinstance(one.value, ast.Constant) or one.value.value for one in pickled
            ):
                yield name


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, Loader=Loader)",
        "eval(text)",
    ],
)
def test_each_way_is_seen(source: str) -> None:
    assert list(loads(source))


def test_nothing_that_reads_results_can_load_a_pickle() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in READERS
        for path in ROOT.joinpath(folder).rglob("*.py")
        for name in loads(path.read_text())
    }
    assert found == set()


class Trap:
    """Makes a folder where it is loaded."""

    def __init__(self, sprung: Path) -> None:
        self._sprung = sprung

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._sprung),)


def test_a_pickle_in_a_sweeps_folder_is_read_by_no_command(
    batchyard: Callable[..., Result], made_sweep: ModuleType, tmp_path: Path
) -> None:
    sprung, root = tmp_path / "sprung", tmp_path / "results" / "made"
    trap = pickle.dumps(Trap(sprung))
    pickle.loads(trap)
    sprung.rmdir()  # it works
    made_sweep.make_sweep(root, repeats=2, requests=12)
    other = tmp_path / "results" / "other"
    made_sweep.make_sweep(other, repeats=2, requests=12)
    attempt = next(root.glob("cells/*/attempt-2"))
    for folder in (root, root / "cells", attempt.parent, attempt):
        for name in (
            "tuner.pkl",
            "calibration.pkl",
            "requests-00009.pkl",
            "sweep.npy",
            "model.pt",
            "a.joblib",
        ):
            (folder / name).write_bytes(trap)
    for command, code in (
        (("ls", "--results", root.parent), 0),
        (("status", root), 0),
        (("report", root), 0),
        (("report", "--index", root.parent), 0),
        (("compare", root, other), 0),
        (("export", root, "--csv", tmp_path / "rows.csv"), 0),
        (("calibrate", root), 2),  # their config is nothing but a name
        (("resume", root), 2),
    ):
        result = batchyard(*command)
        assert result.exit_code == code, result.output
        assert not sprung.exists(), command
