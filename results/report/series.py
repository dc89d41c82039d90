"""Series: the cells of one strategy setting on one backend of one sweep, by arrival rate, with name and style."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from results.findings import CellSummary, Findings
from results.records import SIMULATED
from results.report import series_style


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a figure."""

    strategy: str
    setting: str
    backend: str
    place: str  # the backend as shown, with model, device and sweep where there are several
    key: (
        str  # the name that changes and knees use: "backend / setting", then model, device and sweep likewise
    )
    cells: tuple[CellSummary, ...]  # by rate
    style: series_style.Style
    sweep: str = ""  # its name where the page has several
    invalid: tuple[CellSummary, ...] = ()  # its trials that do not count, by rate

    @property
    def name(self) -> str:
        """The full name as shown."""
        return f"{self.setting} on {self.place}"

    def filters(self) -> dict[str, object]:
        """Give what the page can be filtered by (scripts/shown.js)."""
        first = self.cells[0] if self.cells else None
        return {
            "key": self.key,
            "name": self.name,
            "setting": self.setting,
            "backend": backend_name(self.backend),
            "model": first.model if first else "",
            "device": first.device if first else "",
            "sweep": self.sweep,
            "rates": [cell.rate for cell in self.cells],
        }

    def at(self, rate: float) -> CellSummary | None:
        """Give the cell of one rate."""
        return next((cell for cell in self.cells if cell.rate == rate), None)


def series_of(findings: Findings) -> tuple[Series, ...]:
    """Give the series in the order of the cells; cells without any trial are left out.

    The dash says the backend. Of several sweeps the first has the dashes that it would have alone, and each place of
    the others one that is not taken yet.
    """
    places = series_style.places(
        (cell.strategy, cell.setting, cell.trials[0].trial.knobs) for cell in findings.cells if cell.trials
    )
    dashes: dict[tuple[str, str], str] = {}
    found = []
    for extra, cells in _groups(findings.cells):
        first = cells[0]
        own = series_style.dash_of(first.backend)
        if first.sweep != findings.cells[0].sweep and (first.sweep, first.backend) not in dashes:
            own = series_style.another_dash(dashes.values())
        dash = dashes.setdefault((first.sweep, first.backend), own)
        found.append(
            Series(
                strategy=first.strategy,
                setting=first.setting,
                backend=first.backend,
                place=" · ".join([backend_name(first.backend), *_told(first, extra)]),
                key=" / ".join([first.backend, first.setting, *extra]),
                cells=tuple(sorted(cells, key=lambda cell: cell.rate)),
                style=series_style.style(
                    first.strategy, first.backend, places[first.strategy, first.setting], dash
                ),
                sweep=first.sweep,
                invalid=tuple(one for one in findings.invalid if _identity(one) == _identity(first)),
            )
        )
    return tuple(found)


def _groups(cells: Sequence[CellSummary]) -> Iterator[tuple[list[str], list[CellSummary]]]:
    """Give the cells of each series, and before them what its name says beside backend and setting."""
    groups: dict[tuple[str, ...], list[CellSummary]] = {}
    for cell in cells:
        if cell.trials:
            groups.setdefault(_identity(cell), []).append(cell)
    for (sweep, _, _, model, device), members in groups.items():
        of_sweep = [key for key in groups if key[0] == sweep]
        several = [len({key[place] for key in of_sweep}) > 1 for place in (3, 4)]
        extra = [name for name, is_told in zip((model, device), several, strict=True) if is_told]
        yield [*extra, *([sweep] if sweep else [])], members


def _identity(cell: CellSummary) -> tuple[str, ...]:
    return cell.sweep, cell.setting, cell.backend, cell.model, cell.device


def main_place(series: Sequence[Series]) -> str:
    """Give the place of which a heading speaks: with most strategies, then with most settings; "" without series."""
    strategies: dict[str, list[str]] = {}
    for one in series:
        strategies.setdefault(one.place, []).append(one.strategy)
    return max(
        strategies, key=lambda place: (len(set(strategies[place])), len(strategies[place])), default=""
    )


def _told(first: CellSummary, extra: Sequence[str]) -> list[str]:
    """Leave out what the backend's name says already."""
    return [name for name in extra if not (name == SIMULATED and first.backend.startswith(SIMULATED))]


def backend_name(backend: str) -> str:
    """Give a backend's name as shown: what is simulated says so wherever it appears."""
    return f"{backend} (no measurement)" if backend.startswith("simulated") else backend


def side_name(side: str) -> str:
    """Give the name of one side of a change, "backend / setting / …", as shown."""
    backend, *rest = side.split(" / ")
    return " · ".join([f"{rest[0]} on {backend_name(backend)}", *rest[1:]]) if rest else side


def sides(side: str) -> tuple[str, str]:
    """Split one side of a change into backend and setting."""
    backend, _, setting = side.partition(" / ")
    return backend, setting


def rates_of(series: Sequence[Series]) -> list[float]:
    """Give every arrival rate, lowest first."""
    return sorted({cell.rate for one in series for cell in one.cells})


def drawn_rates(series: Sequence[Series]) -> list[float]:
    """Give those, and the rates of the trials that do not count: what an axis has to reach."""
    return sorted({*rates_of(series), *(cell.rate for one in series for cell in one.invalid)})
