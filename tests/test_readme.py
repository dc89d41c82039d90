"""What the README says can be done is done: its strategy is added as it says, and runs."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.dispatcher import Dispatcher
from experiments.config import parse
from experiments.config_schema import config_schema
from strategies.registry import STRATEGIES
from tests.experiments import test_config_schema as schema_tests
from tests.results.made_sweep import make_sweep
from tests.strategies.replay import Job, drive

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def code(heading: str, language: str) -> list[str]:
    """The blocks of code of one language below a heading."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


@pytest.fixture(scope="module")
def added() -> ModuleType:
    """The README's strategy, as the file that it says to write."""
    module = ModuleType("strategies.at_least")
    exec(code("Add a strategy", "python")[0], module.__dict__)  # noqa: S102 - our own README
    return module


@pytest.fixture
def registered(added: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the one line in the registry."""
    line = code("Add a strategy", "python")[2]
    name, entry = re.fullmatch(r'"(\w+)": (Entry\(.*\)),\n', line).groups()
    scope = vars(__import__("strategies.registry", fromlist=["Entry"])) | vars(added)
    monkeypatch.setitem(STRATEGIES, name, eval(entry, scope))


@given(gaps=st.lists(st.integers(0, 9).map(lambda k: k / 10), min_size=1, max_size=20))
def test_the_strategy_of_the_readme_loses_nothing(added: ModuleType, gaps: list[float]) -> None:
    now_s, trace = 0.0, []
    for gap_s in gaps:
        now_s += gap_s
        trace.append(Job(now_s, 0.5))
    dispatcher = Dispatcher(added.AtLeast(max_batch_size=4, least=2), max_batch_size=4, joinable=False)
    starts = drive(dispatcher, trace, joinable=False)
    assert [index for start in starts for index in start.members] == list(range(len(trace)))
    assert all(len(start.members) >= 2 or start.trigger == "flush" for start in starts)


@pytest.mark.usefixtures("registered")
def test_a_config_can_name_the_strategy_of_the_readme() -> None:
    config = parse(
        {
            "name": "readme",
            "workload": {
                "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 4}},
                "output_tokens": {"distribution": "fixed", "tokens": 4},
            },
            "arrival_rate": [1],
            "duration_s": 5,
            "strategies": [
                {"strategy": "at_least", "backends": "simulated", "max_batch_size": 4, "least": [1, 2]}
            ],
        }
    )
    assert [setting.label for setting in config.settings] == ["at_least · 4 · 1+", "at_least · 4 · 2+"]


@pytest.mark.usefixtures("registered")
def test_the_schema_for_editors_holds_with_the_strategy_of_the_readme() -> None:
    schema_tests.test_it_is_a_schema()
    schema_tests.test_every_key_says_what_it_means_and_its_unit()
    schema_tests.test_every_strategy_knob_and_engine_argument_is_in_it()
    said = {path: member.get("description") for path, member in schema_tests.members(config_schema())}
    assert said[".strategies.least"] == "How many must wait before a batch is launched."


def test_the_rows_are_read_as_the_readme_says(tmp_path: Path) -> None:
    reading, querying = code("Read the rows", "python")
    scope: dict = {"folder": make_sweep(tmp_path / "one", repeats=1, requests=40).root}
    exec(reading, scope)  # noqa: S102 - our own README
    assert len(scope["frame"]) == scope["rows"].requests.num_rows > 0
    exec(querying, scope)  # noqa: S102
    rates = scope["rows"].trials.group_by(["backend", "setting", "rate"]).aggregate([])
    assert len(scope["p99"].fetchall()) == rates.num_rows > 0

    several = [scope["folder"], make_sweep(tmp_path / "two", repeats=1, requests=40).root]
    exec(reading, both := {"folder": several})  # noqa: S102
    assert len(both["frame"]) == 2 * len(scope["frame"])


def test_every_command_that_the_readme_names_exists() -> None:
    from experiments.cli import app

    commands = {command.callback.__name__ for command in app.registered_commands}
    shown = "\n".join(re.findall(r"```\n(.*?)```", README, flags=re.DOTALL))
    named = set(re.findall(r"batchyard ([a-z]+) ", shown)) | set(re.findall(r"`batchyard ([a-z]+)", README))
    assert named
    assert named <= commands


def test_the_readme_has_no_gap_left_to_fill() -> None:
    assert not re.findall(r"^[A-Z]{4,}$", README, flags=re.MULTILINE)


def test_every_file_and_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for path in set(re.findall(r"\]\(([^)#:]+)\)", README)):
        assert (ROOT / path).exists(), path
