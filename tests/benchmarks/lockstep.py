"""What does the backend `huggingface` add to a whole lockstep batch? Ratios of one run, in one process.

    python -m tests.benchmarks.lockstep [--rounds 20]      about 12 minutes on 2 cores, most of them for SmolLM2

Bare is transformers' `generate` on the same padded batch, in the same thread, without anything of ours: greedy,
to the batch's longest output, until the ids are on the host. Through is the backend's `run`, with its stamps, the
hop into its thread and an output for each request. Each round is bare, the two cases through (in turn the one
or the other first), bare, so that a machine that slows down slows all. Output: the geometric mean of
bare ÷ through over the rounds with its 95 % t-interval of the logs; 1 would be free. The control, bare before ÷
bare after, says what the machine adds.

Mixed outputs end at the same longest row, and bare generates every row to it: a row that is done costs its slot in
both. Two models: SmolLM2, and a tiny one whose steps take a few ms on a CPU, as those of large models do on a GPU:
what is added to a step shows there most.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deployments.backends.backend import Output, Work
from deployments.backends.engine_args import HuggingFaceArgs
from deployments.backends.huggingface import HuggingFace
from deployments.models import ModelSpec
from tests.benchmarks.ratios import mean_and_interval
from tests.tiny_model import VOCABULARY, save_tiny_model

ROUNDS, BATCH, PROMPT_TOKENS, LONGEST = 20, 8, 32, 64
OUTPUTS: dict[str, Sequence[int]] = {
    "equal outputs": (LONGEST,) * BATCH,
    "mixed outputs": (1, 4, 8, 16, 24, 32, 48, LONGEST),
}


def batch(outputs: Sequence[int]) -> list[Work]:
    """Equal prompts, the same in every batch: bare and through do the same forward passes."""
    prompts = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, PROMPT_TOKENS)).tolist()
    return [
        Work(request_id=f"row-{row}", prompt_ids=prompt, output_tokens=tokens)
        for row, (prompt, tokens) in enumerate(zip(prompts, outputs, strict=True))
    ]


class Lockstep:
    """One loaded backend, and bare generate on its model in its thread."""

    def __init__(self, backend: HuggingFace) -> None:
        self._backend = backend

    async def bare(self) -> float:
        """Seconds for the batch by `generate` alone."""
        return await asyncio.get_running_loop().run_in_executor(self._backend._worker, self._generate)

    async def through(self, outputs: Sequence[int]) -> float:
        """Seconds for the batch by `run`, until every output is delivered."""
        works, delivered = batch(outputs), list[Output]()
        begun_s = time.monotonic()
        await self._backend.run(works, delivered.append)
        took_s = time.monotonic() - begun_s
        assert [len(output.output_ids) for output in delivered] == list(outputs)
        return took_s

    async def round(self, cases: Sequence[str]) -> dict[str, float]:
        """Logarithms of seconds: "before", each case, "after"."""
        took_s = {"before": await self.bare()}
        for case in cases:
            took_s[case] = await self.through(OUTPUTS[case])
        took_s["after"] = await self.bare()
        return {what: float(np.log(seconds)) for what, seconds in took_s.items()}

    def _generate(self) -> float:
        import torch

        assert self._backend._engine is not None
        loaded = self._backend._engine.loaded
        works = batch(OUTPUTS["equal outputs"])
        begun_s = time.monotonic()
        with torch.inference_mode():
            ids = torch.tensor([work.prompt_ids for work in works]).to(loaded.device)
            mask = torch.ones_like(ids)
            generated: Any = loaded.model.generate(ids, attention_mask=mask, max_new_tokens=LONGEST)
            rows = generated.tolist()
        took_s = time.monotonic() - begun_s
        assert {len(row) for row in rows} == {PROMPT_TOKENS + LONGEST}
        return took_s


async def ratios(model: ModelSpec, label: str, rounds: int) -> list[str]:
    """A line for each case."""
    backend = HuggingFace(model, HuggingFaceArgs())
    await backend.start()
    lockstep, cases = Lockstep(backend), list(OUTPUTS)
    await lockstep.round(cases)  # warms up
    logs = [await lockstep.round(cases[:: -1 if number % 2 else 1]) for number in range(rounds)]
    await backend.close()
    before, after = (np.array([row[when] for row in logs]) for when in ("before", "after"))
    step_ms = 1e3 * np.exp(np.median((before + after) / 2)) / LONGEST
    lines = []
    for case in cases:
        through = np.array([row[case] for row in logs])
        lines.append(
            f"{label:13} {case}  bare ÷ through {mean_and_interval((before + after) / 2 - through)}"
            f"  control {mean_and_interval(before - after)}  ({step_ms:.1f} ms a step)"
        )
    return lines


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="batchyard-bench-") as folder:
        tiny = ModelSpec(name=str(save_tiny_model(Path(folder))), dtype="float32")
        for model, label in ((tiny, "tiny"), (ModelSpec(name="smollm2-135m"), "smollm2-135m")):
            print(*asyncio.run(ratios(model, label, rounds)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
