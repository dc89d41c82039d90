"""Checks of the GPU itself, before any engine is loaded; and of a whole sweep on it."""

import asyncio
from pathlib import Path

from deployments.gpu_claim import taken
from deployments.gpus import visible_gpus
from deployments.models import pick_dtype
from tests.gpu.outcome import Failed, require

SMALL_VLLM = {"gpu_memory_utilization": 0.3, "enforce_eager": True}  # loads in little time and memory


async def nvml() -> str:
    """NVML sees at least one GPU; which, with which driver."""
    gpus = visible_gpus()
    require(bool(gpus), "no GPU is visible")
    gpu = gpus[0]
    busy = "?" if gpu.utilisation is None else gpu.utilisation
    more = f", {len(gpus)} visible" if len(gpus) > 1 else ""
    return f"{gpu.name}, {_gib(gpu.total_bytes)}, driver {gpu.driver or '?'}, {busy} % busy{more}"


async def free() -> str:
    """Nobody else is on a GPU."""
    if hands := taken(visible_gpus()):
        raise Failed("; ".join(hands.values()))
    gpu = visible_gpus()[0]
    if gpu.used_bytes is not None and gpu.free_bytes is not None and gpu.total_bytes is not None:
        require(gpu.used_bytes + gpu.free_bytes <= gpu.total_bytes, "more is used and free than there is")
    return f"{_gib(gpu.free_bytes)} free"


async def torch_agrees() -> str:
    """PyTorch sees as many GPUs as NVML, and the same one first."""
    import torch

    gpus = visible_gpus()
    require(torch.cuda.is_available(), f"torch {torch.__version__} sees no CUDA device")
    require(
        torch.cuda.device_count() == len(gpus), f"torch sees {torch.cuda.device_count()}, NVML {len(gpus)}"
    )
    seen = torch.cuda.get_device_properties(0)
    require(
        gpus[0].capability in (None, (seen.major, seen.minor)),
        f"torch says compute capability {seen.major}.{seen.minor}, NVML {gpus[0].capability}",
    )
    told = gpus[0].total_bytes
    require(
        told is None or abs(seen.total_memory - told) < 0.1 * told,
        f"torch says {seen.name}, {seen.total_memory} bytes, NVML {gpus[0].name}, {told}",
    )
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}, {seen.name}"


async def dtype(device: str) -> str:
    """What `auto` picks computes: a product in it is that in float32 but for its rounding."""
    import torch

    picked = pick_dtype(device)
    rows = torch.linspace(-1, 1, 256 * 256, device=device).reshape(256, 256)
    exact, rounded = rows @ rows.T, (kind := rows.to(getattr(torch, picked))) @ kind.T
    error = float((exact - rounded.float()).abs().max() / exact.abs().max())
    require(error < 0.02, f"{picked}: off by {100 * error:.2g} %")
    return f"{picked}, off by {100 * error:.2g} %"


def sweep_on_it(folder: Path, device: str) -> str:
    """A whole sweep through Ray, with a lane key for each engine: all cells done, on this device. Blocks."""
    from experiments.config import parse
    from experiments.sweep import run_sweep
    from results.store import Store

    continuous = ["huggingface-continuous", *(["vllm"] if device == "cuda" else [])]  # on a CPU it loads long
    config = parse(
        {
            "name": "gpu-check",
            "model": {"name": str(folder), "dtype": "float32"},
            "workload": {
                "prompts": {"source": "random", "tokens": {"distribution": "uniform", "low": 4, "high": 24}},
                "output_tokens": {"distribution": "uniform", "low": 2, "high": 16},
            },
            "arrival_rate": [8],
            "duration_s": 3,
            "repeats": 1,
            "strategies": [
                {"strategy": "naive", "backends": "huggingface", "max_batch_size": 2},
                {"strategy": "continuous", "backends": continuous, "max_batch_size": 4},
            ],
            "backends": {"vllm": dict(SMALL_VLLM)} if device == "cuda" else {},
        }
    )
    said: list[str] = []
    root = folder.with_name("sweep")
    outcome = run_sweep(config, str(root), said.append)
    failures = "; ".join(failure.error for failure in Store(root).failures())
    require(outcome.complete, f"{outcome.done} of {outcome.planned} cells are done: {failures or said[-1]}")
    trials = Store(root).trials()
    on = {trial.device for trial in trials}
    require(("cpu" in on) == (device == "cpu"), f"it ran on {', '.join(sorted(on))}")
    gpus = {name for trial in trials for name in trial.setup["engine"].get("gpus", {})}
    require(bool(gpus) == (device == "cuda"), f"the trials' set-up names the GPUs {sorted(gpus)}")
    return f"{outcome.done} of {outcome.planned} cells on {', '.join(sorted(on))}"


async def sweep(folder: Path, device: str) -> str:
    """The same, beside the loop."""
    return await asyncio.to_thread(sweep_on_it, folder, device)


def _gib(count: int | None) -> str:
    return "? GiB" if count is None else f"{count / 2**30:.1f} GiB"
