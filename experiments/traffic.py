"""The requests of a cell, from its model's tokenizer and the workload's seed."""

from functools import lru_cache

from deployments.models import ModelSpec, encoder
from experiments.cells import Cell
from experiments.trial import Traffic
from workloads.prompts import Encode
from workloads.workload import generate, warmup


def traffic(cell: Cell) -> Traffic:
    """Generate the measured requests and the warm-up of a cell. The same for all strategies of one rate.

    ModelError if the model's tokenizer cannot be read, WorkloadError if prompts cannot be made from it.
    """
    encode, vocabulary = _tokenizer(cell.model) if cell.model else (None, int(cell.engine["vocabulary"]))
    common = {"seed": cell.seed, "repeat": cell.repeat, "vocabulary": vocabulary, "encode": encode}
    return Traffic(
        requests=generate(cell.workload, rate=cell.rate, duration_s=cell.duration_s, **common),
        warmup=warmup(cell.workload, cell.warmup_requests, **common),
    )


@lru_cache(maxsize=4)
def _tokenizer(model: ModelSpec) -> tuple[Encode | None, int]:
    return encoder(model)
