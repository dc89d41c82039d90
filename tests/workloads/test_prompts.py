import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from workloads import prompts
from workloads.errors import WorkloadError
from workloads.prompts import PASSAGES, PromptSource

VOCABULARY = 256
TURNS = ["Why is the sky blue?", "And at dusk?", "Name three rivers.", "Thanks!"]
SOURCES = ["english", "random", "sharegpt"]


def encode(text: str) -> list[int]:
    return list(text.encode())


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., PromptSource]:
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([{"conversations": [{"from": "human", "value": turn} for turn in TURNS]}]))

    def source(name: str, seed: int = 0) -> PromptSource:
        rng = np.random.default_rng(seed)
        if name == "random":
            return prompts.random_ids(VOCABULARY, rng)
        if name == "english":
            return prompts.english(encode, VOCABULARY, rng)
        return prompts.sharegpt(str(path), encode, VOCABULARY, rng)

    return source


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("tokens", [1, 2, 64, 511, 30_000, 140_000])
def test_prompts_have_exactly_the_length_asked_for(
    make: Callable[..., PromptSource], name: str, tokens: int
) -> None:
    source = make(name)
    for position in (0, 1, 9_999, -1):
        ids = source.prompt(position, tokens)
        assert len(ids) == tokens
        assert 0 <= min(ids) <= max(ids) < VOCABULARY


@pytest.mark.parametrize("name", SOURCES)
def test_a_prompt_depends_on_seed_and_position_alone(make: Callable[..., PromptSource], name: str) -> None:
    one, other = make(name), make(name)
    first = [one.prompt(i, 50) for i in range(4)]
    assert [other.prompt(i, 50) for i in reversed(range(4))] == first[::-1]
    assert [make(name, seed=1).prompt(i, 50) for i in range(4)] != first


@pytest.mark.parametrize("name", SOURCES)
def test_a_longer_prompt_continues_the_shorter(make: Callable[..., PromptSource], name: str) -> None:
    source = make(name)
    assert source.prompt(3, 200)[:40] == source.prompt(3, 40)


@pytest.mark.parametrize("name", ["english", "random"])
def test_thousands_of_prompts_all_differ(make: Callable[..., PromptSource], name: str) -> None:
    source = make(name)
    assert len({source.prompt(position, 64) for position in range(-20, 3000)}) == 3020


def test_english_prompts_are_text_of_the_passages(make: Callable[..., PromptSource]) -> None:
    ring = PASSAGES.read_text(encoding="utf-8").strip() + "\n\n"
    prompt = make("english").prompt(5, 300)
    assert bytes(prompt) in (ring * 2).encode()


def test_chat_prompts_begin_with_a_turn_and_go_on_with_the_next(make: Callable[..., PromptSource]) -> None:
    source = make("sharegpt")
    begun = set()
    for position in range(len(TURNS)):
        text = bytes(source.prompt(position, 60)).decode()
        start = next(i for i, turn in enumerate(TURNS) if text.startswith(turn))
        after = "\n\n".join([*TURNS[start:], *TURNS, *TURNS])
        assert after.startswith(text)
        begun.add(start)
    assert begun == set(range(len(TURNS)))


def test_each_text_is_encoded_once(tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([{"conversations": [{"from": "human", "value": turn} for turn in TURNS]}]))
    seen: list[str] = []

    def counting(text: str) -> list[int]:
        seen.append(text)
        return encode(text)

    source = prompts.sharegpt(str(path), counting, VOCABULARY, np.random.default_rng(0))
    assert seen == []
    for position in range(20):
        source.prompt(position, 500)
    assert sorted(seen) == sorted(turn + "\n\n" for turn in TURNS)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([3, 256], "the tokenizer's ids must be in 0..255, got 256"),
        ([-1], "the tokenizer's ids must be in 0..255, got -1"),
        ([], "the tokenizer must give at least 1 id for a text, got none for"),
    ],
)
@pytest.mark.parametrize("name", ["english", "sharegpt"])
def test_a_tokenizer_that_is_not_the_models_is_refused(
    tmp_path: Path, name: str, ids: list[int], message: str
) -> None:
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([{"conversations": [{"from": "human", "value": "Hello"}]}]))
    rng = np.random.default_rng(0)
    make: dict[str, Callable[[], PromptSource]] = {
        "english": lambda: prompts.english(lambda _: ids, VOCABULARY, rng),
        "sharegpt": lambda: prompts.sharegpt(str(path), lambda _: ids, VOCABULARY, rng),
    }
    with pytest.raises(WorkloadError) as caught:
        make[name]().prompt(0, 5)
    assert str(caught.value).startswith(message)
