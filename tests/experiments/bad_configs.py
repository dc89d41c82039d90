"""Bad configs and the line that each is refused with, for `test_bad_input.py`.

Of `CONFIGS` each changes one place of a good config; of `FILES` each is a whole file.
"""

from typing import TypeAlias

from deployments.backends.registry import BACKENDS
from deployments.models import PRESETS
from experiments.config import SweepConfig

GOOD = """\
name: good
workload:
  arrivals: {process: poisson}
  prompts: {source: random, tokens: {distribution: uniform, low: 16, high: 64}}
  output_tokens: {distribution: fixed, tokens: 8}
arrival_rate: [1, 4]
duration_s: 20
strategies:
  - {strategy: naive, backends: simulated, max_batch_size: 4}
  - {strategy: dynamic, backends: simulated, max_batch_size: 4, max_wait_ms: 50}
backends:
  simulated: {fixed_ms: 22}
repeats: 2
seed: 0
"""
KEYS = ", ".join(SweepConfig.model_fields)
NAMES, MODELS = ", ".join(BACKENDS), ", ".join(PRESETS)
RATE = "must be auto or requests/s above 0"
SECONDS = "must be auto or seconds above 0, at most 604800 (a week)"
NAIVE, DYNAMIC = "strategy: naive, backends: simulated", "strategy: dynamic, backends: simulated"
LENGTHS = "{distribution: uniform, low: 16, high: 64}"
BEFORE_STRATEGIES = GOOD.partition("strategies:")[0].encode()
JOINABLE = ", ".join(name for name, entry in BACKENDS.items() if entry.args_type().joinable)

Change: TypeAlias = tuple[str, str]  # what is replaced, by what

