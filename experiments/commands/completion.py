"""What a shell is offered when Tab is pressed: configs, and the folders of sweeps.

Only names are read. Where nothing is offered, bash completes file names as ever.
"""

from collections.abc import Iterable
from pathlib import Path

from results.sweep_folder import CALIBRATION, is_sweep

DEFAULT_RESULTS = "results/data"
CONFIGS = ("experiments/configs",)


def configs(incomplete: str) -> list[str]:
    """YAML files here, in the folder that is being typed, and the configs that come with batchyard."""
    folders = [_typed(incomplete)] if "/" in incomplete else [".", *CONFIGS]
    found = [
        _join(folder, path.name)
        for folder in folders
        for path in _entries(folder)
        if path.suffix in (".yaml", ".yml") and path.is_file()
    ]
    return _matching([*found, *(_below(CONFIGS, incomplete))], incomplete)


def sweeps(incomplete: str) -> list[str]:
    """Folders of sweeps in the folder that is being typed, or in the default results folder."""
    typed = [_typed(incomplete)] if "/" in incomplete else []
    folders = dict.fromkeys([*typed, DEFAULT_RESULTS])
    found = [_join(folder, path.name) for folder in folders for path in _entries(folder) if is_sweep(path)]
    by_name = [path for path in found if "/" not in incomplete and Path(path).name.startswith(incomplete)]
    return sorted({*_matching(found, incomplete), *by_name})


def calibrations(incomplete: str) -> list[str]:
    """JSON files in the folder that is being typed, and the calibrations that lie with the sweeps."""
    typed = (
        [_join(_typed(incomplete), path.name) for path in _entries(_typed(incomplete))]
        if "/" in incomplete
        else []
    )
    of_sweeps = [f"{_join(DEFAULT_RESULTS, path.name)}/{CALIBRATION}" for path in _entries(DEFAULT_RESULTS)]
    found = [path for path in typed if path.endswith(".json")]
    return _matching([*found, *(path for path in of_sweeps if Path(path).is_file())], incomplete)


def gpus(incomplete: str) -> list[str]:
    """The GPUs that theory knows."""
    from deployments.virtual.hardware import HARDWARE

    return _matching(HARDWARE, incomplete.lower())


def _below(folders: Iterable[str], incomplete: str) -> list[str]:
    """The configs that come with batchyard, also while the way to them is being typed."""
    return [
        _join(folder, path.name)
        for folder in folders
        if folder.startswith(incomplete)
        for path in _entries(folder)
        if path.suffix == ".yaml"
    ]


def _matching(found: Iterable[str], incomplete: str) -> list[str]:
    return sorted({path for path in found if path.startswith(incomplete)})


def _typed(incomplete: str) -> str:
    """The folder part of what is being typed, as it is being typed."""
    return incomplete.rpartition("/")[0] or "/"


def _entries(folder: str) -> list[Path]:
    try:
        return sorted(Path(folder).expanduser().iterdir())
    except OSError:
        return []


def _join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder.rstrip('/')}/{name}"
