"""`batchyard report`: the page of a sweep, and what it found, from the rows in its folder."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.commands.arguments import AsJson, Folder, Force, command, some_path
from experiments.console import one_line_errors, show, tell
from results.sweep_folder import PAGE

EXAMPLES = (
    "Examples:  batchyard report results/data/local-0123456789ab -o page.html  ·  "
    "batchyard report results/data/local-0123456789ab --json"
)


def report(
    folder: Folder,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help=f"Default: {PAGE} in it.", parser=some_path, metavar="<path>"),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw the page of a sweep again, from the rows in its folder; also while it runs."""
    with one_line_errors():
        from experiments.explain.over_sweep import with_guides
        from experiments.final_findings import emit_findings, show_findings
        from experiments.simulation.occupancy import with_occupancy
        from results.read import open_sweep
        from results.report.page import write_page
        from results.summary import find
        from results.sweep_document import SHOWN, check_sweep

        store = open_sweep(folder)
        check_sweep(store.read_sweep() or {}, folder, SHOWN)
        path = _page(folder, output, force=force)
        findings = find(store)
        write_page(with_occupancy(with_guides(findings, store.root)), store, path)
        for problem in store.problems:
            tell(f"warning: {problem}")
        if as_json:
            emit_findings(findings, str(folder), str(path), store.problems)
            return
        show_findings(findings, str(path))
        if len(findings.trials) < findings.planned_cells:
            done = f"{len(findings.trials)} of {findings.planned_cells} cells are done"
            show(f"{done}; `{command('resume', folder)}` goes on")


def _page(folder: Path, output: Path | None, *, force: bool) -> Path:
    """Where the page goes; its place in the sweep's own folder is always free for it."""
    from results.output_file import check_output
    from results.report.frame import is_page

    path = folder if output is None else output
    if path.is_dir():
        path = path / PAGE
    if path.name != PAGE or path.parent.resolve() != folder.resolve():
        check_output(path, force=force, ours=is_page)
    return path
