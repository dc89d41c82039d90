"""The sweeps of a results folder with their answers: as their pages keep them, else from their rows."""

from experiments.commands.shown_standing import in_words, when
from experiments.console import Say
from results.address import Place
from results.errors import StoreError, one_line
from results.report.index import Entry, Found, found_in, found_on
from results.standing import Standing, standings
from results.store import Store
from results.summary import find


def entries(folder: Place, say: Say) -> list[Entry]:
    """Give every sweep; one that cannot be read is there, and says why. What takes long is said before it is done."""
    return [_entry(one, _found(one, say)) for one in standings(folder)]


def _found(one: Standing, say: Say) -> Found:
    """What it found, from its page if that counts the cells that are done by now."""
    if one.problems and not one.info:
        return Found(headline=f"It cannot be read: {one.problems[0]}", models="", devices="", done=0)
    if not one.info:
        return Found(headline="Its engines are timed first", models="", devices="", done=0)
    known = None if one.page is None else found_on(one.page)
    if known is not None and known.done == len(one.done):
        return known
    say(f"reading {one.name}: its page does not say what was found by now")
    try:
        return found_in(find(Store(one.folder)))
    except StoreError as error:
        return Found(headline=f"It cannot be read: {one_line(error)}", models="", devices="", done=0)


def _entry(one: Standing, found: Found) -> Entry:
    planned = "?" if one.planned is None else f"{one.planned:,}"
    failed = f", {len(one.failed)} failed" if one.failed else ""
    return Entry(
        name=one.name,
        folder=one.folder,
        headline=found.headline,
        progress=f"{len(one.done):,} of {planned} done{failed}; {in_words(one)}",
        begun=when(one.begun_at),
        models=found.models,
        devices=found.devices,
        simulated="simulated" in one.info,
        page=one.page,
    )
