"""What is checked on this machine before a sweep touches its folder or starts anything: GPUs, model, prompts.

All of it would otherwise fail minutes later in a replica, and some of it trial by trial.
"""

from collections.abc import Callable, Iterator

from deployments.errors import ModelError
from deployments.gpus import visible_gpus
from deployments.models import BFLOAT16_FROM, ModelSpec, context_tokens, locate, resolve
from deployments.vllm_build import require_gpu_for_cuda_build
from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.resolved import Resolved
from experiments.traffic import traffic
from workloads.errors import WorkloadError

SAMPLE_REQUESTS = 64.0  # expected, of each repeat, where the rates are not known yet

Say = Callable[[str], None]


def check(config: SweepConfig, say: Say) -> None:
    """ConfigError, in the words of `load`, if this machine cannot run the config. `say` tells what takes long.

    DeviceError if CUDA_VISIBLE_DEVICES names no GPU of this machine, or vLLM's CUDA build finds none.
    """
    _check_gpus(config)
    for model in {setting.model for setting in config.settings if setting.model is not None}:
        _check_model(config, model, say)
    for cell in _one_of_each_traffic(config):
        try:
            traffic(cell)
        except ModelError as error:
            raise config.error(("model",), str(error)) from error
        except WorkloadError as error:
            raise config.error(("workload", "prompts"), str(error)) from error


def _check_gpus(config: SweepConfig) -> None:
    models = {setting.model for setting in config.settings if setting.model is not None}
    if not models and config.gpus is None:
        return  # whatever the GPUs are like, they are not used
    found = visible_gpus()
    if config.gpus is not None and config.gpus > len(found):
        on_cpu = "; gpus: auto runs on the CPU" if not found else ""
        text = f"must be at most the GPUs that can be used here, {len(found)}, got {config.gpus}{on_cpu}"
        raise config.error(("gpus",), text)
    if any(setting.backend == "vllm" for setting in config.settings):
        require_gpu_for_cuda_build(found)
    weak = [gpu for gpu in found if gpu.capability is not None and gpu.capability < BFLOAT16_FROM]
    for model in models:
        if weak and resolve(model).dtype == "bfloat16":
            # Not "or auto": a preset has a dtype of its own.
            text = f"must have dtype float16 or float32 on {weak[0].name}, which does not compute in bfloat16"
            raise config.error(("model",), text)


def _check_model(config: SweepConfig, model: ModelSpec, say: Say) -> None:
    try:
        locate(model, say)
        context = context_tokens(model)
    except ModelError as error:
        raise config.error(("model",), str(error)) from error
    prompt, output = config.workload.prompt_law().maximum, config.workload.limit_tokens
    if context is not None and prompt + output > context:
        text = f"must fit the context of {model.name}, {context} tokens"
        raise config.error(("workload",), f"{text}, got {prompt} prompt + {output} output tokens")


def _one_of_each_traffic(config: SweepConfig) -> Iterator[Cell]:
    """A cell for each list of requests that the sweep sends, or a sample where rates are measured first."""
    rates = tuple(sorted(config.arrival_rate or (1.0,)))
    duration_s = config.duration_s or SAMPLE_REQUESTS
    planned = cells(config, Resolved(rates=rates, durations_s=(duration_s,) * len(rates)))
    yield from {(cell.model, cell.rate, cell.repeat): cell for cell in planned}.values()
