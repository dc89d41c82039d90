"""What one key of a config cannot know of another, and for which it is refused."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from deployments.backends.engine_args import SIZES, lane_gpus
from deployments.backends.registry import BACKENDS
from deployments.models import PRESETS
from experiments.complaints import nearest
from experiments.document import Location, Problem, key_path, shown
from experiments.grid import PASS_TOKENS, SLOTS

if TYPE_CHECKING:
    from experiments.config import SweepConfig

CONTEXT = ("max_model_len", "context_tokens")  # engine arguments that bound prompt + output
LONGEST_S = 604_800.0  # a week
MOST_REQUESTS = 10_000_000  # of a trial: beyond it a rate or a duration has a slip of its unit


def problems(config: "SweepConfig") -> list[Problem]:
    """What is wrong whatever the settings are."""
    return [
        *_model_problems(config),
        *_rate_problems(config),
        *_load_problems(config),
        *_kind_problems(config),
        *_price_problems(config),
    ]


def problems_of_settings(config: "SweepConfig") -> list[Problem]:
    """What is wrong with settings that are themselves in order."""
    return [
        *_lane_problems(config),
        *_context_problems(config),
        *_cache_problems(config),
        *_pass_problems(config),
        *_prompt_problems(config),
    ]


def _model_problems(config: "SweepConfig") -> list[Problem]:
    """A name that is nearly a preset is a slip; any other may be a hub id or a folder."""
    if config.model is None or config.model.name in PRESETS:
        return []
    name = config.model.name
    meant = nearest(name, PRESETS)
    if meant is None or "/" in name or Path(name).is_dir():
        return []
    presets = ", ".join(PRESETS)
    text = (
        f"must be a preset ({presets}), a Hugging Face id or a folder, got {name!r} (did you mean {meant}?)"
    )
    return [Problem(("model",), text)]


def _rate_problems(config: "SweepConfig") -> list[Problem]:
    found = []
    rates = config.arrival_rate or ()
    if config.trace_rates is not None and (given := config.as_written.get("arrival_rate")) is not None:
        text = f"must be left out with workload.trace.time_scale, which says how fast, got {shown(given)}"
        return [Problem(("arrival_rate",), text)]
    if twice := sorted({rate for rate in rates if rates.count(rate) > 1}):
        found.append(Problem(("arrival_rate",), f"each rate may be given once, got {twice[0]:g} twice"))
    if config.duration_s is not None and "minimum_duration_s" in config.model_fields_set:
        text = f"belongs to duration_s: auto, got duration_s {config.duration_s:g}"
        found.append(Problem(("minimum_duration_s",), text))
    return found


def _load_problems(config: "SweepConfig") -> list[Problem]:
    """Rates at which a trial would have no request, or more than could be held."""
    key: Location = ("arrival_rate",) if config.trace_rates is None else ("workload", "trace", "time_scale")
    written = config.written_at(key)
    duration_s = config.duration_s
    lowest = 1 / (duration_s or LONGEST_S)
    highest = MOST_REQUESTS / (duration_s or config.minimum_duration_s)
    span = f"duration_s {duration_s:g}" if duration_s else "a week"
    found = []
    for index, rate in enumerate(config.arrival_rate or ()):
        where: Location = (*key, index) if isinstance(written, list) else key
        if rate < lowest:
            text = f"must be at least {lowest:.3g} requests/s, 1 request in {span}, got {rate:g}"
            found.append(Problem(where, text))
        if rate > highest:
            text = f"must be at most {highest:.3g} requests/s, {MOST_REQUESTS} requests a trial, got {rate:g}"
            found.append(Problem(where, text))
    return found


def _lane_problems(config: "SweepConfig") -> list[Problem]:
    """Lanes of several GPUs: as many for every engine, and no more than the sweep may use."""
    sizes = {setting.backend: lane_gpus(setting.engine) for setting in config.settings}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{backend} {count}" for backend, count in sizes.items())
        text = f"must give every engine of a sweep lanes of as many GPUs ({', '.join(SIZES)}), got {said}"
        return [Problem(("backends",), text)]
    most = max(sizes.values(), default=1)
    if config.gpus is None or config.gpus >= most:
        return []
    return [Problem(("gpus",), f"must be at least {most}, the GPUs of one lane, got {config.gpus}")]


def _kind_problems(config: "SweepConfig") -> list[Problem]:
    """A kind of GPU that is named twice has each of its cells twice, and both at once in one lane."""
    kinds = config.accelerator or ()
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    return [Problem(("accelerator",), f"each kind may be given once, got {kind} twice") for kind in twice]


def _price_problems(config: "SweepConfig") -> list[Problem]:
    """Kinds of GPU that the sweep compares, and that have no price where others have one."""
    if "currency" in config.model_fields_set and config.price is None:
        return [Problem(("currency",), "belongs to price_per_gpu_hour, which is left out")]
    without = [kind for kind in config.accelerator or () if config.price and config.price.of(kind) is None]
    if not without:
        return []
    text = f"must have a price for each kind of accelerator, has none for {', '.join(without)}"
    return [Problem(("price_per_gpu_hour",), text)]


def _context_problems(config: "SweepConfig") -> list[Problem]:
    """An engine's context that the longest prompt and output do not fit in."""
    prompt = config.workload.prompt_law().maximum
    output = config.workload.limit_tokens
    found = []
    for setting in config.settings:
        for key in CONTEXT:
            context = setting.engine.get(key, math.inf)
            if context >= prompt + output:
                continue
            where: Location = ("backends", setting.backend, key)
            if key in config.backends.get(setting.backend, {}):
                text = f"must be at least {prompt} prompt + {output} output tokens, got {context}"
                found.append(Problem(where, text))
            else:
                text = f"must fit {key_path(where)}, {context}, got {prompt} prompt + {output} output tokens"
                found.append(Problem(("workload",), text))
    return list(dict.fromkeys(found))


