"""What a shell is offered when Tab is pressed: configs, and the folders of sweeps.

They are looked for in the folder that is being typed and in the folders in that. Names are read, and the first
part of YAML files. Where nothing is offered, bash completes file names as ever.
"""

import os
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from results.sweep_folder import CALIBRATION, is_sweep

DEFAULT_RESULTS = "results/data"
CONFIGS = "experiments/configs"
OWN_CONFIGS = Path(__file__).parents[1] / "configs"  # wherever one is
FOLDERS = 100  # looked into: Tab is not waited for
READ_BYTES = 20_000
_STRATEGIES = re.compile(
    rb"""^["']?strategies["']?[ \t]*:""", re.MULTILINE
)  # what every config has, and little else


def configs(incomplete: str) -> list[str]:
    """Configs near what is being typed; where there are none, those that come with batchyard."""
    folders = dict.fromkeys([*_near(incomplete), *([] if "/" in incomplete else [CONFIGS])])
    found = [_join(folder, path.name) for folder in folders for path in _entries(folder) if _is_config(path)]
    return _matching(
        found or [str(path) for path in _entries(str(OWN_CONFIGS)) if _is_config(path)], incomplete
    )


def sweeps(incomplete: str) -> list[str]:
    """Folders of sweeps near what is being typed, or in the default results folder."""
    folders = dict.fromkeys([*_near(incomplete), DEFAULT_RESULTS])
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


def _near(incomplete: str) -> list[str]:
    """The folder that is being typed, and those in it that what is typed may lead to."""
    here = _typed(incomplete) if "/" in incomplete else "."
    below = (path for path in _entries(here) if not path.name.startswith(".") and os.path.isdir(path))
    inside = (_join(here, path.name) for path in below if not is_sweep(path))
    return [here, *islice((folder for folder in inside if folder.startswith(incomplete)), FOLDERS)]


def _is_config(path: Path) -> bool:
    """Whether a file is YAML with the strategies of a sweep."""
    if path.suffix not in (".yaml", ".yml") or not os.path.isfile(path):  # unlike `is_file` it raises nothing
        return False
    try:
        with path.open("rb") as file:
            return _STRATEGIES.search(file.read(READ_BYTES)) is not None
    except OSError:
        return False


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
