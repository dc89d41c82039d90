"""`batchyard calibrate`: the step times of a measured sweep, for the simulator."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.arguments import AsJson, Folder, Force, Given, command, some_path
from experiments.console import emit, one_line_errors, show, tell
from results.sweep_folder import CALIBRATION

if TYPE_CHECKING:
    from results.records import Trial

EXAMPLES = (
    "Examples:  batchyard calibrate results/data/local-0123456789ab  ·  "
    "batchyard calibrate local-0123456789ab -o h100.json  ·  then  batchyard simulate my.yaml --calibration h100.json"
)
TELL_EVERY_S = 5.0


def calibrate(
    folder: Folder,
    output: Annotated[
        Given | None,
        typer.Option(
            "-o", "--output", help=f"Default: {CALIBRATION} in it.", parser=some_path, metavar="<path>"
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit the step times of a sweep's engines to its rows, for `simulate` and `explain` to use.

    A cost for each step, for each sequence in it, each token of context and each prompt token, by robust least
    squares; beside the file a page shows what was predicted against what was measured.
    """
    with one_line_errors():
        from experiments.calibration.calibrate import calibrate as fitted
        from experiments.calibration.calibration import calibrated_sweep
        from experiments.calibration.page import write
        from experiments.calibration.text import text, warnings
        from results.output_file import check_output
        from results.report.frame import is_page

        path = folder / CALIBRATION if output is None else output
        page = path.with_suffix(".html")
        name = folder.resolve().name
        if path.name != CALIBRATION or path.parent.resolve() != folder.resolve():
            of_it = f"calibration of {name}"
            check_output(path, force=force, ours=lambda at: calibrated_sweep(at) == name, kind=of_it)
            check_output(page, force=force, ours=is_page)
        earlier = calibrated_sweep(path)
        found = fitted(folder, _watched)
        found.calibration.write(path)
        write(found, page)
        if earlier is not None:
            tell(f"replaced: {path} held a calibration of {earlier}")
        for problem in (*found.problems, *warnings(found.calibration)):
            tell(f"warning: {problem}")
        if as_json:
            emit({**found.calibration.to_dict(), "path": str(path), "page": str(page)})
            return
        if found.calibration.simulated:
            show(f"{found.calibration.sweep} is simulated: nothing of this was measured")
        for line in text(found.calibration):
            show(line)
        show(f"page: {page}")
        show(f"calibration: {path}; `{command('simulate', 'CONFIG', '--calibration', path)}` uses it")


def _watched(trials: "Sequence[Trial]") -> "Iterator[Trial]":
    """Tell how far it is, every few seconds."""
    next_s = time.monotonic() + TELL_EVERY_S
    for number, trial in enumerate(trials):
        if time.monotonic() >= next_s:
            tell(f"[{number}/{len(trials)}] trials are read")
            next_s = time.monotonic() + TELL_EVERY_S
        yield trial
