"""The engine's steps, packed: one entry for a run of decode steps that nothing interrupted.

The steps of a run differ only in their context, which grows by one token a sequence and step. 60 bytes an
entry, about three entries a request, whatever the number of tokens.
"""

import struct

import numpy as np
import numpy.typing as npt

RUN = np.dtype(
    [
        ("start_s", "<f8"),
        ("end_s", "<f8"),
        ("context_tokens", "<i8"),  # read by the decoding sequences in the first of the steps
        ("steps", "<i4"),
        ("sequences", "<i4"),  # that compute something, prefilling ones too
        ("decoding", "<i4"),  # of these, with one output token in each step
        ("first_tokens", "<i4"),  # output tokens of prompts that the last of the steps completed
        ("prefill_tokens", "<i4"),
        ("waiting", "<i4"),  # in the engine's own queue, at the start
        ("blocks", "<i4"),  # of the KV cache, in use at the end
        ("preemptions", "<i4"),  # at the start
        ("resident", "<i4"),  # sequences that hold a slot
    ]
)
PACK = struct.Struct("<ddqiiiiiiiii").pack


class StepLog:
    """Appends runs; `runs()` is the whole as a structured array (dtype RUN) without a copy."""

    def __init__(self) -> None:
        self.packed = bytearray()  # entries made by PACK, in the order of RUN

    def add(
        self,
        start_s: float,
        end_s: float,
        context_tokens: int,
        steps: int,
        sequences: int,
        decoding: int,
        first_tokens: int,
        prefill_tokens: int,
        waiting: int,
        blocks: int,
        preemptions: int,
        resident: int,
    ) -> None:
        """Append one run. An engine with many packs them itself."""
        self.packed += PACK(
            start_s,
            end_s,
            context_tokens,
            steps,
            sequences,
            decoding,
            first_tokens,
            prefill_tokens,
            waiting,
            blocks,
            preemptions,
            resident,
        )

    def runs(self) -> npt.NDArray[np.void]:
        """Everything, in order of time; nothing can be added afterwards."""
        return np.frombuffer(self.packed, dtype=RUN)
