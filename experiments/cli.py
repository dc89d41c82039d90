"""The command line: sweep, resume, report (exit codes: see experiments/console.py)."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from deployments.local_ray import prepare
from experiments.config import SweepConfig, load, parse
from experiments.console import one_line_errors, out, show, tell
from results.errors import StoreError
from results.findings import Findings
from results.lock import SweepLock

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)

RESULTS = Path("results/data")

Results = Annotated[Path, typer.Option(help="Folder that holds the sweeps' results.")]


@app.callback()
def batchyard() -> None:
    """Measure what the batching strategy of an LLM server does to throughput, latency and memory."""


@app.command(
    epilog="Examples:  batchyard sweep experiments/configs/local.yaml  ·  "
    "batchyard sweep my.yaml --results /data/sweeps  ·  batchyard sweep my.yaml --fresh"
)
def sweep(
    config: Annotated[Path, typer.Argument(help="The sweep's YAML config.")],
    fresh: Annotated[bool, typer.Option(help="Start anew; an earlier run is kept beside it.")] = False,
    results: Results = RESULTS,
) -> None:
    """Run a sweep, or what is missing of it, and draw its page.

    Ctrl-C, a crash or a lost machine: the same command goes on where it stopped.
    """
    with one_line_errors():
        if ":/" in str(results):  # a path would take it for a local folder of that name, and fill it
            raise StoreError(f"--results must be a folder of this machine, got {results}")
        loaded = load(config)
        for warning in loaded.warnings:
            tell(f"warning: {config}: {warning}")
        elsewhere = "" if results == RESULTS else f" --results {results}"
        _run(loaded, results, fresh=fresh, again=f"{_command()} sweep {config}{elsewhere}")


@app.command(epilog="Example:  batchyard resume results/data/local-0123456789ab")
def resume(
    folder: Annotated[Path, typer.Argument(help="A sweep's results folder.")],
) -> None:
    """Go on with a sweep from its results folder, without its config file."""
    with one_line_errors():
        info = _sweep(folder)
        loaded = parse(info["config"], source=f"{folder}/sweep.json")
        if folder.resolve().name != f"{loaded.name}-{loaded.config_hash}":
            raise StoreError(
                f"{folder}: must be named {loaded.name}-{loaded.config_hash} as its config says; rename it back"
            )
        _run(loaded, folder.resolve().parent, fresh=False, again=f"{_command()} resume {folder}")


@app.command(epilog="Example:  batchyard report results/data/local-0123456789ab -o page.html")
def report(
    folder: Annotated[Path, typer.Argument(help="A sweep's results folder.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Default: report.html in it.")] = None,
) -> None:
    """Draw the page of a sweep again, from the rows in its folder."""
    from results.report.page import write_page
    from results.store import Store
    from results.summary import find

    with one_line_errors():
        _sweep(folder)
        store = Store(folder)
        findings = find(store)
        path = output or folder / "report.html"
        if path.is_dir():
            path = path / "report.html"
        write_page(findings, store, path)
        for problem in store.problems:
            tell(f"warning: {problem}")
        _show(findings, str(path))
        if len(findings.trials) < findings.planned_cells:
            done = f"{len(findings.trials)} of {findings.planned_cells} cells are done"
            show(f"{done}; `{_command()} resume {folder}` goes on")


def _command() -> str:
    """The command as it was typed, so that what is shown can be typed again."""
    typed = Path(sys.argv[0])
    return str(typed) if typed.name == "batchyard" else "batchyard"


def main() -> None:
    """Entry point."""
    prepare()  # before anything imports ray
    app()


def _run(config: SweepConfig, results: Path, *, fresh: bool, again: str) -> None:
    from experiments.sweep import run_sweep, sweep_root
    from results.store import Store
    from results.summary import find

    root = sweep_root(config, results)
    if fresh:
        _move_aside(Path(root))
    try:
        outcome = run_sweep(config, root, tell)
    except KeyboardInterrupt:
        tell(f"interrupted; nothing that was done is lost: `{again}` goes on")
        raise typer.Exit(130) from None
    _show(find(Store(root)), outcome.page)
    if outcome.ran == 0 and outcome.complete:
        show(f"This sweep is complete ({outcome.done} cells); --fresh starts anew.")
    if not outcome.complete:
        show(
            f"{outcome.planned - outcome.done} of {outcome.planned} cells failed; `{again}` tries them again."
        )
        raise typer.Exit(1)


def _show(findings: Findings, page: str) -> None:
    """The table at the end, what one strategy changes over another, what failed, and the path of the page."""
    table = Table(
        title=f"{findings.sweep['name']}: means over repeats",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for name in ("backend", "strategy", "req/s", "tok/s", "TTFT\np50 s", "E2E\np50 s", "E2E\np99 s"):
        text = name in ("backend", "strategy")
        table.add_column(name, justify="left" if text else "right", no_wrap=text, min_width=5)
    table.add_column("reservations", overflow="fold")
    for cell in findings.cells:
        metrics = ("throughput_tokens_per_s", "ttft_s_p50", "e2e_s_p50", "e2e_s_p99")
        verdicts = sorted({verdict.name for trial in cell.trials for verdict in trial.verdicts})
        numbers = [_number(cell.mean(name)) for name in metrics]
        table.add_row(cell.backend, cell.setting, f"{cell.rate:g}", *numbers, "\n".join(verdicts))
    out.print(table)
    for sentence in findings.sentences:
        if sentence.kind == "policy":
            show(f"- {sentence.text}")
    for cause in sorted({f"{failure.cause}: {failure.error}" for failure in findings.failures}):
        tell(f"failed attempt: {cause}")
    show(f"page: {page}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _sweep(folder: Path) -> dict[str, Any]:
    from results.store import Store

    info = Store(folder).read_sweep()
    if info is None:
        raise StoreError(f"{folder}: holds no sweep.json; give a sweep's folder, such as one in {RESULTS}")
    return info


def _move_aside(root: Path) -> None:
    if root.exists():
        with SweepLock(root):
            pass  # a living driver is not moved from under
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        os.rename(root, root.with_name(f"{root.name}-until-{stamp}"))
