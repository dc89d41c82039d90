"""The open loop: every request leaves at its planned time or as soon as the client can, and none is lost."""

import asyncio
import time

import pytest

from deployments.backends.backend import Output, Work
from deployments.client import Client, Exchange
from deployments.service import Reply
from tests.deployments.fake_backend import WORD_DEADLINE_S
from workloads.request import Request


def planned(*times_s: float) -> list[Request]:
    return [
        Request(index=index, planned_s=planned_s, prompt_ids=(1, 2), output_tokens=3, max_new_tokens=8)
        for index, planned_s in enumerate(times_s)
    ]


def reply(work: Work, cause: str | None = None) -> Reply:
    output = Output(
        request_id=work.request_id,
        status="failed" if cause else "finished",
        cause=cause,
        error=cause and f"{cause} it is",
    )
    return Reply(output=output, arrived_s=time.monotonic(), batch_id=0)


class Server:
    """Answers at once, unless the test says what becomes of a request (by index) or holds all of them."""

    def __init__(self, **ends: str | Exception) -> None:
        self.seen: list[tuple[Work, int]] = []
        self.held = False
        self.release = asyncio.Event()
        self.ended: list[Exchange] = []
        self.client = Client(self.generate, lambda request: f"r{request.index}", self.ended.append)
        self._ends = ends

    async def generate(self, work: Work, max_new_tokens: int) -> Reply:
        self.seen.append((work, max_new_tokens))
        if self.held:
            await self.release.wait()
        end = self._ends.get(work.request_id)
        if isinstance(end, Exception):
            raise end
        return reply(work, end)

    @property
    def indices(self) -> list[int]:
        return sorted(exchange.request.index for exchange in self.ended)


async def test_each_request_is_sent_not_before_its_time_and_handed_over_once():
    server = Server()
    await server.client.send(planned(0.0, 0.0, 0.01, 0.03))
    assert await server.client.drain(WORD_DEADLINE_S)
    assert (server.indices, server.client.sent, server.client.lost) == ([0, 1, 2, 3], 4, None)
    for exchange in server.ended:
        assert exchange.request.planned_s <= exchange.sent_s <= exchange.received_s
    work, limit = server.seen[2]
    assert (work.request_id, work.prompt_ids, work.output_tokens, limit) == ("r2", (1, 2), 3, 8)


async def test_sending_does_not_wait_for_replies():
    server = Server()
    server.held = True
    await server.client.send(planned(0.0, 0.005, 0.01))
    assert (server.client.sent, server.ended) == (3, [])
    server.release.set()
    assert await server.client.drain(WORD_DEADLINE_S)
    assert server.indices == [0, 1, 2]


async def test_a_client_that_stalls_sends_all_late_and_says_how_late():
    server = Server()
    stall_s = 0.2
    asyncio.get_running_loop().call_later(0.01, time.sleep, stall_s)  # blocks the loop
    await server.client.send(planned(0.0, 0.05, 0.06, 0.07, 0.1, 0.3, 0.35, 0.4))
    assert await server.client.drain(WORD_DEADLINE_S)
    assert server.indices == list(range(8))
    sent_s = {exchange.request.index: exchange.sent_s for exchange in server.ended}
    assert all(sent_s[index] >= stall_s for index in (1, 2, 3, 4))
    later = [sent_s[5] - 0.3, sent_s[6] - 0.35, sent_s[7] - 0.4]
    assert 0 <= min(later) < sent_s[1] - 0.05  # deadlines are absolute: these are not pushed as far
    assert [work.request_id for work, _ in server.seen] == [f"r{index}" for index in range(8)]


async def test_a_late_client_lets_each_request_leave_before_it_sends_the_next():
    server = Server()
    created_when_first_left: list[int] = []

    async def generate(work: Work, max_new_tokens: int) -> Reply:
        created_when_first_left.append(client.sent)
        return reply(work)

    client = Client(generate, lambda request: f"r{request.index}", server.ended.append)
    await client.send(planned(*[0.0] * 20))
    assert await client.drain(WORD_DEADLINE_S)
    assert created_when_first_left[0] == 1


@pytest.mark.parametrize(
    ("raised", "error", "cause"),
    [
        (ConnectionError("trace\nthe replica is gone\n"), "the replica is gone", "ConnectionError"),
        (TimeoutError(), "TimeoutError", "TimeoutError"),  # it says nothing
    ],
)
async def test_a_call_that_raises_is_a_failed_request_and_ends_the_sending(
    raised: Exception, error: str, cause: str
):
    server = Server(r1=raised)
    await server.client.send(planned(0.0, 0.0, 0.02, 0.02))
    assert await server.client.drain(WORD_DEADLINE_S)
    assert server.client.lost == f"{cause}: {error}"
    assert server.indices == [0, 1]
    (failed,) = [exchange for exchange in server.ended if exchange.reply is None]
    assert (failed.request.index, failed.error, failed.cause) == (1, error, cause)
    assert failed.received_s >= failed.sent_s


@pytest.mark.parametrize(
    ("cause", "goes_on"),
    [("engine-dead", False), ("other-trial", False), ("ValueError", True), ("out-of-memory", True)],
)
async def test_only_an_answer_that_the_engine_is_gone_ends_the_sending(cause: str, goes_on: bool):
    server = Server(r0=cause)
    await server.client.send(planned(0.0, 0.02, 0.02))
    await server.client.drain(WORD_DEADLINE_S)
    assert server.indices == ([0, 1, 2] if goes_on else [0])
    assert server.client.lost == (None if goes_on else f"{cause}: {cause} it is")


async def test_draining_ends_at_its_limit_with_calls_open():
    server = Server()
    server.held = True
    await server.client.send(planned(0.0, 0.0))
    assert not await server.client.drain(0.01)
    assert not await server.client.drain(-1.0)  # the limit has passed already
    server.release.set()
    assert await server.client.drain(WORD_DEADLINE_S)
    assert server.indices == [0, 1]


async def test_draining_does_not_wait_for_what_a_lost_replica_will_never_answer():
    server = Server()

    async def generate(work: Work, max_new_tokens: int) -> Reply:
        if work.request_id == "r0":
            await server.release.wait()
            raise ConnectionError("gone")
        return await asyncio.get_running_loop().create_future()

    client = Client(generate, lambda request: f"r{request.index}", server.ended.append)
    await client.send(planned(0.0, 0.0))
    draining = asyncio.create_task(client.drain(1e6))
    server.release.set()
    async with asyncio.timeout(WORD_DEADLINE_S):
        assert not await draining
    assert client.lost == "ConnectionError: gone"
    client.cancel()
    assert server.indices == [0]


async def test_a_call_that_is_given_up_hands_over_nothing():
    server = Server()
    server.held = True
    await server.client.send(planned(0.0))
    server.client.cancel()
    assert await server.client.drain(WORD_DEADLINE_S)
    assert server.ended == []


async def test_nothing_to_send_is_drained():
    server = Server()
    await server.client.send([])
    assert await server.client.drain(0.0)
