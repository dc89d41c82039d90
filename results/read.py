"""A sweep's results as tables, for notebooks: `from results.read import read`.

    rows = read("results/data/local-0123456789ab")   # or a list of folders
    rows.requests.to_pandas()

What each column means, and its unit: docs/SCHEMA.md, or `rows.requests.schema.field("held_s").metadata`.
"""

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from results.cost import with_cost
from results.drift import with_drift
from results.errors import StoreError
from results.goodput import slos_of
from results.price import price_of
from results.records import BATCHES, FAILURES, METRICS, REQUESTS, SAMPLES, SWEEP
from results.store import Store
from results.summary import summarise_all, what_counts, with_metrics_by_cell
from results.sweep_folder import no_sweep
from results.trial_table import TRIALS, trial_table

Folder = str | os.PathLike[str]


def of_sweep(schema: Iterable[pa.Field]) -> pa.Schema:
    """The schema of rows that may come from several sweeps."""
    return pa.schema([SWEEP, *schema])


SCHEMAS: dict[str, pa.Schema] = {
    "requests": of_sweep([*REQUESTS, *METRICS]),
    "batches": of_sweep(BATCHES),
    "samples": of_sweep(SAMPLES),
    "trials": of_sweep(TRIALS),
    "failures": of_sweep(FAILURES),
    "partial": of_sweep(REQUESTS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Tables of the attempts that count, and of those that failed; a sweep that runs is read as far as it is.

    `failures` has the attempts that failed with their causes, `partial` the request rows that they left.
    `problems` names what could not be read and was set aside, one line each (also told as warnings).
    """

    requests: pa.Table
    batches: pa.Table
    samples: pa.Table
    trials: pa.Table
    failures: pa.Table
    partial: pa.Table
    problems: tuple[str, ...]


def read(folders: Folder | Iterable[Folder]) -> Rows:
    """Read one sweep's folder, or several. StoreError if one is no sweep, or is given twice.

    The folders of one config that was measured in several places have one name: there the rows of each name it
    with as many of the folders above it as tell them apart.
    """
    given = [folders] if isinstance(folders, str | os.PathLike) else list(folders)
    stores = [open_sweep(folder) for folder in given]
    read_rows = [_read(store, name) for store, name in zip(stores, folder_names(stores), strict=True)]
    rows = Rows(
        **{name: _together(name, [one[name] for one in read_rows]) for name in SCHEMAS},
        problems=tuple(problem for store in stores for problem in store.problems),
    )
    for problem in rows.problems:
        warnings.warn(problem, stacklevel=2)
    return rows


def open_sweep(folder: Folder) -> Store:
    """The store in a folder. StoreError if it holds no sweep."""
    store = Store(folder)
    if store.read_sweep() is None:
        raise StoreError(no_sweep(folder))
    return store


def sweep_name(store: Store) -> str:
    """How rows name the sweep that they are of, where it is alone: its folder's name."""
    return _place(store)[-1]


def with_sweep(table: pa.Table, name: str) -> pa.Table:
    """Put the sweep's name in front of every row."""
    return table.add_column(0, SWEEP, pa.repeat(name, table.num_rows))


def _place(store: Store) -> tuple[str, ...]:
    """The folder that this is, whatever way it was given, as the names on the way to it."""
    return store.place.resolve().parts


def folder_names(stores: Sequence[Store]) -> list[str]:
    """A name for each, which no other has: its folder's, with what stands above it where two are alike. StoreError if one is given twice."""
    places = [_place(store) for store in stores]
    if twice := [place for place in places if places.count(place) > 1]:
        raise StoreError(f"each sweep may be given once, got {twice[0][-1]} twice")
    names = []
    for place in places:
        alike = [other for other in places if other[-1] == place[-1]]
        depth = 1
        while sum(other[-depth:] == place[-depth:] for other in alike) > 1:
            depth += 1
        names.append("/".join(place[-depth:]))
    return names


def _read(store: Store, sweep: str) -> dict[str, pa.Table]:
    trials, requests, batches = what_counts(store)
    failures = [failure.model_dump(exclude={"schema_version"}) for failure in store.failures()]
    sweep_info = store.read_sweep() or {}
    slos, price = slos_of(sweep_info), price_of(sweep_info)
    summaries = with_drift(summarise_all(trials, requests, batches, slos))
    tables = {
        "requests": with_metrics_by_cell(requests, batches),
        "batches": batches,
        "samples": store.samples(),
        "trials": trial_table([with_cost(one, price) for one in summaries]),
        "failures": pa.Table.from_pylist(failures, schema=FAILURES),
        "partial": store.partial_requests(),
    }
    return {name: with_sweep(table, sweep) for name, table in tables.items()}


def _together(name: str, tables: list[pa.Table]) -> pa.Table:
    """One table, with the schema that is documented whatever the files say."""
    return pa.concat_tables([SCHEMAS[name].empty_table(), *tables]).cast(SCHEMAS[name])
