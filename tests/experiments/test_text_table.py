"""Columns that are aligned, and give way in their turn where there is no room; numbers never do."""

import pytest
from rich.cells import cell_len

from experiments.text_table import Column, fit, lines

COLUMNS = (
    Column(title="who", least=4, turn=1),
    Column(title="n", right=True),
    Column(title="what", least=3),
)
ROWS = (("huggingface", "12345", "too-short"), ("vllm", "7", ""))


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (120, ["who              n  what", "huggingface  12345  too-short", "vllm             7"]),
        (27, ["who             n what", "huggingface 12345 too-short", "vllm            7"]),
        (24, ["who             n what", "huggingface 12345 too-s…", "vllm            7"]),
        (18, ["who          n wh…", "hugging… 12345 to…", "vllm         7"]),
        (8, ["who    …", "hug… 12…", "vllm   …"]),
    ],
)
def test_columns_give_way_in_their_turn(width: int, expected: list[str]) -> None:
    assert lines(COLUMNS, ROWS, width) == expected


@pytest.mark.parametrize("width", range(60))
def test_no_line_is_ever_wider(width: int) -> None:
    rows = [*ROWS, ("模型 · 三十二", "1", "日本語日本語")]
    assert all(cell_len(line) <= width for line in lines(COLUMNS, rows, width))


def test_a_title_alone_is_a_table_too() -> None:
    assert lines(COLUMNS, [], 80) == ["who n what"]


@pytest.mark.parametrize(("width", "expected"), [(9, "too-short"), (8, "too-sho…"), (1, "…"), (0, "")])
def test_a_text_is_cut_where_it_does_not_fit(width: int, expected: str) -> None:
    assert fit("too-short", width) == expected