CONFIGS: dict[str, tuple[Change, str]] = {
    # keys
    "unknown key": (("repeats: 2", "repeat: 2"), f"13: repeat: unknown key (did you mean repeats?); allowed: {KEYS}"),
    "unknown key like a part of another": (("arrival_rate:", "rates:"), f"6: rates: unknown key (did you mean arrival_rate?); allowed: {KEYS}"),
    "unknown key like none": (("seed: 0", "colour: red"), f"14: colour: unknown key; allowed: {KEYS}"),
    "unknown key deep inside": (("high: 64", "higth: 64"), "4: workload.prompts.tokens.higth: unknown key (did you mean high?); allowed: distribution, low, high"),
    "misspelt strategy key": (("strategy: naive", "stratgy: naive"), "9: strategies[0].stratgy: unknown key (did you mean strategy?)"),
    "misspelt backends key": ((NAIVE, "strategy: naive, backend: simulated"), "9: strategies[0].backend: unknown key (did you mean backends?)"),
    "misspelt knob": (("max_batch_size: 4}", "max_batchsize: 4}"), "9: strategies[0].max_batchsize: unknown key (did you mean max_batch_size?); allowed: strategy, backends, max_batch_size for naive"),
    "knob of another strategy": ((f"{NAIVE}, max_batch_size: 4", f"{NAIVE}, max_batch_size: 4, max_wait_ms: 5"), "9: strategies[0].max_wait_ms: unknown key; allowed: strategy, backends, max_batch_size for naive (max_wait_ms is a knob of dynamic)"),
    "engine argument among the knobs": ((f"{NAIVE}, max_batch_size: 4", f"{NAIVE}, max_batch_size: 4, fixed_ms: 5"), "9: strategies[0].fixed_ms: unknown key; allowed: strategy, backends, max_batch_size for naive (fixed_ms belongs under backends, to simulated)"),
    "engine argument of another backend": (("fixed_ms: 22", "gpu_memory_utilization: 0.9"), "12: backends.simulated.gpu_memory_utilization: unknown key; allowed: engine, max_num_seqs, fixed_ms, per_sequence_ms, per_1000_prefill_tokens_ms, kv_budget_bytes, kv_bytes_per_token, vocabulary, context_tokens, lane_gpus, load_s, start_deadline_s"),
    "key written twice": (("seed: 0", "seed: 0\nseed: 1"), "15: seed: written twice, first on line 14"),
    "key that YAML does not read as text": (("seed: 0", "on: 0"), "14: a key must be text, got 'on' (quote it)"),
    "key that is a list": (("seed: 0", "? [a]\n: 0"), "14: a key must be text, got a list or mapping"),
    "missing key": (("name: good\n", ""), " name: is missing"),
    "missing knob": ((", max_wait_ms: 50", ""), "10: strategies[1].max_wait_ms: is missing"),
    "SLO without a limit": (("seed: 0", "slo: {}"), "14: slo.ttft_ms: must be given, or tpot_ms, itl_ms or e2e_ms, got none"),
    "SLO with an unknown limit": (("seed: 0", "slo: {ttft: 500}"), "14: slo.ttft: unknown key (did you mean ttft_ms?); allowed: ttft_ms, tpot_ms, itl_ms, e2e_ms"),
    "SLO with a limit of no time": (("seed: 0", "slo: [{ttft_ms: 500}, {e2e_ms: 0}]"), "14: slo[1].e2e_ms: must be above 0, got 0"),
    "SLO that is a number": (("seed: 0", "slo: 500"), "14: slo: must be a mapping of limits or a list of them, got 500"),
    "price that is none": (("seed: 0", "price_per_gpu_hour: -1"), "14: price_per_gpu_hour: must be a price of 0 or more, or a mapping from kinds of GPU to prices, got -1"),
    "price by kind that is none": (("seed: 0", "price_per_gpu_hour: {L4: much}"), "14: price_per_gpu_hour.L4: must be a number, got 'much'"),
    "price that a kind has not": (("seed: 0", "price_per_gpu_hour: {L4: 1}\naccelerator: [L4, H100]"), "14: price_per_gpu_hour: must have a price for each kind of accelerator, has none for H100"),
    "kind of GPU twice": (("seed: 0", "accelerator: [L4, A10G, L4]"), "14: accelerator: each kind may be given once, got L4 twice"),
    "currency without a price": (("seed: 0", "currency: EUR"), "14: currency: belongs to price_per_gpu_hour, which is left out"),
    # names
    "name with a slash": (("name: good", "name: ../good"), "1: name: must be lower-case letters, digits, and _ . - after the first of them, got '../good'"),
    "name that is a number": (("name: good", "name: 7"), "1: name: must be text, got 7 (quote it)"),
    "name that is too long": (("name: good", f"name: {'a' * 61}"), f"1: name: must have at most 60 characters, got '{'a' * 61}'"),
    "name that is nothing": (("name: good", "name:"), "1: name: must be text, got null"),
    "unknown strategy": (("strategy: naive", "strategy: Naiv"), "9: strategies[0].strategy: must be one of naive, dynamic, continuous, got 'Naiv' (did you mean naive?)"),
    "unknown backend": ((NAIVE, "strategy: naive, backends: simulatd"), f"9: strategies[0].backends[0]: must be one of {NAMES}, got 'simulatd' (did you mean simulated?)"),
    "engine of an unknown backend": (("  simulated: {", "  simulate: {"), f"12: backends.simulate: unknown key (did you mean simulated?); allowed: {NAMES}"),
    "unknown arrival process": (("process: poisson", "process: poison"), "3: workload.arrivals.process: must be one of poisson, gamma, constant, got 'poison' (did you mean poisson?)"),
    "unknown distribution": (("distribution: uniform", "distribution: unifrom"), "4: workload.prompts.tokens: distribution must be one of fixed, uniform, lognormal, long-tail, empirical, got 'unifrom' (did you mean uniform?)"),
    "unknown prompt source": (("source: random", "source: randm"), "4: workload.prompts.source: must be one of english, random, sharegpt, got 'randm' (did you mean random?)"),
    "unknown timer": (("max_wait_ms: 50", "max_wait_ms: 50, timer: arival"), "10: strategies[1].timer: must be one of arrival, idle, got 'arival' (did you mean arrival?)"),
    "unknown order": (("max_wait_ms: 50", "max_wait_ms: 50, order: lenght"), "10: strategies[1].order: must be one of fifo, length, priority, deadline, got 'lenght' (did you mean length?)"),
    "unknown engine": (("fixed_ms: 22", "engine: iter"), "12: backends.simulated.engine: must be one of lockstep, iteration, got 'iter' (did you mean iteration?)"),
    # types and units
    "unit in a wait": (("max_wait_ms: 50", "max_wait_ms: 50ms"), "10: strategies[1].max_wait_ms: must be a number in milliseconds, got '50ms'"),
    "unit in a list": (("max_wait_ms: 50", "max_wait_ms: [50, 0.5 s]"), "10: strategies[1].max_wait_ms[1]: must be a number in milliseconds, got '0.5 s'"),
    "unit in a duration": (("duration_s: 20", "duration_s: 20 s"), f"7: duration_s: {SECONDS}, got '20 s'"),
    "unit in a rate": (("[1, 4]", "4/s"), f"6: arrival_rate: {RATE}, got '4/s'"),
    "minutes and seconds": (("duration_s: 20", "duration_s: 1:30"), f"7: duration_s: {SECONDS}, got '1:30'"),
    "number with an underscore": (("duration_s: 20", "duration_s: 1_000"), f"7: duration_s: {SECONDS}, got '1_000'"),
    "octal number": (("seed: 0", "seed: 017"), "14: seed: must be a whole number, got '017' (without quotes)"),
    "quoted number": (("repeats: 2", "repeats: '2'"), "13: repeats: must be a whole number, got '2' (without quotes)"),
    "yes for a number": (("repeats: 2", "repeats: yes"), "13: repeats: must be a whole number, got true"),
    "null for a number": (("repeats: 2", "repeats:"), "13: repeats: must be a whole number, got null"),
    "list for a number": (("repeats: 2", "repeats: [2]"), "13: repeats: must be a whole number, got [2]"),
    "half a repeat": (("repeats: 2", "repeats: 2.5"), "13: repeats: must be a whole number, got 2.5"),
    "text for a switch": (("seed: 0", "isolate: 'no'"), "14: isolate: must be true or false, got 'no'"),
    "per cent": (("simulated: {fixed_ms: 22}", "vllm: {gpu_memory_utilization: 90%}"), "12: backends.vllm.gpu_memory_utilization: must be a number, got '90%'"),
    "null for a rate": (("[1, 4]", "null"), f"6: arrival_rate: {RATE}, got null"),
    "mapping for a backend": ((NAIVE, "strategy: naive, backends: {simulated: 1}"), "9: strategies[0].backends: must be a backend or a list of backends, got {'simulated': 1}"),
    "list of models": (("seed: 0", "model: [a, b]"), "14: model: must be the name of one model, or a mapping with name, got ['a', 'b']"),
    "revision that is a number": (("seed: 0", "model: {name: a/b, revision: 3}"), "14: model.revision: must be text, got 3 (quote it)"),
    "trust as text": (("seed: 0", "model: {name: a/b, trust_remote_code: 'yes'}"), "14: model.trust_remote_code: must be true or false, got 'yes'"),
    "unknown dtype": (("seed: 0", "model: {name: a/b, dtype: bf16}"), "14: model.dtype: must be one of auto, float32, bfloat16, float16, got 'bf16' (did you mean bfloat16?)"),
    "GPUs as text": (("seed: 0", "gpus: all"), "14: gpus: must be auto or a whole number of GPUs, at least 1, got 'all'"),
    "no GPUs": (("seed: 0", "gpus: 0"), "14: gpus: must be auto or a whole number of GPUs, at least 1, got 0"),
    # numbers
    "rate of 0": (("[1, 4]", "[1, 0]"), f"6: arrival_rate[1]: {RATE}, got 0"),
    "negative rate": (("[1, 4]", "-2"), f"6: arrival_rate: {RATE}, got -2"),
    "rate that is no number": (("[1, 4]", ".nan"), f"6: arrival_rate: {RATE}, got nan"),
    "infinite rate": (("[1, 4]", "1e999"), f"6: arrival_rate: {RATE}, got inf"),
    "rate without a request": (("[1, 4]", "[1, 1e-9]"), "6: arrival_rate[1]: must be at least 0.05 requests/s, 1 request in duration_s 20, got 1e-09"),
    "rate with a slip of its unit": (("[1, 4]", "1e9"), "6: arrival_rate: must be at most 5e+05 requests/s, 10000000 requests a trial, got 1e+09"),
    "rate twice": (("[1, 4]", "[4, 4.0]"), "6: arrival_rate: each rate may be given once, got 4 twice"),
    "no rates": (("[1, 4]", "[]"), f"6: arrival_rate: {RATE}, got []"),
    "duration of 0": (("duration_s: 20", "duration_s: 0"), f"7: duration_s: {SECONDS}, got 0"),
    "endless duration": (("duration_s: 20", "duration_s: .inf"), f"7: duration_s: {SECONDS}, got inf"),
    "minimum of a duration that is given": (("seed: 0", "minimum_duration_s: 9"), "14: minimum_duration_s: belongs to duration_s: auto, got duration_s 20"),
    "no repeats": (("repeats: 2", "repeats: 0"), "13: repeats: must be at least 1, got 0"),
    "too many repeats": (("repeats: 2", "repeats: 20000"), "13: repeats: must be at most 1000, got 20000"),
    "negative seed": (("seed: 0", "seed: -1"), "14: seed: must be at least 0, got -1"),
    "number of too many digits": (("seed: 0", f"seed: {'9' * 5000}"), "14: seed: must be a number of at most 18 digits, got one of 5000"),
    "no batch": ((f"{NAIVE}, max_batch_size: 4", f"{NAIVE}, max_batch_size: 0"), "9: strategies[0].max_batch_size: must be at least 1, got 0"),
    "batch beyond any engine": ((f"{NAIVE}, max_batch_size: 4", f"{NAIVE}, max_batch_size: 100000"), "9: strategies[0].max_batch_size: must be at most 65536, got 100000"),
    "negative wait": (("max_wait_ms: 50", "max_wait_ms: -1"), "10: strategies[1].max_wait_ms: must be at least 0, got -1"),
    "endless wait": (("max_wait_ms: 50", "max_wait_ms: .inf"), "10: strategies[1].max_wait_ms: must be a finite number, got inf"),
    "negative step time": (("fixed_ms: 22", "fixed_ms: -22"), "12: backends.simulated.fixed_ms: must be at least 0, got -22"),
    "endless load": (("fixed_ms: 22", "load_s: .inf"), "12: backends.simulated.load_s: must be a finite number, got inf"),
    "more memory than there is": (("simulated: {fixed_ms: 22}", "vllm: {gpu_memory_utilization: 90}"), "12: backends.vllm.gpu_memory_utilization: must be at most 1, got 90"),
    "prompt of no tokens": ((LENGTHS, "{distribution: fixed, tokens: 0}"), "4: workload.prompts.tokens.tokens: must be at least 1, got 0"),
    "lengths upside down": (("high: 64", "high: 8"), "4: workload.prompts.tokens.high: must be at least low, 16, got 8"),
    "median above the maximum": ((LENGTHS, "{distribution: lognormal, median: 80, sigma: 1, maximum: 64}"), "4: workload.prompts.tokens.median: must be in minimum..maximum, 1..64, got 80"),
    "mean of a lognormal": ((LENGTHS, "{distribution: lognormal, mean: 8, sigma: 1, maximum: 64}"), "4: workload.prompts.tokens.mean: unknown key (did you mean median?); allowed: distribution, median, sigma, minimum, maximum"),
    "no spread": ((LENGTHS, "{distribution: lognormal, median: 8, sigma: 0, maximum: 64}"), "4: workload.prompts.tokens.sigma: must be above 0 and finite, got 0.0"),
    "skew beyond the longest tail": ((LENGTHS, "{distribution: long-tail, mean: 8, skew: 2, maximum: 64}"), "4: workload.prompts.tokens.skew: must be in 0..1, got 2"),
    "mean above the maximum": ((LENGTHS, "{distribution: long-tail, mean: 80, skew: 0.6, maximum: 64}"), "4: workload.prompts.tokens.maximum: must be at least mean, 80, got 64"),
    "no lengths": ((LENGTHS, "{distribution: empirical, values: []}"), "4: workload.prompts.tokens.values: must hold at least 1 length, got none"),
    "weights without a value": ((LENGTHS, "{distribution: empirical, values: [3], weights: [1, 2]}"), "4: workload.prompts.tokens.weights: must be as many as values, 1, got 2"),
    "gamma without a cv": (("process: poisson", "process: gamma"), "3: workload.arrivals.cv: must be above 0 and finite for gamma arrivals, got nothing"),
    "gamma with a cv of 0": (("process: poisson", "process: gamma, cv: 0"), "3: workload.arrivals.cv: must be above 0 and finite for gamma arrivals, got 0.0"),
    "gamma of one endless burst": (("process: poisson", "process: gamma, cv: 1e9"), "3: workload.arrivals.cv: must be in 0.01..100, got 1e+09"),
    "cv of a Poisson process": (("process: poisson", "process: poisson, cv: 2"), "3: workload.arrivals.cv: must be left out for poisson arrivals, got 2.0"),
    "limit below the output": (("arrival_rate", "  max_new_tokens: 7\narrival_rate"), "6: workload.max_new_tokens: must be at least the top of output_tokens, 8, got 7"),
    "negative weight of a class": (("arrival_rate", "  priority: [1, -1]\narrival_rate"), "6: workload.priority: must be weights, finite, at least 0 and not all 0, got [1.0, -1.0]"),
    "target of 0": (("arrival_rate", "  ttft_target_ms: 0\narrival_rate"), "6: workload.ttft_target_ms: must be above 0 and finite, in milliseconds, got 0"),
    "targets for classes that there are not": (("arrival_rate", "  ttft_target_ms: [100, 200]\narrival_rate"), "6: workload.ttft_target_ms: must be one target, got 2"),
    # combinations
    "bound of another order": (("max_wait_ms: 50", "max_wait_ms: 50, order: [length, fifo], max_skips: 3"), "10: strategies[1].max_skips: belongs to order: length, got order: fifo"),
    "late requests of another order": (("max_wait_ms: 50", "max_wait_ms: 50, on_expired: reject"), "10: strategies[1].on_expired: belongs to order: deadline, got order: fifo"),
    "order of another strategy": ((f"{NAIVE}, max_batch_size: 4", f"{NAIVE}, max_batch_size: 4, order: length"), "9: strategies[0].order: unknown key; allowed: strategy, backends, max_batch_size for naive (order is a knob of dynamic)"),
    "no backends": ((NAIVE, "strategy: naive, backends: []"), "9: strategies[0].backends: must have at least 1 value, got []"),
    "empty axis": (("max_wait_ms: 50", "max_wait_ms: []"), "10: strategies[1].max_wait_ms: must have at least 1 value, got an empty list"),
    "continuous where nothing joins": (("strategy: naive", "strategy: continuous"), f"9: strategies[0].backends: continuous needs a backend that lets a request join while others run, got simulated (joinable: {JOINABLE}, simulated with engine: iteration)"),
    "no model for a backend that loads one": ((NAIVE, "strategy: naive, backends: huggingface"), " model: is missing, and huggingface needs one; only simulated runs without"),
    "preset misspelt": (("seed: 0", "model: smollm-135m"), f"14: model: must be a preset ({MODELS}), a Hugging Face id or a folder, got 'smollm-135m' (did you mean smollm2-135m?)"),
    "cells twice in an entry": (("max_wait_ms: 50", "max_wait_ms: [50, 50.0]"), "10: strategies[1]: names dynamic · 4 · 50 ms on simulated twice; a value may be given once"),
    "cells twice in two entries": (("backends:\n", "  - {strategy: naive, backends: [simulated], max_batch_size: 4}\nbackends:\n"), "11: strategies[2]: makes the same cells as strategies[0]: naive · 4 on simulated"),
    "slots where a batch is run at once": (("fixed_ms: 22", "max_num_seqs: 4"), "12: backends.simulated.max_num_seqs: belongs to an engine that re-forms its batch; simulated runs one batch at a time"),
    "budget with a unit": (("fixed_ms: 22", "kv_budget_bytes: 2GB"), "12: backends.simulated.kv_budget_bytes: must be a whole number, got '2GB'"),
    "budget that is no number and not auto": (("simulated: {fixed_ms: 22}", "huggingface: {kv_budget_bytes: all}"), "12: backends.huggingface.kv_budget_bytes: must be a whole number, got 'all'"),
    "budget of nothing": (("fixed_ms: 22", "kv_budget_bytes: 0"), "12: backends.simulated.kv_budget_bytes: must be at least 1, got 0"),
    "budget of an engine that is joined": (("fixed_ms: 22", "engine: iteration, kv_budget_bytes: 9"), "12: backends.simulated.kv_budget_bytes: belongs to engine: lockstep, got engine: iteration"),
    "budget among the knobs": (("max_wait_ms: 50", "max_wait_ms: 50, kv_budget_bytes: 9"), "10: strategies[1].kv_budget_bytes: unknown key; allowed: strategy, backends, max_batch_size, max_wait_ms, timer, order, max_skips, on_expired for dynamic (kv_budget_bytes belongs under backends, to huggingface, simulated)"),
    "context that is given and too short": (("fixed_ms: 22", "context_tokens: 71"), "12: backends.simulated.context_tokens: must be at least 64 prompt + 8 output tokens, got 71"),
    "prompts beyond the engine's context": (("high: 64", "high: 5000"), "2: workload: must fit backends.simulated.context_tokens, 4096, got 5000 prompt + 8 output tokens"),
    "prompts that need a tokenizer": (("source: random", "source: english"), "4: workload.prompts.source: must be random for simulated, which has no tokenizer, got 'english'"),
    "chat file that is not named": (("source: random", "source: sharegpt"), "4: workload.prompts.path: must name a chat file for source sharegpt, got nothing"),
    "chat file that is not there": (("source: random", "source: sharegpt, path: chats.json"), "4: workload.prompts.path: must be a chat file that can be read, got 'chats.json'"),
    "chat file for other prompts": (("source: random", "source: random, path: chats.json"), "4: workload.prompts.path: must be left out for source random, got 'chats.json'"),
    # YAML
    "tab": (("  arrivals", "\tarrivals"), "3: not valid YAML: found character '\\t' that cannot start any token; indent with spaces, not a tab"),
    "tab behind a key": (("seed: 0", "seed:\t0"), "14: not valid YAML: found character '\\t' that cannot start any token; write a space, not a tab"),
    "key without a colon": (("seed: 0", "seed\nmodel: x"), "14: not valid YAML: could not find expected ':'"),
    "bracket left open": (("[1, 4]", "[1, 4"), "7: not valid YAML: expected ',' or ']', but got ':' (while parsing a flow sequence that begins on line 6)"),
    "alias of nothing": (("[1, 4]", "*rates"), "6: not valid YAML: found undefined alias 'rates'"),
    "alias of itself": (("[1, 4]", "&a [*a]"), "6: an alias may not contain itself"),
    "second document": (("seed: 0", "---\nname: other"), "14: not valid YAML: expected a single document in the stream, but found another document"),
    "Python object": (("seed: 0", "seed: !!python/object:os.system {}"), "14: seed: must be a plain value, got one with the tag !!python/object:os.system"),
    "binary value": (("name: good", "name: !!binary aGVsbG8="), "1: name: must be a plain value, got one with the tag !!binary"),
    "half a surrogate pair": (("name: good", 'name: "\\ud800"'), "1: name: must be text, got half a surrogate pair in '\\ud800'"),
}  # fmt: skip

