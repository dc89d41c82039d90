"""A run as tables of the store (results.records), made column by column.

Token times are `token_steps` of a request and rows of kind `step`; a step row stands for a run of steps.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deployments.virtual.batch_log import TRIGGERS
from deployments.virtual.iteration import Iteration
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.outcomes import STATUSES
from deployments.virtual.run import Floats, Ints, Run
from results.records import BATCHES, REQUESTS, SETTINGS
from results.token_steps import Steps, TokenRuns

ROWS = 131_072  # of one table


def request_tables(run: Run, settings: Mapping[str, Any], rows: int = ROWS) -> Iterator[pa.Table]:
    """Request rows (schema REQUESTS), at most so many a table; `settings`: the columns SETTINGS.

    The client is never late and its clock is the engine's: sent and arrived are as planned.
    """
    for start in range(0, len(run.requests), rows):
        yield _request_table(run, settings, slice(start, min(start + rows, len(run.requests))))


def batch_tables(run: Run, settings: Mapping[str, Any], rows: int = ROWS) -> Iterator[pa.Table]:
    """Rows of kind batch, and then of kind step (schema BATCHES), at most so many a table."""
    for columns, count in ((_batches(run), len(run.launches)), (_steps(run), len(run.runs))):
        for start in range(0, count, rows):
            some = slice(start, min(start + rows, count))
            cut = {name: values[some] for name, values in columns.items() if values is not None}
            yield _table(BATCHES, settings, cut, some.stop - some.start)


def steps_of(run: Run) -> Steps:
    """The steps, for what results.token_steps computes of them."""
    count = run.runs["steps"].astype(np.int64)
    return Steps(
        first=np.cumsum(count) - count, count=count, start_s=run.runs["start_s"], end_s=run.runs["end_s"]
    )


def token_runs_of(run: Run) -> TokenRuns:
    """Which steps made the tokens of each request, likewise."""
    return TokenRuns.of(*_token_steps(run, slice(0, len(run.requests))))


def _request_table(run: Run, settings: Mapping[str, Any], some: slice) -> pa.Table:
    index = np.arange(some.start, some.stop)
    planned = run.requests.planned_s[some]
    returned = _floats(run.returned_s[some])
    counts, flat = _token_steps(run, some)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    columns = {
        "request_id": pc.binary_join_element_wise(
            pa.scalar(settings["cell_id"]), pa.array(index).cast(pa.string()), "-"
        ),
        "index": index,
        "status": _words(STATUSES, run.status[some]),
        "error": _sparse({key: text for key, (_, text) in run.errors.items()}, some),
        "cause": _sparse({key: cause for key, (cause, _) in run.errors.items()}, some),
        "prompt_tokens": run.requests.prompt_tokens[some],
        "target_output_tokens": run.requests.output_tokens[some],
        "output_tokens": run.output_tokens[some],
        "priority": _same(0, len(index)) if run.requests.priority is None else run.requests.priority[some],
        "ttft_target_s": _targets(run, some),
        "planned_s": planned,
        "sent_s": planned,
        "arrived_s": planned,
        "scheduled_s": _floats(run.scheduled_s[some]),
        "first_token_s": _floats(run.first_token_s[some]),
        "last_token_s": _floats(run.last_token_s[some]),
        "returned_s": returned,
        "received_s": returned,
        "batch_id": pa.array(run.batch_id[some], mask=run.batch_id[some] < 0),
        "preemptions": run.preemptions[some] if run.settings.joinable else None,
        "token_steps": pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(flat, pa.int32()), mask=pa.array(counts == 0)
        ),
    }
    return _table(REQUESTS, settings, columns, len(index))


def _targets(run: Run, some: slice) -> pa.Array | None:
    """Null where there is none."""
    targets_s = run.requests.ttft_target_s
    return None if targets_s is None else pa.array(targets_s[some], mask=np.isinf(targets_s[some]))


def _token_steps(run: Run, some: slice) -> tuple[Ints, Ints]:
    """How long each request's list is (two a run, 0 without a token), and all lists in one."""
    first, last = run.first_step[some], run.last_step[some]
    counts = np.where(first >= 0, 2, 0)
    silences = run.silences[slice(*np.searchsorted(run.silences["index"], [some.start, some.stop]))]
    owner = silences["index"] - some.start
    np.add.at(counts, owner, 2)
    ends = np.cumsum(counts)
    flat = np.empty(ends[-1] if len(ends) else 0, dtype=np.int64)
    made = counts > 0
    flat[(ends - counts)[made]] = first[made]
    flat[ends[made] - 1] = last[made]
    place = (ends - counts)[owner] + 1 + 2 * (np.arange(len(owner)) - np.searchsorted(owner, owner))
    flat[place], flat[place + 1] = silences["from_step"] - 1, silences["to_step"]
    return counts, flat


