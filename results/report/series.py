"""Series: the cells of one strategy setting on one backend, by arrival rate, with name and style."""

from collections.abc import Sequence
from dataclasses import dataclass

from results.findings import CellSummary, Findings
from results.report import theme


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a figure."""

    strategy: str
    setting: str
    backend: str
    place: str  # the backend as shown, with model and device where the sweep has several
    key: str  # the name that changes and knees use: "backend / setting", then model and device likewise
    cells: tuple[CellSummary, ...]  # by rate
    style: theme.Style

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
            "rates": [cell.rate for cell in self.cells],
        }

    def at(self, rate: float) -> CellSummary | None:
        """Give the cell of one rate."""
        return next((cell for cell in self.cells if cell.rate == rate), None)


def series_of(findings: Findings) -> tuple[Series, ...]:
    """Give the sweep's series in the order of its cells; cells without any trial are left out."""
    groups: dict[tuple[str, str, str, str, str], list[CellSummary]] = {}
    for cell in findings.cells:
        if cell.trials:
            key = (cell.strategy, cell.setting, cell.backend, cell.model, cell.device)
            groups.setdefault(key, []).append(cell)
    models = len({model for *_, model, _ in groups}) > 1
    devices = len({device for *_, device in groups}) > 1
    settings: dict[str, list[str]] = {}
    found = []
    for (strategy, setting, backend, model, device), cells in groups.items():
        known = settings.setdefault(strategy, [])
        if setting not in known:
            known.append(setting)
        extra = ([model] if models else []) + ([device] if devices else [])
        found.append(
            Series(
                strategy=strategy,
                setting=setting,
                backend=backend,
                place=" · ".join([backend_name(backend), *extra]),
                key=" / ".join([backend, setting, *extra]),
                cells=tuple(sorted(cells, key=lambda cell: cell.rate)),
                style=theme.style(strategy, backend, known.index(setting)),
            )
        )
    return tuple(found)


def backend_name(backend: str) -> str:
    """Give a backend's name as shown: what is simulated says so wherever it appears."""
    return f"{backend} (no measurement)" if backend.startswith("simulated") else backend


def side_name(side: str) -> str:
    """Give the name of one side of a change, "backend / setting", as shown."""
    backend, _, setting = side.partition(" / ")
    return f"{setting} on {backend_name(backend)}" if setting else side


def sides(side: str) -> tuple[str, str]:
    """Split one side of a change into backend and setting."""
    backend, _, setting = side.partition(" / ")
    return backend, setting


def rates_of(series: Sequence[Series]) -> list[float]:
    """Give every arrival rate, lowest first."""
    return sorted({cell.rate for one in series for cell in one.cells})
