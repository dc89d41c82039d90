"""A sweep's documents with a value of another kind in them: the commands that look answer, or refuse in one line."""

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.config import SweepConfig
from experiments.explain.basis import bases
from experiments.simulation.simulation import Simulation
from results.store import Store

Place = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    *(None, True, 0, 5, -1, 2.5, 1e308, 10**400, float("nan"), float("inf")),
    *(
        "",
        "text",
        "[bold]",
        "\ud800",
        [],
        [1],
        ["a"],
        [[]],
        [None],
        {},
        {"a": 1},
        {"rates": ["a"]},
        {"backends": 5},
    ),
)
COMMANDS = (
    ("status", "SWEEP"),
    ("status", "SWEEP", "--json"),
    ("report", "SWEEP", "-o", "PAGE", "--force"),
    ("report", "SWEEP", "-o", "PAGE", "--force", "--json"),
    *(("export", "SWEEP", "--csv", "PAGE", "--force", "--table", table) for table in ("trials", "requests")),
)


class Damaged:
    """A sweep of which one value in one document can be replaced for a while, beside one that is whole."""

    def __init__(self, results: Path, sweep: Path) -> None:
        self.results, self.sweep = results, sweep
        found = [path for path in sorted(sweep.rglob("*.json")) if path.name != "driver.lock"]
        self.documents = {path: json.loads(path.read_text()) for path in found}
        self.places = [(path, place) for path, whole in self.documents.items() for place in places(whole)]

    def put(self, path: Path, place: Place, value: Any) -> None:
        """Replace one value; all others are whole again."""
        self.mend()
        changed = copy.deepcopy(self.documents[path])
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        path.write_text(json.dumps(changed))

    def mend(self) -> None:
        """Make all documents whole again."""
        for path, whole in self.documents.items():
            path.write_text(json.dumps(whole))


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where a value stands, at any depth."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*at, key)
        yield from places(one, (*at, key))


@pytest.fixture(scope="module", params=["measured", "simulated"])
def damaged(
    request: pytest.FixtureRequest,
    made_config: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Damaged:
    results = tmp_path_factory.mktemp("results")
    begun_sweep(made_config(name="whole"), results, done=1)
    one = {"strategy": "naive", "backends": ["huggingface", "vllm"], "max_batch_size": 4}
    config = made_config(name="damaged", strategies=[one], arrival_rate=[1], repeats=1)
    sweep = begun_sweep(config, results, done=1, failed=1)
    if request.param == "simulated":
        info = Simulation.of(config, bases(config), repeats=1).info()
        Store(sweep).write_sweep(info | {"name": "damaged"})
    return Damaged(results, sweep)


def look(
    batchyard: Callable[..., Result], damaged: Damaged, arguments: tuple[str, ...], page: Path
) -> Result:
    """Run a command; what it says is one line, or what it always says."""
    here = {"SWEEP": str(damaged.sweep), "RESULTS": str(damaged.results), "PAGE": str(page)}
    result = batchyard(*(here.get(word, word) for word in arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    result.stdout.encode(), result.stderr.encode()
    if result.exit_code:
        assert (result.exit_code, result.stdout) == (2, ""), arguments
        (line,) = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
        assert line.startswith("error: "), arguments
    elif "--json" in arguments:
        json.loads(result.stdout)
    return result


@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    derandomize="CI" in os.environ,  # what chance finds is found at a desk, not in a change of something else
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_value_of_another_kind_is_answered_or_refused_in_one_line(
    batchyard: Callable[..., Result], damaged: Damaged, tmp_path: Path, data: st.DataObject
):
    path, place = data.draw(st.sampled_from(damaged.places))
    damaged.put(path, place, data.draw(st.sampled_from(VALUES)))
    look(batchyard, damaged, data.draw(st.sampled_from(COMMANDS)), tmp_path / "page")
    result = batchyard("ls", "--results", damaged.results, "--json")
    assert result.exit_code == 0, result.output
    names = [row["name"].rpartition("-")[0] for row in json.loads(result.stdout)]
    assert names == ["damaged", "whole"]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_sweep_that_is_whole_is_shown_by_all_of_them(
    batchyard: Callable[..., Result], damaged: Damaged, tmp_path: Path, arguments: tuple[str, ...]
):
    damaged.mend()
    assert look(batchyard, damaged, arguments, tmp_path / "page").exit_code == 0


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("created_at",), 5, "created_at must be text, got 5"),
        (("planned_cells",), True, "planned_cells must be a whole number from 0, got True"),
        (("resolved",), [1], "resolved must be a JSON object, got [1]"),
        (("resolved",), {"rates": ["a"]}, "resolved.rates must be a list of numbers, got ['a']"),
        (("resolved", "rates"), 5, "resolved.rates must be a list of numbers, got 5"),
        (("resolved", "rates", 0), float("nan"), "resolved.rates must be a list of numbers, got [nan]"),
        (("resolved", "dtype"), float("inf"), "resolved.dtype must be text or null, got inf"),
        (("simulated",), {"backends": 5}, "simulated must be a JSON object with a text for each"),
        (("name",), "\ud800", "must be JSON with a schema_version: 'utf-8' codec can't encode"),
    ],
)
def test_a_damaged_sweep_is_a_row_that_cannot_be_read_and_hides_no_other(
    batchyard: Callable[..., Result], damaged: Damaged, place: Place, value: Any, said: str
):
    damaged.put(damaged.sweep / "sweep.json", place, value)
    result = batchyard("ls", "--results", damaged.results, "--json")
    assert [row["state"] for row in json.loads(result.stdout)] == ["unreadable", "stopped"]
    assert said in result.stderr
    for command in ("status", "report"):
        refused = batchyard(command, damaged.sweep)
        assert (refused.exit_code, refused.stdout) == (2, "")
        (line,) = refused.stderr.splitlines()
        assert line.startswith("error: ")
        assert said in line


def test_a_knob_of_another_kind_is_refused_where_it_has_a_column(
    batchyard: Callable[..., Result], damaged: Damaged, tmp_path: Path
):
    done = next(path for path in damaged.documents if path.name == "done.json")
    damaged.put(done, ("trial", "knobs", "max_batch_size"), True)
    arguments = ("export", "SWEEP", "--csv", "PAGE", "--force", "--table", "trials")
    result = look(batchyard, damaged, arguments, tmp_path / "page")
    assert result.exit_code == 2
    assert (
        "a trial's done.json has a setting that is not of its kind: Expected integer, got bool"
        in result.stderr
    )
