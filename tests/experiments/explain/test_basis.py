"""On what step times theory rests, and what is refused."""

import pytest

from deployments.errors import ModelError
from deployments.virtual.step_model import Linear, Roofline
from experiments.errors import ConfigError
from experiments.explain.basis import bases, measured, named

SIMULATED = {
    "strategies": [{"strategy": "naive", "backends": "simulated", "max_batch_size": 4}],
    "model": ...,
}
MEASURED = {
    "name": "earlier",
    "measured": {
        "warm_lane": "a key",
        "vllm": {"step_times": {"fixed_s": 0.05, "per_sequence_s": 0.001, "prefill_s_per_token": 1e-4}},
    },
}


def test_data_sheets_hold_for_every_backend(made_config):
    found = bases(made_config(), hardware="H200")
    assert set(found) == {"huggingface", "vllm"}
    assert {basis.kind for basis in found.values()} == {"data sheet"}
    assert isinstance(found["vllm"].model, Roofline)
    assert "roofline of NVIDIA H200 141 GB (SXM5): 4,800 GB/s, 989 TFLOP/s" in found["vllm"].text
    assert "23,040 bytes of KV cache a token" in found["vllm"].text


def test_a_sweep_says_what_it_measured_and_defaults_fill_the_rest(made_config):
    found = bases(made_config(), sweep=MEASURED)
    assert found["vllm"].model == Linear(fixed_s=0.05, per_sequence_s=0.001, per_prefill_token_s=1e-4)
    assert found["vllm"].text == "measured by the sweep earlier: 50 + 1·B ms a step, 100 µs a prompt token"
    assert (found["huggingface"].kind, found["huggingface"].model) == ("default", Linear())
    assert found["huggingface"].text.startswith("no measurement")


def test_the_simulated_engine_is_what_the_config_says(made_config, random_prompts):
    config = made_config(
        **SIMULATED, workload=random_prompts, backends={"simulated": {"fixed_ms": 5, "per_sequence_ms": 1}}
    )
    basis = bases(config)["simulated"]
    assert basis.kind == "config"
    assert basis.model.step_s(3) == pytest.approx(0.008)


def test_an_engine_that_costs_nothing_has_no_theory(made_config, random_prompts):
    config = made_config(
        **SIMULATED, workload=random_prompts, backends={"simulated": {"fixed_ms": 0, "per_sequence_ms": 0}}
    )
    with pytest.raises(ConfigError, match=r"backends\.simulated: must let a step take time"):
        bases(config)


def test_damaged_measurements_are_left_out():
    free = {"step_times": {"fixed_s": 0, "per_sequence_s": 0, "prefill_s_per_token": 0}}
    assert measured({"measured": {"a": {}, "b": {"step_times": "fast"}, "c": free, "warm_lane": "key"}}) == {}
    assert measured({"measured": None}) == measured({}) == {}


def test_memory_is_shared_as_the_engine_says(made_config):
    config = made_config(backends={"vllm": {"gpu_memory_utilization": 0.5}})
    found = bases(config, hardware="l4")
    rooms = {setting.backend: found[setting.backend].kv_tokens(setting) for setting in config.settings}
    weights = 2 * 134_515_008
    assert rooms == {
        "vllm": int((12e9 - weights) // 23_040),
        "huggingface": int((24e9 - weights) // 23_040),
    }
    assert bases(config)["vllm"].kv_tokens(config.settings[0]) is None


def test_unknown_hardware_is_told_with_the_nearest():
    with pytest.raises(
        ConfigError, match=r"--hardware must be one of a100-40, .*, got 'h20'.*did you mean h200"
    ):
        named("H20")


def test_a_model_that_does_not_fit_is_told(made_config):
    with pytest.raises(ModelError, match="does not fit NVIDIA L4 24 GB"):
        bases(made_config(model="llama-2-13b"), hardware="l4")


def test_hardware_needs_a_model(made_config, random_prompts):
    config = made_config(**SIMULATED, workload=random_prompts)
    with pytest.raises(ConfigError, match="model: is missing, and --hardware needs one"):
        bases(config, hardware="l4")
