"""One suite for every backend: what the protocol promises, on the real engine where there is one.

A backend joins with one entry in CASES. Engines are loaded once per session and shared, in the session's
event loop, because some take half a minute to load; only the tests of `close` load one for themselves.
"""

import asyncio
import os
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deployments.backends.backend import Backend, Output, Work
from deployments.backends.registry import BACKENDS, create
from deployments.errors import EngineDead, ModelError
from deployments.models import ModelSpec

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass(frozen=True, slots=True)
class Case:
    backend: str
    args: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[pytest.MarkDecorator, ...] = ()

    @property
    def needs_model(self) -> bool:
        return BACKENDS[self.backend].needs_model

    def create(self, folder: Path | None) -> Backend:
        spec = ModelSpec(name=str(folder), dtype="float32") if folder else None
        return create(self.backend, spec, self.args)


VLLM_WARNS = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # on its import
SHORT_STEPS = {"fixed_ms": 0.2, "per_sequence_ms": 0.01, "per_1000_prefill_tokens_ms": 1.0, "vocabulary": 512}
CASES = {
    "simulated-lockstep": Case("simulated", {"engine": "lockstep", **SHORT_STEPS}),
    "simulated-iteration": Case("simulated", {"engine": "iteration", "max_num_seqs": 4, **SHORT_STEPS}),
    "huggingface": Case("huggingface", {"threads": 1}, (pytest.mark.model,)),
    "huggingface-continuous": Case(
        "huggingface-continuous", {"threads": 1, "max_num_seqs": 8}, (pytest.mark.model,)
    ),
    "vllm": Case("vllm", {"threads": 1, "max_num_seqs": 4}, (pytest.mark.vllm, VLLM_WARNS)),
}
EVERY_CASE = [pytest.param(case, id=name, marks=case.marks) for name, case in CASES.items()]
WITH_MODEL = [
    pytest.param(case, id=name, marks=case.marks) for name, case in CASES.items() if case.needs_model
]


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=EVERY_CASE)
async def backend(
    request: pytest.FixtureRequest, shared_vllm: Callable[[Path], Awaitable[Backend]]
) -> AsyncIterator[Backend]:
    case: Case = request.param
    if case.backend == "vllm":
        yield await shared_vllm(request.getfixturevalue("tiny_model"))
        return
    started = case.create(request.getfixturevalue("tiny_model") if case.needs_model else None)
    await started.start()
    yield started
    await started.close()


