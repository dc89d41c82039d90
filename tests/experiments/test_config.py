"""A config is read whole or refused, with one line that says where, what was given and what is allowed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployments.backends.registry import BACKENDS
from experiments.cells import cells
from experiments.config import SweepConfig, load, parse
from experiments.errors import ConfigError
from experiments.resolved import Resolved

CONFIGS = Path(__file__).parents[2] / "experiments" / "configs"
SHIPPED = [CONFIGS / f"{name}.yaml" for name in ("full", "local", "smoke")]  # a user's own lie beside them

GOOD = """\
name: good
model: smollm2-135m
workload:
  arrivals: {process: poisson}
  prompts: {source: english, tokens: {distribution: uniform, low: 16, high: 64}}
  output_tokens: {distribution: lognormal, median: 8, sigma: 0.8, maximum: 32}
arrival_rate: auto
duration_s: auto
strategies:
  - {strategy: naive, backends: [huggingface, vllm], max_batch_size: 4}
  - {strategy: dynamic, backends: vllm, max_batch_size: 4, max_wait_ms: [50, 500]}
  - {strategy: continuous, backends: vllm, max_batch_size: 4}
backends:
  vllm: {cpu_kv_cache_gib: 1}
repeats: 3
"""

BAD = {
    "unknown key, nearest one": (
        ("repeats: 3", "repeat: 3"),
        ":15: repeat: unknown key (did you mean repeats?); allowed: name, model, workload, ",
    ),
    "required key misspelt": (
        ("strategies:", "startegies:"),
        ":9: startegies: unknown key (did you mean strategies?); allowed: ",
    ),
    "required key missing": (("name: good\n", ""), ": name: is missing"),
    "key written twice": (
        ("repeats: 3", "repeats: 3\nrepeats: 4"),
        ":16: repeats: written twice, first on line 15",
    ),
    "key that is not text": (("repeats: 3", "on: 3"), ":15: a key must be text, got 'on' (quote it)"),
    "no YAML": (("name: good", "name: [good"), ":2: not valid YAML: expected ',' or ']', but got ':'"),
    "name with a slash": (
        ("name: good", "name: a/b"),
        ":1: name: must be lower-case letters, digits, and _ . - after the first of them, got 'a/b'",
    ),
    "preset misspelt": (
        ("model: smollm2-135m", "model: smollm-135m"),
        (
            ":2: model: must be a preset (smollm2-135m, tinyllama-1.1b, mistral-7b, llama-2-13b), a Hugging Face id"
            " or a folder, got 'smollm-135m' (did you mean smollm2-135m?)"
        ),
    ),
    "no model for a backend that loads one": (
        ("model: smollm2-135m", "model: null"),
        ":2: model: is missing, and huggingface needs one; only simulated runs without",
    ),
    "dtype": (
        ("model: smollm2-135m", "model: {name: a/b, dtype: bf16}"),
        ":2: model.dtype: must be one of auto, float32, bfloat16, float16, got 'bf16' (did you mean bfloat16?)",
    ),
    "unknown key deep inside": (
        ("high: 64", "higth: 64"),
        ":5: workload.prompts.tokens.higth: unknown key (did you mean high?); allowed: distribution, low, high",
    ),
    "unknown distribution": (
        ("distribution: uniform", "distribution: unifrom"),
        (
            ":5: workload.prompts.tokens: distribution must be one of fixed, uniform, lognormal, long-tail,"
            " empirical, got 'unifrom' (did you mean uniform?)"
        ),
    ),
    "impossible lengths": (
        ("low: 16", "low: 65"),
        ":5: workload.prompts.tokens.high: must be at least low, 65, got 64",
    ),
    "unknown arrival process": (
        ("process: poisson", "process: poison"),
        (
            ":4: workload.arrivals.process: must be one of poisson, gamma, constant, got 'poison'"
            " (did you mean poisson?)"
        ),
    ),
    "rate of 0": (
        ("arrival_rate: auto", "arrival_rate: [1, 0]"),
        ":7: arrival_rate[1]: must be auto or requests/s above 0, got 0",
    ),
    "rate as text": (
        ("arrival_rate: auto", "arrival_rate: fast"),
        ":7: arrival_rate: must be auto or requests/s above 0, got 'fast'",
    ),
    "infinite rate": (
        ("arrival_rate: auto", "arrival_rate: [.inf]"),
        ":7: arrival_rate[0]: must be auto or requests/s above 0, got inf",
    ),
    "rate that is no number": (
        ("arrival_rate: auto", "arrival_rate: .nan"),
        ":7: arrival_rate: must be auto or requests/s above 0, got nan",
    ),
    "no rates": (
        ("arrival_rate: auto", "arrival_rate: []"),
        ":7: arrival_rate: must be auto or requests/s above 0, got []",
    ),
    "same rate twice": (
        ("arrival_rate: auto", "arrival_rate: [2, 2.0]"),
        ":7: arrival_rate: each rate may be given once, got 2 twice",
    ),
    "duration with a unit": (
        ("duration_s: auto", "duration_s: 60s"),
        ":8: duration_s: must be auto or seconds above 0, at most 604800 (a week), got '60s'",
    ),
    "minimum of a duration that is given": (
        ("duration_s: auto", "duration_s: 60\nminimum_duration_s: 30"),
        ":9: minimum_duration_s: belongs to duration_s: auto, got duration_s 60",
    ),
    "unknown strategy": (
        ("strategy: naive", "strategy: naiv"),
        (
            ":10: strategies[0].strategy: must be one of naive, dynamic, continuous, got 'naiv'"
            " (did you mean naive?)"
        ),
    ),
    "unknown backend": (
        ("[huggingface, vllm]", "[huggingface, vlm]"),
        (
            f":10: strategies[0].backends[1]: must be one of {', '.join(BACKENDS)}, got 'vlm'"
            " (did you mean vllm?)"
        ),
    ),
    "knob of another strategy": (
        ("vllm], max_batch_size: 4", "vllm], max_batch_size: 4, max_wait_ms: 5"),
        (
            ":10: strategies[0].max_wait_ms: unknown key; allowed: strategy, backends, max_batch_size for naive"
            " (max_wait_ms is a knob of dynamic)"
        ),
    ),
    "knob missing": ((", max_wait_ms: [50, 500]", ""), ":11: strategies[1].max_wait_ms: is missing"),
    "knob with a unit": (
        ("[50, 500]", "[50, 500ms]"),
        ":11: strategies[1].max_wait_ms[1]: must be a number in milliseconds, got '500ms'",
    ),
    "one knob with a unit": (
        ("[50, 500]", "50ms"),
        ":11: strategies[1].max_wait_ms: must be a number in milliseconds, got '50ms'",
    ),
    "knob below its bound": (
        ("vllm], max_batch_size: 4", "vllm], max_batch_size: 0"),
        ":10: strategies[0].max_batch_size: must be at least 1, got 0",
    ),
    "half a request": (
        ("vllm], max_batch_size: 4", "vllm], max_batch_size: 4.5"),
        ":10: strategies[0].max_batch_size: must be a whole number, got 4.5",
    ),
    "empty axis": (
        ("[50, 500]", "[]"),
        ":11: strategies[1].max_wait_ms: must have at least 1 value, got an empty list",
    ),
    "no backends": (
        ("[huggingface, vllm]", "[]"),
        ":10: strategies[0].backends: must have at least 1 value, got []",
    ),
    "value twice in an axis": (
        ("[50, 500]", "[50, 50.0]"),
        ":11: strategies[1]: names dynamic · 4 · 50 ms on vllm twice; a value may be given once",
    ),
    "two entries that are one": (
        (
            "backends:\n",
            "  - {strategy: dynamic, backends: vllm, max_batch_size: 4, max_wait_ms: 500, timer: arrival}\nbackends:\n",
        ),
        ":13: strategies[3]: makes the same cells as strategies[1]: dynamic · 4 · 500 ms on vllm",
    ),
    "continuous where nothing joins": (
        ("strategy: continuous, backends: vllm", "strategy: continuous, backends: huggingface"),
        (
            ":12: strategies[2].backends: continuous needs a backend that lets a request join while others run,"
            " got huggingface (joinable: "
        ),
    ),
    "engine argument misspelt": (
        ("cpu_kv_cache_gib: 1", "cpu_kv_cache_gb: 1"),
        ":14: backends.vllm.cpu_kv_cache_gb: unknown key (did you mean cpu_kv_cache_gib?); allowed: max_num_seqs",
    ),
    "engine argument of a wrong type": (
        ("cpu_kv_cache_gib: 1", "cpu_kv_cache_gib: 1.5"),
        ":14: backends.vllm.cpu_kv_cache_gib: must be a whole number in GiB, got 1.5",
    ),
    "fewer slots than a batch": (
        ("cpu_kv_cache_gib: 1", "max_num_seqs: 2"),
        (
            ":14: backends.vllm.max_num_seqs: must be at least max_batch_size 4 of strategies[0], got 2;"
            " leave it out and max_batch_size sets it"
        ),
    ),
    "slots against the axis of continuous": (
        ("cpu_kv_cache_gib: 1", "max_num_seqs: 8"),
        (
            ":14: backends.vllm.max_num_seqs: must equal max_batch_size 4 of strategies[2] (continuous), got 8;"
            " leave it out and max_batch_size sets it"
        ),
    ),
    "context too short": (
        ("cpu_kv_cache_gib: 1", "max_model_len: 95"),
        ":14: backends.vllm.max_model_len: must be at least 64 prompt + 32 output tokens, got 95",
    ),
    "engine of an unknown backend": (
        ("  vllm: {cpu", "  vlm: {cpu"),
        f":14: backends.vlm: unknown key (did you mean vllm?); allowed: {', '.join(BACKENDS)}",
    ),
    "no repeats": (("repeats: 3", "repeats: 0"), ":15: repeats: must be at least 1, got 0"),
    "switch as text": (("repeats: 3", "isolate: 'no'"), ":15: isolate: must be true or false, got 'no'"),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "made.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("change", "line"), BAD.values(), ids=BAD.keys())
def test_a_wrong_config_is_refused_with_a_line_that_says_where_and_what(
    change: tuple[str, str], line: str, tmp_path: Path
) -> None:
    wrong, right = change
    assert GOOD.count(wrong) >= 1
    path = write(tmp_path, GOOD.replace(wrong, right, 1))
    with pytest.raises(ConfigError) as refusal:
        load(path)
    assert str(refusal.value).startswith(f"{path}{line}")
    assert len(str(refusal.value).splitlines()) == 1


def test_an_empty_grid_is_refused(config_values: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(config_values(strategies=[]), "made in code")
    assert str(refusal.value) == "made in code: strategies: must have at least 1 value, got []"


def test_every_problem_has_a_line_of_its_own(tmp_path: Path) -> None:
    text = GOOD.replace("repeats: 3", "repeats: 0\nseed: -1").replace("low: 16", "low: 0")
    with pytest.raises(ConfigError) as refusal:
        load(write(tmp_path, text))
    assert [line.split(": ")[1] for line in str(refusal.value).splitlines()] == [
        "workload.prompts.tokens.low",
        "repeats",
        "seed",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is empty; must be a mapping of keys such as name and strategies"),
        ("- naive", "must be a mapping of keys such as name and strategies, got ['naive']"),
        ("a: &a [*a]", "1: an alias may not contain itself"),
        ("a: !!python/object:x {}", "1: a: must be a plain value, got one with the tag !!python/object:x"),
    ],
)
def test_a_file_that_is_no_config_is_refused(text: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"made\.yaml:") as refusal:
        load(write(tmp_path, text))
    assert line in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file"):
        load(tmp_path / "absent.yaml")
    (tmp_path / "made.yaml").write_bytes(b"name: \xff\xfe")
    with pytest.raises(ConfigError, match=r"made\.yaml: must be a text file in UTF-8, byte 6 is not"):
        load(tmp_path / "made.yaml")


def test_short_forms_mean_the_same_as_long_ones(tmp_path: Path) -> None:
    short = load(write(tmp_path, GOOD))
    text = GOOD.replace("model: smollm2-135m", "model: {name: smollm2-135m, dtype: auto}")
    text = text.replace("max_batch_size: 4}", "max_batch_size: [4]}").replace(
        "backends: vllm", "backends: [vllm]"
    )
    long = load(write(tmp_path, text))
    assert (long.model, long.settings) == (short.model, short.settings)
    assert long.config_hash != short.config_hash  # the identity is the config as written


def test_identity_ignores_layout_and_comments_and_nothing_else(tmp_path: Path) -> None:
    written = load(write(tmp_path, GOOD))
    again = load(write(tmp_path, "# a comment\n" + GOOD.replace("[50, 500]", "[ 50,\n    500 ]")))
    other = load(write(tmp_path, GOOD.replace("repeats: 3", "repeats: 4")))
    assert again.config_hash == written.config_hash
    assert other.config_hash != written.config_hash
    assert len(written.config_hash) == 12
    assert written.as_written["strategies"][1]["backends"] == "vllm"


def test_a_number_in_scientific_notation_is_a_number(tmp_path: Path) -> None:
    assert load(write(tmp_path, GOOD.replace("[50, 500]", "5e1"))).settings[2].knobs["max_wait_ms"] == 50.0


def test_a_model_that_is_no_preset_is_taken_as_a_hub_id(made_config: Callable[..., SweepConfig]) -> None:
    spec = made_config(model={"name": "org/smollm-135m", "trust_remote_code": True}).model_spec
    assert spec is not None
    assert (spec.name, spec.dtype, spec.trust_remote_code) == ("org/smollm-135m", "auto", True)
    assert made_config(model="gpt2").model_spec is not None


def test_a_preset_is_spelt_out_so_that_it_stays_the_same_model(
    made_config: Callable[..., SweepConfig],
) -> None:
    spec = made_config(model="tinyllama-1.1b").model_spec
    assert spec is not None
    assert spec.name == "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
    assert spec.revision is not None


def test_simulated_needs_no_model(
    made_config: Callable[..., SweepConfig], random_prompts: dict[str, Any]
) -> None:
    entry = {"strategy": "continuous", "backends": "simulated", "max_batch_size": 4}
    engine = {"simulated": {"engine": "iteration"}}
    config = made_config(model=None, strategies=[entry], backends=engine, workload=random_prompts)
    assert [setting.model for setting in config.settings] == [None]
    assert config.warnings == []


def test_what_shows_nothing_is_warned_of(
    made_config: Callable[..., SweepConfig], random_prompts: dict[str, Any]
) -> None:
    config = made_config(
        strategies=[{"strategy": "naive", "backends": "simulated", "max_batch_size": [4, 100]}],
        workload=random_prompts,
        arrival_rate=[1, 4],
        duration_s=20,
        backends={"vllm": {"max_num_seqs": 4}},
    )
    assert config.warnings == [
        "backends.vllm: no strategy runs on it",
        "model: smollm2-135m is not loaded: simulated needs no model",
        (
            "strategies[0].max_batch_size: 100 is never filled at 4 requests/s, which are 80 requests in 20 s:"
            " naive would only flush what it has"
        ),
    ]


def test_orders_that_are_fifo_and_classes_that_nobody_asks_for_are_warned_of(
    made_config: Callable[..., SweepConfig], random_prompts: dict[str, Any]
) -> None:
    def warned(workload: dict[str, Any], **knobs: Any) -> list[str]:
        entry = {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 4, "max_wait_ms": 50}
        return made_config(
            model=None, strategies=[entry | knobs], workload=random_prompts | workload, backends={}
        ).warnings

    every = ["length", "priority", "deadline"]
    equal = {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}}
    assert warned({"prompts": equal}, order=every) == [
        "strategies[0].order: length is fifo: workload.prompts has one length",
        "strategies[0].order: priority is fifo: workload.priority names no two classes",
        "strategies[0].order: deadline is fifo: workload.ttft_target_ms is left out",
    ]
    assert warned({"priority": [1, 1], "ttft_target_ms": [100, 900]}, order=every[1:]) == []
    assert warned({"priority": [1, 1], "ttft_target_ms": 100}) == [
        "workload.priority: no strategy has order: priority",
        "workload.ttft_target_ms: no strategy has order: deadline",
    ]
    late = {"order": "deadline", "on_expired": ["serve", "reject"], "max_wait_ms": [10, 100]}
    assert warned({"ttft_target_ms": 100}, **late) == [
        (
            "strategies[0].on_expired: max_wait_ms 100 outlasts workload.ttft_target_ms 100: "
            "requests are rejected by an idle engine"
        )
    ]


def test_prompts_that_cannot_be_made_are_told_before_anything_is_started(
    config_values: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    lengths = {"distribution": "fixed", "tokens": 8}
    workload = config_values()["workload"]

    def told(prompts: dict[str, str]) -> str:
        simulated = {"strategy": "naive", "backends": "simulated", "max_batch_size": 4}
        with pytest.raises(ConfigError) as error:
            parse(
                config_values(
                    strategies=[simulated], workload={**workload, "prompts": {**prompts, "tokens": lengths}}
                )
            )
        return str(error.value)

    assert told({"source": "english"}) == (
        "config: workload.prompts.source: must be random for simulated, which has no tokenizer, got 'english'"
    )
    missing = str(tmp_path / "chats.json")
    assert told({"source": "sharegpt", "path": missing}) == (
        f"config: workload.prompts.path: must be a chat file that can be read, got {missing!r}"
    )


@pytest.mark.parametrize(
    ("backends", "warned"),
    [
        ({}, []),
        ({"huggingface": {"threads": 2}, "vllm": {"threads": 2}}, []),
        ({"vllm": {"threads": 2}}, ["huggingface its default, vllm 2"]),
    ],
)
def test_engines_with_unequal_threads_are_warned_of(
    made_config: Callable[..., SweepConfig], backends: dict[str, Any], warned: list[str]
) -> None:
    assert made_config(backends=backends).warnings == [
        f"backends: unequal threads ({said}): a comparison of engines compares these too" for said in warned
    ]


def test_slots_belong_to_an_engine_that_re_forms_its_batch(
    config_values: Callable[..., dict[str, Any]],
) -> None:
    with pytest.raises(
        ConfigError, match=r"backends\.simulated\.max_num_seqs: belongs to an engine that re-forms"
    ):
        parse(config_values(backends={"simulated": {"engine": "lockstep", "max_num_seqs": 4}}))


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"kv_blocks": 11, "kv_block_tokens": 8}, r"kv_blocks: must hold 96 tokens, .*, got 11 × 8"),
        ({"max_num_batched_tokens": 7}, r"max_num_batched_tokens: must be at least max_num_seqs 8, got 7"),
    ],
)
def test_a_cache_and_a_pass_must_hold_what_runs(
    config_values: Callable[..., dict[str, Any]], engine: dict[str, int], said: str
) -> None:
    name = "huggingface-continuous"
    entry = {"strategy": "continuous", "backends": name, "max_batch_size": 8}
    with pytest.raises(ConfigError, match=rf"backends\.{name}\.{said}"):
        parse(config_values(strategies=[entry], backends={name: engine}))
    fits = {key: value + 1 for key, value in engine.items()}
    assert parse(config_values(strategies=[entry], backends={name: fits})).warnings == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_configs_that_come_with_it_load_without_warnings(path: Path) -> None:
    config = load(path)
    assert config.name == path.stem
    assert config.warnings == []
    assert {setting.strategy for setting in config.settings} == {"naive", "dynamic", "continuous"}


def test_kinds_of_gpu_multiply_the_settings_and_change_no_cell_of_a_sweep_without(
    made_config: Callable[..., SweepConfig],
) -> None:
    plain, kinds = made_config(), made_config(accelerator=["A10G", "L4"])
    assert len(kinds.settings) == 2 * len(plain.settings)
    resolved = Resolved(rates=(1.0,), durations_s=(20.0,))
    ids = [
        {cell.cell_id for cell in cells(config, resolved)} for config in (plain, kinds, kinds.on_any_gpu())
    ]
    assert not ids[0] & ids[1]
    assert ids[0] == ids[2]
    assert made_config(accelerator="L4").accelerator == ("L4",)
