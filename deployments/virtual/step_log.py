"""The engine's steps: one entry for a run of decode steps that nothing interrupted.

The steps of a run differ only in their context, which grows by one token a sequence and step. About three
entries a request, whatever the number of tokens.
"""

import numpy as np

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
        ("spare", "<i4"),  # keeps entries aligned
    ]
)
