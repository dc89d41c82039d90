"""What is only looked at comes at once: help and listings import no engine; and help has examples everywhere."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from experiments.cli import app

ROOT = Path(__file__).parents[2]
HEAVY = {"ray", "torch", "transformers", "vllm"}
COMMANDS = [command.callback.__name__ for command in app.registered_commands]


def imported(*arguments: str) -> set[str]:
    """The heavy modules that are loaded when the command has run."""
    return imported_by(
        "import contextlib, io\nfrom experiments.cli import app\n"
        f"with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    app({list(arguments)!r})\n"
    )


def imported_by(code: str) -> set[str]:
    """The heavy modules that are loaded when this has run in a process of its own."""
    code += f"\nimport sys\nprint(*({HEAVY | {'numpy', 'pyarrow', 'scipy', 'plotly'}!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_help_imports_nothing_that_it_does_not_need():
    assert imported("--help") == set()
    assert imported("sweep", "--help") == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "--results", "results"),
        ("schema",),
        ("schema", "--rows"),
        ("explain", "experiments/configs/local.yaml", "--hardware", "h200"),
    ],
)
def test_looking_imports_no_engine(arguments: tuple[str, ...]):
    assert not imported(*arguments) & HEAVY


def test_processes_that_start_often_import_only_what_each_needs():
    assert imported_by("import experiments.runner") == {"ray", "numpy", "pyarrow"}, "one for each lane"
    assert imported_by("import deployments.replica") == {"numpy"}, "one for each load; Serve adds Ray"


def test_ctrl_c_while_it_starts_is_no_traceback():
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from experiments.__main__ import main; main()"
    )
    starting = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-c", code], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert starting.stderr is not None
    with starting.stderr as told:
        assert any("typer" in line for line in told), "the first of what the command imports"
        starting.send_signal(signal.SIGINT)
        assert "Traceback" not in told.read()
    assert starting.wait() == 130


def test_all_commands_are_there():
    measuring, asking = {"sweep", "resume", "capacity"}, {"explain", "simulate", "calibrate", "compare"}
    jobs = {"submit", "logs", "fetch"}
    assert set(COMMANDS) == measuring | asking | jobs | {"ls", "status", "report", "export", "schema"}


def test_the_version_is_told_with_the_commit_of_a_checkout(batchyard: Callable[..., Result]):
    assert imported("--version") == set()
    result = batchyard("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"batchyard \d+\.\d+\.\d+( \(commit [0-9a-f]{12}(, changed)?\))?\n", result.stdout)
    assert ("commit" in result.stdout) == (ROOT / ".git").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example_of_it(batchyard: Callable[..., Result], command: str):
    result = batchyard(command, "--help")
    assert result.exit_code == 0
    _, _, epilog = result.stdout.partition("Example")
    assert f"batchyard {command}" in epilog


def test_the_help_says_what_the_exit_codes_mean(batchyard: Callable[..., Result]):
    text = " ".join(batchyard("--help").stdout.split())
    assert (
        "Exit codes: 0 done, 1 some cells failed or a budget was reached, an engine could not be timed"
        in text
    )
    assert "2 bad input (nothing was started), 130 interrupted" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("swep",), "error: No such command 'swep'. Did you mean 'sweep'?; see `batchyard --help`"),
        (("sweep",), "error: Missing argument 'config'; see `batchyard sweep --help`"),
        (("ls", "--jsn"), "error: No such option: --jsn"),
        (("--verbose",), "error: No such option: --verbose"),
        (("status", "a", "b"), "error: Got unexpected extra argument"),
    ],
)
def test_a_command_that_is_typed_wrongly_is_one_line(
    batchyard: Callable[..., Result], arguments: tuple[str, ...], told: str
):
    result = batchyard(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(told.replace("batchyard", line.split("`")[1].split()[0]) if "`" in told else told)


def test_without_a_command_the_help_is_shown(batchyard: Callable[..., Result]):
    result = batchyard()
    assert "Commands" in result.output
    assert "error:" not in result.output
