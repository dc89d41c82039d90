"""`batchyard report`: the page of one sweep or several, or a list of all of them, from the rows in their folders."""

import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.arguments import RESULTS, AsJson, Force, Given, by_name, some_path
from experiments.commands.completion import sweeps
from experiments.commands.shown_standing import go_on
from experiments.console import emit, one_line_errors, show, tell
from results.address import Address, Place
from results.sweep_folder import PAGE

if TYPE_CHECKING:
    from experiments.sweep_page import Drawn

TOGETHER = "together.html"  # of several sweeps, beside the folder of the first
INDEX = "index.html"
EXAMPLES = (
    "Examples:  batchyard report results/data/local-0123456789ab -o page.html --open  ·  "
    "batchyard report h200-0123456789ab l4-0123456789ab  ·  batchyard report local-0123456789ab --watch  ·  "
    "batchyard report --index results/data"
)


def named(folders: list[Place] | None) -> list[Place]:
    """Sweeps that are named as `ls` prints them are looked for in the default results folder."""
    return [by_name(folder) or folder for folder in folders or ()]


def report(
    folders: Annotated[
        list[Given] | None,
        typer.Argument(
            metavar="SWEEP...",
            help="Results folders or s3:// addresses of sweeps, or their names as `ls` prints them; with --index what holds them.",
            parser=some_path,
            autocompletion=sweeps,
            callback=named,
        ),
    ] = None,
    output: Annotated[
        Given | None,
        typer.Option(
            "-o",
            "--output",
            help=f"Default: {PAGE} in the sweep's folder; {TOGETHER} beside it for several; {INDEX} in that of --index.",
            parser=some_path,
            metavar="<path>",
        ),
    ] = None,
    index: Annotated[
        bool, typer.Option("--index", help="List all sweeps of a results folder with their answers.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Draw the page again as trials end, until the sweep is over.")
    ] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw the page of a sweep again, from the rows in its folder, also while it runs; or one page of several."""
    given = folders or []
    with one_line_errors():
        from experiments.errors import ConfigError

        if watch and (index or as_json):
            raise ConfigError(
                f"--watch draws the page of sweeps, and goes without {'--index' if index else '--json'}"
            )
        if index:
            path = _index(given, output, force=force, as_json=as_json)
        elif not given:
            raise ConfigError(
                "give the folder of a sweep, or several (`batchyard ls` lists them), or --index"
            )
        else:
            path = _page(given, output, force=force)
            if isinstance(path, Address) and (watch or open_it):
                raise ConfigError(
                    f"--{'watch' if watch else 'open'} shows a page of this machine: give it with -o FILE, as nothing "
                    f"opens {path}"
                )
            _draw(given, path, watched=watch, opened=open_it, as_json=as_json)
        if open_it and not watch:
            _open(path)


def _draw(folders: list[Place], path: Place, *, watched: bool, opened: bool, as_json: bool) -> None:
    from experiments import sweep_page

    if not watched:
        _tell_of(sweep_page.draw(folders, path), folders, as_json=as_json)
        return
    try:
        if opened:
            sweep_page.draw(folders, path, refresh_s=sweep_page.FEWEST_REFRESH_S)
            _open(path)
        drawn = sweep_page.watch(folders, path, tell)
    except KeyboardInterrupt:
        tell("no longer watched")
        raise typer.Exit(130) from None
    _tell_of(drawn, folders, as_json=False)
    if drawn.interrupted:
        raise typer.Exit(130)


def _tell_of(drawn: "Drawn", folders: list[Place], *, as_json: bool) -> None:
    """What was found of each sweep, or one document of it, a list where there are several."""
    from experiments.final_findings import findings_document, show_findings

    for problem in drawn.problems:
        tell(f"warning: {problem}")
    told = list(zip(drawn.sweeps, folders, strict=True))
    if as_json:
        documents = [
            findings_document(one.findings, str(folder), str(drawn.path), one.store.problems)
            for one, folder in told
        ]
        emit(documents if len(documents) > 1 else documents[0])
        return
    for one, folder in told:
        found = one.findings
        if one.name:
            show(f"— {one.name}: {folder}")
        show_findings(found, None if one.name else str(drawn.path))
        if len(found.trials) < found.planned_cells and not drawn.interrupted:
            done = f"{len(found.trials)} of {found.planned_cells} cells are done"
            show(f"{done}; `{go_on(folder)}` goes on")
    if len(told) > 1:
        show(f"page: {drawn.path}")


def _index(folders: list[Place], output: Place | None, *, force: bool, as_json: bool) -> Place:
    from experiments.errors import ConfigError
    from experiments.sweep_index import entries
    from results.output_file import check_output
    from results.report import index
    from results.report.frame import is_page

    if len(folders) > 1:
        raise ConfigError(f"--index lists the sweeps of one folder, got {len(folders)}")
    folder = folders[0] if folders else RESULTS
    if not folder.is_dir():
        raise ConfigError(f"--index lists the sweeps of a folder that exists, got {folder}")
    path = folder / INDEX if output is None else output / INDEX if output.is_dir() else output
    check_output(path, force=force, ours=is_page)
    found = entries(folder, tell)
    index.write(found, folder, path)
    if as_json:
        emit({"page": str(path), "sweeps": [one.document() for one in found]})
    else:
        show(f"page: {path} ({len(found)} sweep{'' if len(found) == 1 else 's'})")
    return path


def _page(folders: list[Place], output: Place | None, *, force: bool) -> Place:
    """Where the page goes; its place in the sweep's own folder is always free for it."""
    from results.output_file import check_output
    from results.place import check_writable
    from results.report.frame import is_page

    first, alone = folders[0], len(folders) == 1
    if output is None:
        path = first / PAGE if alone else first.resolve().parent / TOGETHER
    else:
        path = output / (PAGE if alone else TOGETHER) if output.is_dir() else output
    if not (alone and path.name == PAGE and path.parent.resolve() == first.resolve()):
        check_output(path, force=force, ours=is_page)
    elif first.is_dir():  # what is no sweep is told apart later
        check_writable(path)
    return path


def _open(path: Place) -> None:
    """Show a page in the reader's browser; without one its path is said and nothing is lost."""
    if isinstance(path, Address):
        tell(f"nothing opens {path}: give a file of this machine with -o")
    elif not webbrowser.open(path.resolve().as_uri()):
        tell(f"no browser was found here: open {path.resolve()}")
