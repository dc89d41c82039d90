"""From what a client and a replica saw to the rows of the store, on the client's time base."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from deployments.backends.backend import EngineStep
from deployments.client import Exchange
from deployments.replica import Progress
from deployments.service import BatchRun
from experiments.cells import Cell

Row = dict[str, Any]


def settings(cell: Cell, device: str) -> Row:
    """The columns that every row of a cell repeats (results.records.SETTINGS less the attempt)."""
    return {
        "cell_id": cell.cell_id,
        "strategy": cell.strategy,
        "setting": cell.setting,
        "max_batch_size": cell.knobs.get("max_batch_size"),
        "max_wait_ms": cell.knobs.get("max_wait_ms"),
        "timer": cell.knobs.get("timer"),
        "backend": cell.backend,
        "model": cell.model.name if cell.model else "none",
        "device": device,
        "rate": cell.rate,
        "seed": cell.seed,
        "repeat": cell.repeat,
    }


def request_row(cell_settings: Mapping[str, Any], exchange: Exchange, shift_s: float) -> Row:
    """One request. `shift_s` is taken from replica stamps: clock offset + the client's trial start."""
    request, reply = exchange.request, exchange.reply
    row: Row = {
        **cell_settings,
        "request_id": request_id(cell_settings["cell_id"], request.index),
        "index": request.index,
        "status": "failed",
        "error": exchange.error,
        "cause": exchange.cause,
        "prompt_tokens": len(request.prompt_ids),
        "target_output_tokens": request.output_tokens,
        "output_tokens": 0,
        "priority": request.priority,
        "ttft_target_s": request.ttft_target_s,
        "planned_s": request.planned_s,
        "sent_s": exchange.sent_s,
        "received_s": exchange.received_s,
    }
    if reply is None:
        return row
    output = reply.output
    stamps = [stamp - shift_s for stamp in output.token_s]
    return row | {
        "status": output.status,
        "error": output.error,
        "cause": output.cause,
        "output_tokens": len(output.output_ids),
        "arrived_s": reply.arrived_s - shift_s,
        "scheduled_s": _shifted(output.scheduled_s, shift_s),
        "first_token_s": stamps[0] if stamps else None,
        "last_token_s": stamps[-1] if stamps else None,
        "returned_s": _shifted(output.returned_s, shift_s),
        "batch_id": reply.batch_id,
        "preemptions": output.preemptions,
        "token_s": stamps or None,
        "output_hash": _hash(output.output_ids) if output.output_ids else None,
    }


def batch_rows(
    cell_settings: Mapping[str, Any], runs: Sequence[BatchRun], shift_s: float, *, lockstep: bool
) -> Iterator[Row]:
    """One row per launch; waste only where a batch is padded and runs to its longest row."""
    for run in runs:
        batch = run.batch
        prompts = [request.prompt_tokens for request in batch.requests]
        yield {
            **cell_settings,
            "kind": "batch",
            "batch_id": batch.batch_id,
            "size": len(prompts),
            "trigger": batch.trigger,
            "cap": batch.cap,
            "longest_prompt_tokens": max(prompts),
            "prompt_tokens": sum(prompts),
            "longest_output_tokens": max(run.outputs),
            "output_tokens": sum(run.outputs),
            "padding_waste": _waste(prompts) if lockstep else None,
            "lockstep_waste": _waste(run.outputs) if lockstep else None,
            "waiting": batch.waiting_left,
            "launched_s": batch.launched_s - shift_s,
            "ended_s": run.ended_s - shift_s,
            "out_of_memory": run.out_of_memory,
        }


def step_rows(cell_settings: Mapping[str, Any], steps: Sequence[EngineStep], shift_s: float) -> Iterator[Row]:
    """One row per engine step."""
    for index, step in enumerate(steps):
        yield {
            **cell_settings,
            "kind": "step",
            "batch_id": index,
            "size": step.running,
            "prompt_tokens": step.prefill_tokens,
            "output_tokens": step.tokens,
            "waiting": step.waiting,
            "ended_s": step.end_s - shift_s,
            "kv_use": step.kv_use,
            "preemptions": step.preemptions,
        }


def sample_row(
    cell_settings: Mapping[str, Any],
    progress: Progress,
    shift_s: float,
    *,
    sent: int,
    ended: int,
    client_cpu_s: float,
) -> Row:
    """How the trial stood at one moment, on the replica's side and on the client's."""
    return {
        **cell_settings,
        "at_s": progress.at_s - shift_s,
        "sent": sent,
        "ended": ended,
        "waiting": progress.waiting,
        "running": progress.running,
        "tokens": progress.tokens,
        "kv_use": progress.kv_use,
        "device_bytes": progress.device_bytes,
        "device_utilisation": progress.device_utilisation,
        "replica_cpu_s": progress.cpu_s,
        "client_cpu_s": client_cpu_s,
    }


def request_id(cell_id: str, index: int) -> str:
    """The same in every attempt; its twin in another strategy has the same index."""
    return f"{cell_id}-{index}"


def _waste(lengths: Sequence[int]) -> float | None:
    """1 − Σ ÷ (B · max): the share of a padded block that is not real; None if there is no block."""
    if not max(lengths):
        return None
    return 1 - sum(lengths) / (len(lengths) * max(lengths))


def _shifted(stamp_s: float | None, shift_s: float) -> float | None:
    return None if stamp_s is None else stamp_s - shift_s


def _hash(ids: Sequence[int]) -> str:
    return hashlib.sha256(np.asarray(ids, dtype="<i8").tobytes()).hexdigest()[:16]
