"""GPUs by data sheet: the KV room of MEASUREMENT.md, rooflines, and models that do not fit."""

from dataclasses import replace

import pytest

from deployments.errors import ModelError
from deployments.models import ModelSpec
from deployments.virtual.hardware import HARDWARE, bandwidth_of, spelt
from deployments.virtual.model_shape import model_shape

LLAMA_3_8B = model_shape(ModelSpec(name="meta-llama/Meta-Llama-3-8B"))


def test_the_cache_of_an_80_gb_gpu_holds_214_chats():
    eight_billion = replace(LLAMA_3_8B, parameters=8_000_000_000)
    tokens = HARDWARE["h100"].kv_tokens(eight_billion, 0.92)
    assert eight_billion.weight_bytes == 16e9
    assert tokens == 439_453
    assert tokens // 2_048 == 214


def test_a_model_that_does_not_fit_is_one_line():
    thirteen = model_shape(ModelSpec(name="llama-2-13b"))
    with pytest.raises(ModelError) as refused:
        HARDWARE["rtx-4090"].kv_tokens(thirteen)
    assert str(refused.value) == (
        "meta-llama/Llama-2-13b-hf does not fit NVIDIA GeForce RTX 4090 24 GB (PCIe): its weights take 26 GB, "
        "and there are 23.2 GB of memory for it"
    )


@pytest.mark.parametrize("name", HARDWARE)
def test_one_sequence_is_bound_by_memory_and_a_long_prompt_by_compute(name):
    gpu = HARDWARE[name]
    roofline = gpu.roofline(LLAMA_3_8B)
    assert roofline.step_s(1) == LLAMA_3_8B.weight_bytes / gpu.bandwidth_bytes_per_s
    assert roofline.step_s(0, prefill_tokens=8_192) == pytest.approx(
        2 * LLAMA_3_8B.parameters * 8_192 / gpu.flop_per_s
    )


def test_where_a_decode_batch_turns_to_compute_is_flop_per_byte():
    """Without context a pass of bfloat16 weights is bound by compute from FLOP/s ÷ bandwidth sequences on."""
    a100 = HARDWARE["a100-80"]
    roofline = a100.roofline(LLAMA_3_8B)
    turn = a100.flop_per_s / a100.bandwidth_bytes_per_s
    assert roofline.step_s(int(turn)) == roofline.step_s(1)
    assert roofline.step_s(int(turn) + 1) > roofline.step_s(1)


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("H200", "h200"),
        ("RTX 4090", "rtx-4090"),
        ("rtx3090", "rtx-3090"),
        ("A100_80", "a100-80"),
        ("h20", "h20"),
    ],
)
def test_names_are_read_as_people_write_them(written, key):
    assert spelt(written) == key


def test_every_gpu_says_where_its_numbers_are_from():
    assert all("NVIDIA" in gpu.source for gpu in HARDWARE.values())


def test_a_gpu_is_known_by_the_name_that_its_driver_gives_and_a_part_of_it_is_not():
    assert bandwidth_of("NVIDIA H200") == 4.8e12
    assert bandwidth_of("NVIDIA A100-SXM4-40GB") == bandwidth_of("NVIDIA A100-PCIE-40GB") == 1_555e9
    for other in ("cpu", "NVIDIA H100 PCIe", "NVIDIA H200 MIG 1g.18gb", "NVIDIA GeForce RTX 3090 Ti", ""):
        assert bandwidth_of(other) is None
    names = [name for gpu in HARDWARE.values() for name in gpu.driver_names]
    assert len(names) == len(set(names))
    assert all(gpu.driver_names for gpu in HARDWARE.values())
