import json
from pathlib import Path

import pytest

from workloads.errors import WorkloadError
from workloads.sharegpt import read_user_turns


def chat(*turns: tuple[str, object]) -> dict[str, object]:
    return {"id": "x", "conversations": [{"from": who, "value": what} for who, what in turns]}


def written(folder: Path, content: object) -> str:
    path = folder / "chats.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_the_peoples_turns_are_read_in_order(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        [
            chat(("human", "Why is the sky blue?"), ("gpt", "Scattering."), ("human", " And at dusk? ")),
            chat(("system", "Be brief."), ("user", "Grüße auf Französisch?")),
        ],
    )
    assert read_user_turns(path) == ["Why is the sky blue?", "And at dusk?", "Grüße auf Französisch?"]


def test_what_is_no_persons_text_is_passed_over(tmp_path: Path) -> None:
    odd: list[object] = [
        None,
        3,
        {"conversations": None},
        {"conversations": []},
        {"conversations": ["hello"]},
    ]
    path = written(tmp_path, [*odd, chat(("human", " \n"), ("human", 5), ("human", "Hello"))])
    assert read_user_turns(path) == ["Hello"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"conversations"', "must be JSON"),
        (b"", "must be JSON"),
        (b"\xff\xfe[]", "must be UTF-8 text, got byte 0 that is not"),
        (b"[" * 100_000, "got JSON nested too deep"),
        (b'{"conversations": []}', "got a JSON object"),
        (b"null", "got a JSON null"),
        (b"[]", "must hold at least 1 turn from human or user with text, got none in 0 chats"),
        (b'[{"conversations": [{"from": "gpt", "value": "Hi"}]}]', "got none in 1 chats"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "chats.json"
    path.write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        read_user_turns(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}: must ")
    assert message in text
    assert "\n" not in text


def test_a_missing_file_is_one_line_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.json"
    with pytest.raises(
        WorkloadError, match="must be a chat file that can be read, got: No such file"
    ) as caught:
        read_user_turns(str(path))
    assert str(path) in str(caught.value)