FILES: dict[str, tuple[bytes, str]] = {
    "no strategies": (BEFORE_STRATEGIES + b"strategies: []\n", "c.yaml:8: strategies: must have at least 1 value, got []"),
    "a strategy for a list": (BEFORE_STRATEGIES + b"strategies: naive\n", "c.yaml:8: strategies: must be a list, got 'naive'"),
    "a name for a mapping": (BEFORE_STRATEGIES + b"strategies: [naive]\n", "c.yaml:8: strategies[0]: must be a mapping, got 'naive'"),
    "empty file": (b"", "c.yaml: is empty; must be a mapping of keys such as name and strategies"),
    "file of comments": (b"# nothing\n", "c.yaml: is empty; must be a mapping of keys such as name and strategies"),
    "list at the top": (b"- naive\n- dynamic\n", "c.yaml: must be a mapping of keys such as name and strategies, got ['naive', 'dynamic']"),
    "text at the top": (b"hello\n", "c.yaml: must be a mapping of keys such as name and strategies, got 'hello'"),
    "binary file": (b"PAR1\x00\x01", "c.yaml: must be a text file: character 4 is U+0000"),
    "not UTF-8": ("name: café\n".encode("latin-1"), "c.yaml: must be a text file in UTF-8, byte 9 is not"),
    "UTF-16": (GOOD.encode("utf-16"), "c.yaml: must be a text file in UTF-8, byte 0 is not"),
    "nested too deep": (b"a: " + b"[" * 3000, "c.yaml: is nested too deep for a config"),
    "aliases of aliases": (
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(b"%c: &%c [%s]\n" % (k, k, b",".join([b"*%c" % (k - 1)] * 10)) for k in range(ord("b"), ord("h"))),
        "c.yaml:1: must hold at most 100000 values, aliases counted",
    ),
}  # fmt: skip
