"""`make gpu-check`: what has to hold on a GPU before a number measured on it means anything, as a table.

Exits with 1 if a check fails, and with 2, in one line, on a machine without a GPU. `--device cpu` runs what
makes sense there, which is how the checks themselves are tested.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from deployments.errors import DeviceError
from deployments.gpus import visible_gpus
from deployments.local_ray import prepare
from results.errors import one_line
from tests.gpu import device_checks
from tests.gpu.agreement import compute_in_full_float32
from tests.gpu.engine_checks import ARGS, LoadedEngine
from tests.tiny_model import save_tiny_model

Check = tuple[str, Callable[[], Awaitable[str]]]


def checks(folder: Path, device: str, backends: Sequence[str]) -> list[Check]:
    """In their order: the device, then each engine from loading to closing."""
    found: list[Check] = []
    if device == "cuda":
        found.append(("torch sees the same", device_checks.torch_agrees))
    found.append(("auto picks a dtype", partial(device_checks.dtype, device)))
    for name in backends:
        engine = LoadedEngine(name, folder, device)
        found += [
            (f"{name}: the CPU's tokens", engine.tokens),
            (f"{name}: stamps in order", engine.stamps),
            (f"{name}: memory", engine.memory),
        ]
        if name == "huggingface":
            found.append((f"{name}: out of memory", engine.out_of_memory))
        found.append((f"{name}: leaves nothing", engine.freed))
    return found


def before_cuda(folder: Path, device: str) -> list[Check]:
    """What has to come first: once this process has a CUDA context a sweep finds the GPU taken, by it."""
    sweep = ("a small sweep", partial(device_checks.sweep, folder, device))
    if device == "cpu":
        return [sweep]
    return [("NVML sees a GPU", device_checks.nvml), ("nobody else is on it", device_checks.free), sweep]


async def run(todo: Sequence[Check], table: Table) -> int:
    """Run all in order, each as a row of the table; how many failed."""
    failed = 0
    for name, check in todo:
        print(f"gpu-check: {name}", file=sys.stderr)
        begun_s = time.monotonic()
        try:
            result, figure = "[green]holds[/]", await check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next checks are run
            failed += 1
            result, figure = "[red]FAILS[/]", f"{type(error).__name__}: {one_line(error)}"
        table.add_row(name, result, figure.replace("[", "\\["), f"{time.monotonic() - begun_s:.1f}")
    return failed


def new_table(device: str) -> Table:
    """Empty, with its titles."""
    table = Table("check", "result", "figure", "s", title=f"gpu-check on {device}", title_justify="left")
    table.columns[3].justify = "right"
    return table


def main() -> int:
    """Run the checks, print the table; the exit code."""
    parser = argparse.ArgumentParser(prog="gpu-check", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device = parser.parse_args().device
    prepare()
    warnings.simplefilter("ignore")  # foreign deprecations are not for the user
    try:
        if device == "cuda" and not visible_gpus():
            print(
                "gpu-check: no NVIDIA GPU is visible (nvidia-smi must list one): nothing to check",
                file=sys.stderr,
            )
            return 2
    except DeviceError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return 2
    compute_in_full_float32()
    table = new_table(device)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        model = save_tiny_model(Path(folder) / "model")
        todo = [*before_cuda(model, device), *checks(model, device, tuple(ARGS))]
        failed = asyncio.run(run(todo, table))
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
