"""What is checked on this machine before a sweep touches its folder or starts anything: GPUs, model, prompts.

All of it would otherwise fail minutes later in a replica, and some of it trial by trial.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace

from deployments.backends.engine_args import SIZES
from deployments.errors import ModelError
from deployments.gpus import visible_gpus
from deployments.models import BFLOAT16_FROM, ModelSpec, context_tokens, locate, on_disk, resolve
from deployments.vllm_build import require_gpu_for_cuda_build
from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.console import Say
from experiments.document import Location
from experiments.fits import check_fits, here, on_cluster
from experiments.grid import Setting
from experiments.lane_count import lane_count
from experiments.resolved import Resolved
from experiments.traffic import traffic
from workloads.errors import WorkloadError
from workloads.sharegpt import read_user_turns

SAMPLE_REQUESTS = 64.0  # expected, of each repeat, where the rates are not known yet


def check(config: SweepConfig, say: Say, *, offline: bool = False, gpus_here: bool = True) -> None:
    """ConfigError, in the words of `load`, if this machine cannot run the config. `say` tells what takes long.

    DeviceError if CUDA_VISIBLE_DEVICES names no GPU of this machine, or vLLM's CUDA build finds none.
    `offline`: as far as can be told without asking a hub or converting the packaged model. `gpus_here`: whether
    it is this machine's GPUs that are used.
    """
    _check_engines(config)
    if gpus_here:
        _check_gpus(config)
    models = {setting.model for setting in config.settings if setting.model is not None}
    if models:
        check_fits(config, here(visible_gpus()) if gpus_here else on_cluster(config.accelerator or ()))
    found = {model: _check_model(config, model, say, offline=offline) for model in models}
    for cell in _one_of_each_traffic(config):
        model = found[cell.model] if cell.model is not None else None
        try:
            if cell.model is None or model is not None:
                traffic(replace(cell, model=model))
            elif cell.workload.prompts.path is not None:
                read_user_turns(cell.workload.prompts.path)
        except ModelError as error:
            raise config.error(("model",), str(error)) from error
        except WorkloadError as error:
            raise config.error(("workload", "prompts"), str(error)) from error


def lanes_here(config: SweepConfig, asked: int) -> int:
    """How many lanes the sweep has on this machine. ConfigError if more are asked for; 0 asks for none."""
    found = visible_gpus() if any(setting.model is not None for setting in config.settings) else ()
    usable = min(len(found), config.gpus or len(found))
    return lane_count(config, asked, usable // config.lane_gpus)


def _check_engines(config: SweepConfig) -> None:
    for index, entry in enumerate(config.strategies):
        if "vllm" in entry.backends and importlib.util.find_spec("vllm") is None:
            text = "vllm is not installed here; where it cannot be (macOS, Arm), continuous runs on huggingface-continuous"
            raise config.error(("strategies", index, "backends"), text)


def _check_gpus(config: SweepConfig) -> None:
    models = {setting.model for setting in config.settings if setting.model is not None}
    if not models and config.gpus is None:
        return  # whatever the GPUs are like, they are not used
    found = visible_gpus()
    if config.gpus is not None and config.gpus > len(found):
        on_cpu = "; gpus: auto runs on the CPU" if not found else ""
        text = f"must be at most the GPUs that can be used here, {len(found)}, got {config.gpus}{on_cpu}"
        raise config.error(("gpus",), text)
    if models and len(found) < config.lane_gpus > 1:
        setting = next(one for one in config.settings if one.model is not None)
        text = f"must be at most the GPUs that can be used here, {len(found)}, got {config.lane_gpus}"
        raise config.error(size_key(setting), text)
    if any(setting.backend == "vllm" for setting in config.settings):
        require_gpu_for_cuda_build(found)
    weak = [gpu for gpu in found if gpu.capability is not None and gpu.capability < BFLOAT16_FROM]
    for model in models:
        if weak and resolve(model).dtype == "bfloat16":
            # Not "or auto": a preset has a dtype of its own.
            text = f"must have dtype float16 or float32 on {weak[0].name}, which does not compute in bfloat16"
            raise config.error(("model",), text)


def size_key(setting: Setting) -> Location:
    """Where its config says how many GPUs its lane has."""
    named = next((key for key in SIZES if key in setting.engine), SIZES[0])
    return ("backends", setting.backend, named)


def _check_model(config: SweepConfig, model: ModelSpec, say: Say, *, offline: bool) -> ModelSpec | None:
    """The model that can be looked into; None if it is not on this machine and may not be had now."""
    found: ModelSpec | None = model
    try:
        if offline:
            found = on_disk(model)
        else:
            locate(model, say)
        if found is None:
            say(f"not checked: model {model.name}, which is not on this machine yet")
            return None
        context = context_tokens(found)
    except ModelError as error:
        raise config.error(("model",), str(error)) from error
    prompt, output = config.workload.prompt_law().maximum, config.workload.limit_tokens
    if context is not None and prompt + output > context:
        text = f"must fit the context of {model.name}, {context} tokens"
        raise config.error(("workload",), f"{text}, got {prompt} prompt + {output} output tokens")
    return found


def _one_of_each_traffic(config: SweepConfig) -> Iterator[Cell]:
    """A cell for each list of requests that the sweep sends, or a sample where rates are measured first."""
    rates = tuple(sorted(config.arrival_rate or (1.0,)))
    duration_s = config.duration_s or SAMPLE_REQUESTS
    planned = cells(config, Resolved(rates=rates, durations_s=(duration_s,) * len(rates)))
    yield from {(cell.model, cell.rate, cell.repeat): cell for cell in planned}.values()
