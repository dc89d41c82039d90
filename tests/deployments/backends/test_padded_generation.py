"""What a padded batch costs beside its forward passes: no more of it is read on the host than `generate` reads."""

import threading
from pathlib import Path

import pytest
import torch

from deployments.backends.loaded_model import LoadedModel
from deployments.backends.padded_generation import PaddedGeneration
from deployments.models import ModelSpec
from tests.deployments.backends.host_copies import HostCopies
from tests.tiny_model import VOCABULARY

pytestmark = pytest.mark.model

EQUAL = [[5, 6, 7], [8, 9, 10], [11, 12, 13], [14, 15, 16]]
MIXED = [[5, 6, 7], [8, 9], [10, 11, 12, 13], [14]]
STEPS, ID_BYTES, FLOAT_BYTES = 20, 8, 4


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> PaddedGeneration:
    return PaddedGeneration(LoadedModel(ModelSpec(name=str(tiny_model), dtype="float32"), 1))


def read_by_us(engine: PaddedGeneration, prompts: list[list[int]]) -> list[int]:
    with HostCopies() as copies:
        generated = engine.generate(prompts, STEPS, threading.Event())
    assert len(generated.token_s) == STEPS
    return copies.bytes


def read_by_generate(engine: PaddedGeneration, prompts: list[list[int]]) -> list[int]:
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with torch.inference_mode(), HostCopies() as copies:
        engine.loaded.model.generate(ids, attention_mask=mask, max_new_tokens=STEPS)
    return copies.bytes


@pytest.mark.parametrize("prompts", [EQUAL, MIXED], ids=["equal", "mixed"])
def test_the_host_reads_flags_as_generate_does_and_all_ids_once(
    engine: PaddedGeneration, prompts: list[list[int]]
) -> None:
    *flags, ids = read_by_us(engine, prompts)
    assert flags == read_by_generate(engine, prompts)
    assert max(flags) == 1
    assert STEPS <= len(flags) < 3 * STEPS
    assert ids == len(prompts) * STEPS * ID_BYTES


def test_logits_that_the_host_reads_would_be_seen(engine: PaddedGeneration) -> None:
    hook = engine.loaded.model.lm_head.register_forward_hook(lambda _, __, logits: logits.cpu() * 1)
    try:
        read = read_by_us(engine, MIXED)
    finally:
        hook.remove()
    assert read.count(len(MIXED) * VOCABULARY * FLOAT_BYTES) == STEPS
