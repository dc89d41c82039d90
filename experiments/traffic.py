"""The requests of a cell, from its model's tokenizer and the workload's seed."""

from functools import lru_cache, partial

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
    make = partial(generate, vocabulary=vocabulary, encode=encode, seed=cell.seed, repeat=cell.repeat)
    warm = partial(warmup, vocabulary=vocabulary, encode=encode, seed=cell.seed, repeat=cell.repeat)
    return Traffic(
        requests=make(cell.workload, rate=cell.rate, duration_s=cell.duration_s),
        warmup=warm(cell.workload, cell.warmup_requests),
    )


@lru_cache(maxsize=4)
def _tokenizer(model: ModelSpec) -> tuple[Encode | None, int]:
    return encoder(model)