@pytest.fixture(scope="session")
def greedy(tiny_model: Path) -> Callable[[Work], tuple[int, ...]]:
    """The reference: the likeliest token again and again, without cache, padding, batch or `generate`."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)

    @torch.inference_mode()
    def decode(work: Work) -> tuple[int, ...]:
        ids = list(work.prompt_ids)
        for _ in range(work.output_tokens):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        return tuple(ids[len(work.prompt_ids) :])

    return decode


def make(request_id: str, prompt_tokens: int, output_tokens: int) -> Work:
    rng = random.Random(request_id)
    prompt_ids = [rng.randrange(512) for _ in range(prompt_tokens)]
    return Work(request_id=request_id, prompt_ids=prompt_ids, output_tokens=output_tokens)


def mixed() -> list[Work]:
    lengths = [(7, 5), (30, 1), (1, 24), (12, 12), (64, 3), (3, 9)]
    return [make(f"mixed-{index}", *pair) for index, pair in enumerate(lengths)]


async def outputs(backend: Backend, batch: Sequence[Work]) -> dict[str, Output]:
    """Run the batch; exactly one output per request must come, before `run` returns."""
    delivered: list[Output] = []
    await backend.run(batch, delivered.append)
    assert sorted(o.request_id for o in delivered) == sorted(w.request_id for w in batch)
    return {output.request_id: output for output in delivered}


async def test_every_request_gets_exactly_its_tokens(backend: Backend) -> None:
    batch = mixed()
    ended = await outputs(backend, batch)
    for work in batch:
        output = ended[work.request_id]
        assert (output.status, output.error, output.cause) == ("finished", None, None)
        assert len(output.output_ids) == len(output.token_s) == work.output_tokens
        assert all(0 <= token < backend.limits.vocabulary for token in output.output_ids)


async def test_stamps_never_decrease_and_lie_between_schedule_and_return(backend: Backend) -> None:
    loop = asyncio.get_running_loop()  # its clock is time.monotonic, as the protocol demands
    before_s = loop.time()
    ended = await outputs(backend, mixed())
    after_s = loop.time()
    for output in ended.values():
        assert output.scheduled_s is not None
        assert output.returned_s is not None
        in_order = [before_s, output.scheduled_s, *output.token_s, output.returned_s, after_s]
        assert in_order == sorted(in_order)
        assert len(set(output.token_s)) == len(output.token_s), "each step has its own stamp"


async def test_a_lockstep_batch_returns_as_one_and_others_as_they_end(backend: Backend) -> None:
    ended = await outputs(backend, [make("brief", 5, 2), make("lengthy", 5, 60)])
    brief, lengthy = ended["brief"], ended["lengthy"]
    assert brief.returned_s is not None
    if backend.joinable:
        assert brief.returned_s < lengthy.token_s[-1]
    else:
        assert brief.returned_s == lengthy.returned_s
        assert brief.scheduled_s == lengthy.scheduled_s
        assert brief.token_s == lengthy.token_s[:2]


async def test_tokens_are_the_same_alone_and_in_any_batch(backend: Backend) -> None:
    batch = mixed()
    together = await outputs(backend, batch)
    reversed_half = await outputs(backend, batch[:3][::-1])
    for work in batch:
        alone = await outputs(backend, [work])
        assert alone[work.request_id].output_ids == together[work.request_id].output_ids
    for request_id, output in reversed_half.items():
        assert output.output_ids == together[request_id].output_ids
    assert len({output.output_ids for output in together.values()}) == len(batch), "prompts differ"


async def test_a_model_generates_its_greedy_tokens(backend: Backend, request: pytest.FixtureRequest) -> None:
    if "simulated" in backend.setup:
        pytest.skip("its tokens are made up")
    greedy = request.getfixturevalue("greedy")
    ended = await outputs(backend, mixed())
    for work in mixed():
        assert ended[work.request_id].output_ids == greedy(work)


@pytest.mark.parametrize(
    ("prompt_ids", "output_tokens", "said"),
    [
        ([1, 10**6, 2], 3, "token ids must be in 0..511, got 1000000"),
        ([1, -1], 3, "got -1"),
        ([], 3, "at least 1 token"),
        ([1], 0, "output_tokens must be at least 1, got 0"),
        ([1], 10**6, "prompt + output must be at most"),
    ],
    ids=["id too high", "id negative", "no prompt", "no output", "too long"],
)
async def test_an_invalid_request_fails_alone(
    backend: Backend, prompt_ids: list[int], output_tokens: int, said: str
) -> None:
    wrong = Work(request_id="wrong", prompt_ids=prompt_ids, output_tokens=output_tokens)
    good = mixed()[:2]
    untouched = await outputs(backend, good)
    ended = await outputs(backend, [good[0], wrong, good[1]])
    assert (ended["wrong"].status, ended["wrong"].cause) == ("failed", "invalid-request")
    assert said in (ended["wrong"].error or "")
    assert ended["wrong"].output_ids == ended["wrong"].token_s == ()
    for work in good:
        assert ended[work.request_id].status == "finished"
        assert ended[work.request_id].output_ids == untouched[work.request_id].output_ids
    assert (await outputs(backend, [wrong]))["wrong"].status == "failed"
    await backend.check()


async def test_the_longest_request_that_fits_is_served_whole(backend: Backend) -> None:
    context_tokens = backend.limits.context_tokens
    longest = make("longest", context_tokens - 3, 3)
    assert len((await outputs(backend, [longest]))["longest"].output_ids) == 3


async def test_abort_cuts_what_runs_and_leaves_the_backend_usable(backend: Backend) -> None:
    before = await outputs(backend, mixed())
    endless = [make(f"endless-{index}", 5, 1500) for index in range(3)]
    delivered: list[Output] = []
    open_run = asyncio.create_task(backend.run(endless, delivered.append))
    await asyncio.sleep(0)  # they are on their way in
    if backend.joinable:
        await outputs(backend, [make("signal", 5, 2)])  # behind them, so they have begun
    await backend.abort()
    assert len(delivered) == 3, "abort returns after the open runs have delivered"
    await open_run
    for output in delivered:
        assert output.status == "unfinished"
        assert len(output.token_s) == len(output.output_ids) < 1500
        assert not backend.joinable or output.token_s
    await backend.check()
    after = await outputs(backend, mixed())
    assert {key: o.output_ids for key, o in after.items()} == {key: o.output_ids for key, o in before.items()}


async def test_a_caller_that_fails_leaves_nothing_running(backend: Backend) -> None:
    """What `done` raises comes out of `run`; the rest of the batch ends with it, and holds no slot any more."""

    def fail(output: Output) -> None:
        raise ArithmeticError(output.request_id)

    before = alive()
    endless = [make(f"left-{index}", 5, 1500) for index in range(3)]
    with pytest.raises(ArithmeticError):
        await backend.run([make("told", 5, 2), *(endless if backend.joinable else [])], fail)
    backend.take_steps()
    after = await outputs(backend, [make(f"after-{index}", 5, 20) for index in range(3)])
    assert {output.status for output in after.values()} == {"finished"}
    assert max((step.running for step in backend.take_steps()[1:]), default=0) <= 3
    await backend.abort()
    await backend.check()
    assert alive() <= before


async def test_abort_of_an_idle_backend_does_nothing(backend: Backend) -> None:
    await backend.abort()
    assert (await outputs(backend, mixed()[:1]))["mixed-0"].status == "finished"


async def test_a_request_joins_while_others_run(backend: Backend) -> None:
    if not backend.joinable:
        pytest.skip("runs one batch at a time")
    long_run = asyncio.create_task(outputs(backend, [make("long", 5, 300)]))
    await asyncio.sleep(0)  # it is on its way in
    joined = (await outputs(backend, [make("joined", 5, 2)]))["joined"]
    assert not long_run.done()
    long = (await long_run)["long"]
    assert len(long.output_ids) == 300
    assert long.token_s[0] <= joined.token_s[-1] < long.token_s[-1]


async def test_steps_account_for_every_token(backend: Backend) -> None:
    if not backend.joinable:
        assert backend.take_steps() == []
        return
    backend.take_steps()
    batch = mixed()
    await outputs(backend, batch)
    steps = backend.take_steps()
    assert sum(step.tokens for step in steps) == sum(work.output_tokens for work in batch)
    assert sum(step.prefill_tokens for step in steps) == sum(len(work.prompt_ids) for work in batch)
    assert [step.end_s for step in steps] == sorted(step.end_s for step in steps)
    assert backend.take_steps() == []


async def test_memory_says_what_kind_it_is(backend: Backend) -> None:
    backend.reset_memory()
    await outputs(backend, mixed())
    memory = backend.memory()
    assert memory.kind in ("allocated", "kv-cache", "resident", "none")
    assert (memory.peak_bytes is None) == (memory.kind == "none")
    assert memory.peak_bytes is None or memory.peak_bytes > 0


async def test_setup_and_limits_say_what_was_started(
    backend: Backend, request: pytest.FixtureRequest
) -> None:
    assert backend.limits.vocabulary == 512
    if "simulated" in backend.setup:
        assert backend.setup["simulated"] is True
        return
    wanted = {"model", "source", "revision", "dtype", "device", "threads"}
    assert wanted <= backend.setup.keys()
    assert backend.setup["source"] == str(request.getfixturevalue("tiny_model"))
    assert backend.setup["dtype"] == "float32"


@pytest.mark.parametrize("case", EVERY_CASE)
async def test_a_backend_is_dead_before_start_and_after_close_and_leaves_nothing(
    case: Case, request: pytest.FixtureRequest
) -> None:
    backend = case.create(request.getfixturevalue("tiny_model") if case.needs_model else None)
    with pytest.raises(EngineDead):
        await backend.check()
    before = alive()
    await backend.start()
    await backend.check()
    delivered: list[Output] = []
    open_run = asyncio.create_task(backend.run([make("open", 5, 1500)], delivered.append))
    await asyncio.sleep(0)
    await backend.close()
    await open_run
    assert [output.status for output in delivered] == ["unfinished"]
    assert alive() <= before
    with pytest.raises(EngineDead):
        await backend.check()
    with pytest.raises(EngineDead):
        await backend.run(mixed(), delivered.append)
    await backend.close()


@pytest.mark.parametrize("case", EVERY_CASE)
async def test_a_backend_that_is_closed_while_it_loads_stays_closed_and_leaves_nothing(
    case: Case, request: pytest.FixtureRequest
) -> None:
    backend = case.create(request.getfixturevalue("tiny_model") if case.needs_model else None)
    before = alive()
    starting = asyncio.create_task(backend.start())
    for _ in range(3):  # the load has begun
        await asyncio.sleep(0)
    await backend.close()
    (ended,) = await asyncio.gather(starting, return_exceptions=True)
    assert ended is None or "it was closed while it loaded" in str(ended)
    with pytest.raises(EngineDead):
        await backend.check()
    for thread in set(threading.enumerate()) - before:
        thread.join()  # a load cannot be left halfway, but what comes of it is given back
    assert alive() <= before
    with pytest.raises(EngineDead):
        await backend.check()


@pytest.mark.parametrize("case", WITH_MODEL)
async def test_a_model_without_weights_is_a_permanent_error(case: Case, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    backend = case.create(tmp_path)
    with pytest.raises(ModelError, match="has no weights; a model is a folder with"):
        await backend.start()
    await backend.close()


@pytest.mark.parametrize("case", EVERY_CASE)
async def test_joinable_is_known_without_the_engine(case: Case, tmp_path: Path) -> None:
    args = BACKENDS[case.backend].args_type.model_validate(dict(case.args))
    assert case.create(tmp_path).joinable is args.joinable


def alive() -> set[Any]:
    """Python threads, other asyncio tasks and child processes of this process.

    The resource tracker is the interpreter's own: it starts with the first child and ends with the parent.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    children: set[int] = set()
    for listing in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        children |= {int(pid) for pid in listing.read_text().split()}
    children.discard(getattr(resource_tracker._resource_tracker, "_pid", None))
    return {*threading.enumerate(), *tasks, *children}