def _cache_problems(config: "SweepConfig") -> list[Problem]:
    """A KV cache, given in blocks, that the longest prompt and output do not fit in."""
    longest = config.workload.prompt_law().maximum + config.workload.limit_tokens
    found = []
    for setting in config.settings:
        blocks, tokens = (setting.engine.get(key) for key in ("kv_blocks", "kv_block_tokens"))
        if blocks is not None and tokens is not None and blocks * tokens < longest:
            text = f"must hold {longest} tokens, the longest prompt and output, got {blocks} × {tokens}"
            found.append(Problem(("backends", setting.backend, "kv_blocks"), text))
    return list(dict.fromkeys(found))


def _pass_problems(config: "SweepConfig") -> list[Problem]:
    """Tokens of a simulated step, where an engine's arguments leave them open, that are fewer than its sequences."""
    given = config.simulation.max_num_batched_tokens
    slots = [
        setting.engine[SLOTS]
        for setting in config.settings
        if SLOTS in setting.engine and PASS_TOKENS not in setting.engine
    ]
    if given is None or given >= max(slots, default=0):
        return []
    text = f"must be at least {max(slots)}, the most sequences of a step, got {given}: each needs one of them"
    return [Problem(("simulation", PASS_TOKENS), text)]


def _prompt_problems(config: "SweepConfig") -> list[Problem]:
    """Prompts that could not be made after a model has been loaded and timed for minutes."""
    prompts, here = config.workload.prompts, ("workload", "prompts")
    if prompts.path is not None and not Path(prompts.path).is_file():
        return [Problem((*here, "path"), f"must be a chat file that can be read, got {prompts.path!r}")]
    untold = sorted({s.backend for s in config.settings if not BACKENDS[s.backend].needs_model})
    if prompts.source == "random" or not untold:
        return []
    text = f"must be random for {untold[0]}, which has no tokenizer, got {prompts.source!r}"
    return [Problem((*here, "source"), text)]
