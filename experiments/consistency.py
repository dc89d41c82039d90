"""What one key of a config cannot know of another: problems, for which it is refused, and warnings."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployments.backends.engine_args import SIZES, lane_gpus
from deployments.backends.registry import BACKENDS
from deployments.models import PRESETS
from experiments.complaints import nearest
from experiments.document import Location, Problem, key_path, shown
from experiments.grid import PASS_TOKENS, SLOTS
from workloads.errors import WorkloadError
from workloads.sharegpt import read_conversations

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


def warnings(config: "SweepConfig") -> list[str]:
    """What can run but will not show what it was meant to show."""
    return [
        *_unused(config),
        *_unfilled(config),
        *_of_the_order(config),
        *_unequal(config),
        *_of_the_trace(config),
        *_of_the_chats(config),
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


def _unused(config: "SweepConfig") -> list[str]:
    used = {setting.backend for setting in config.settings}
    found = [f"backends.{name}: no strategy runs on it" for name in config.backends if name not in used]
    if config.model is not None and not any(BACKENDS[name].needs_model for name in used):
        found.append(f"model: {config.model.name} is not loaded: {', '.join(sorted(used))} needs no model")
    return found


def _of_the_order(config: "SweepConfig") -> list[str]:
    """Orders that are fifo for want of what they order by, and what no strategy orders by."""
    workload = config.workload
    classes = sum(weight > 0 for weight in workload.priority or ())
    lengths = len(workload.prompt_law().values)
    missing = {
        "length": lengths < 2 and "workload.prompts has one length",
        "priority": classes < 2 and "workload.priority names no two classes",
        "deadline": workload.ttft_target_ms is None and "workload.ttft_target_ms is left out",
    }
    found = []
    for index, entry in enumerate(config.strategies):
        knobs = entry.model_extra or {}
        orders = _several(knobs.get("order", "fifo"))
        where = key_path(("strategies", index, "order"))
        found += [f"{where}: {order} is fifo: {missing[order]}" for order in orders if missing.get(order)]
        target_ms, wait_ms = (
            min(workload.ttft_target_ms or (math.inf,)),
            max(_several(knobs.get("max_wait_ms", 0))),
        )
        if "reject" in _several(knobs.get("on_expired", "serve")) and wait_ms >= target_ms:
            late = f"max_wait_ms {wait_ms:g} outlasts workload.ttft_target_ms {target_ms:g}"
            found.append(
                f"{key_path(('strategies', index, 'on_expired'))}: {late}: requests are rejected by an idle engine"
            )
    used = {setting.knobs.get("order", "fifo") for setting in config.settings}
    if classes > 1 and "priority" not in used and len(workload.ttft_target_ms or ()) < 2:
        found.append("workload.priority: no strategy has order: priority")
    if workload.ttft_target_ms is not None and "deadline" not in used:
        found.append("workload.ttft_target_ms: no strategy has order: deadline")
    return found


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _unfilled(config: "SweepConfig") -> list[str]:
    if config.arrival_rate is None or config.duration_s is None:
        return []  # said once they are known
    return _unfilled_at(config, [(rate, config.duration_s) for rate in config.arrival_rate])


def unfilled_now(config: "SweepConfig", rates: Sequence[float], durations_s: Sequence[float]) -> list[str]:
    """The warnings about batch sizes that `warnings` could not give before an `auto` was resolved to these."""
    if config.arrival_rate is not None and config.duration_s is not None:
        return []
    return _unfilled_at(config, list(zip(rates, durations_s, strict=True)))


def _unfilled_at(config: "SweepConfig", loads: Sequence[tuple[float, float]]) -> list[str]:
    """Batch sizes that fewer requests than one batch are expected for, at (requests/s, seconds)."""
    found = []
    for index, entry in enumerate(config.strategies):
        sizes = (entry.model_extra or {})["max_batch_size"]
        looked_at = loads if entry.strategy == "naive" else [max(loads, key=lambda load: load[0] * load[1])]
        for size in sizes if isinstance(sizes, list) else [sizes]:
            low = max((load for load in looked_at if load[0] * load[1] < size), default=None)
            if low is None:
                continue
            rate, duration_s = low
            text = f"{size} is never filled at {rate:g} requests/s, which are {rate * duration_s:.4g} requests in {duration_s:g} s"
            flushed = ": naive would only flush what it has" if entry.strategy == "naive" else ""
            found.append(f"{key_path(('strategies', index, 'max_batch_size'))}: {text}{flushed}")
    return found


def _of_the_trace(config: "SweepConfig") -> list[str]:
    """What was left out or cut of a trace, and where it ends before the arrivals should."""
    workload = config.workload
    if workload.trace is None:
        return []
    found = workload.trace.notes()
    for rate in config.arrival_rate or ():
        if config.duration_s is not None and workload.lasts_s(rate) < config.duration_s:
            over = f"is over after {workload.lasts_s(rate):.4g} s at {rate:.4g} requests/s"
            found.append(f"{over}, before duration_s {config.duration_s:g}")
    return [f"workload.trace: {note}" for note in found]


def _of_the_chats(config: "SweepConfig") -> list[str]:
    """A chat file with fewer texts than a trial has requests: prompts of one trial then repeat each other."""
    from experiments.capacity import REQUESTS  # which knows configs, as they know this

    path = config.workload.prompts.path
    if path is None:
        return []
    try:
        chats = read_conversations(path)
    except WorkloadError:  # said, and refused, where the prompts are made
        return []
    texts = sum(map(len, chats))
    known = config.arrival_rate is not None and config.duration_s is not None
    requests = max(config.arrival_rate or ()) * (config.duration_s or 0) if known else REQUESTS
    if texts >= requests:
        return []
    held = f"{path} holds {texts} texts by people (conversations: {len(chats)})"
    expected = f"{'' if known else 'at least '}{requests:g} requests"
    return [f"workload.prompts.path: {held} for {expected} of a trial: their prompts repeat text"]


def _unequal(config: "SweepConfig") -> list[str]:
    """Engines with unlike CPU threads: what they differ in is then not the engine alone."""
    threads = {s.backend: s.engine.get("threads") for s in config.settings if s.model is not None}
    if len(set(threads.values())) < 2:
        return []
    said = ", ".join(f"{name} {count or 'its default'}" for name, count in sorted(threads.items()))
    return [f"backends: unequal threads ({said}): a comparison of engines compares these too"]