def _batches(run: Run) -> dict[str, Any]:
    """Of every launch; what it held is summed over its requests."""
    launches, count, launched = run.launches, len(run.launches), run.batch_id >= 0
    batch = run.batch_id[launched]
    prompts, outputs = run.requests.prompt_tokens[launched], run.output_tokens[launched]
    longest_prompt, longest_output = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.maximum.at(longest_prompt, batch, prompts)
    np.maximum.at(longest_output, batch, outputs)
    ended_s = np.full(count, -np.inf)
    np.maximum.at(ended_s, batch, run.returned_s[launched])
    prompt_tokens = np.bincount(batch, prompts, count).astype(np.int64)
    output_tokens = np.bincount(batch, outputs, count).astype(np.int64)
    lockstep = isinstance(run.settings, Lockstep)
    return {
        "kind": _same("batch", count),
        "batch_id": np.arange(count),
        "size": launches["size"],
        "trigger": _words(TRIGGERS, launches["trigger"]),
        "cap": launches["cap"],
        "longest_prompt_tokens": longest_prompt,
        "prompt_tokens": prompt_tokens,
        "longest_output_tokens": longest_output,
        "output_tokens": output_tokens,
        "padding_waste": _waste(prompt_tokens, launches["size"] * longest_prompt, lockstep),
        "lockstep_waste": _waste(output_tokens, launches["size"] * longest_output, lockstep),
        "waiting": launches["waiting"],
        "launched_s": launches["launched_s"],
        "ended_s": ended_s,
        "out_of_memory": _same(False, count),
    }


def _steps(run: Run) -> dict[str, Any]:
    """Of every run of steps."""
    runs, steps = run.runs, steps_of(run)
    edges = np.append(steps.first, run.passes)
    columns: dict[str, Any] = {
        "kind": _same("step", len(runs)),
        "batch_id": steps.first,
        "steps": steps.count,
        "size": runs["resident"],
        "prompt_tokens": runs["prefill_tokens"],
        "output_tokens": np.diff(token_runs_of(run).tokens_before(edges)),
        "waiting": runs["waiting"],
        "started_s": steps.start_s,
        "ended_s": steps.end_s,
    }
    if isinstance(run.settings, Iteration):
        columns["preemptions"] = runs["preemptions"]
        if run.settings.kv is not None:
            columns["kv_use"] = runs["blocks"] / run.settings.kv.blocks
    return columns


def _table(
    schema: pa.Schema, settings: Mapping[str, Any], columns: Mapping[str, Any], count: int
) -> pa.Table:
    """In the schema's order and types; null where there is no column."""
    shared = {field.name for field in SETTINGS}
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            value = settings.get(field.name) if field.name in shared else None
            arrays.append(_same(value, count, field.type))
        elif isinstance(values, pa.Array | pa.ChunkedArray):
            arrays.append(values.cast(field.type))
        else:
            arrays.append(pa.array(np.ascontiguousarray(values)).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _same(value: Any, count: int, kind: pa.DataType | None = None) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def _floats(values: Floats) -> pa.Array:
    return pa.array(values, from_pandas=True)


def _words(words: tuple[str, ...], codes: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(np.asarray(codes, dtype=np.int8)), pa.array(words)
    ).dictionary_decode()


def _sparse(texts: Mapping[int, str | None], some: slice) -> pa.Array:
    """Null but for a few."""
    place = np.zeros(some.stop - some.start, dtype=np.int64)
    inside = [index for index in texts if some.start <= index < some.stop]
    place[[index - some.start for index in inside]] = np.arange(1, len(inside) + 1)
    return pa.array([None, *(texts[index] for index in inside)], pa.string()).take(pa.array(place))


def _waste(useful: Ints, block: Ints, applies: bool) -> pa.Array | None:
    """1 − Σ ÷ (B · max); null where there is no block."""
    if not applies:
        return None
    share = 1 - useful / np.maximum(block, 1)
    return pa.array(share, mask=block == 0)
