import itertools
import os
import uuid
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workloads.written_trace import HEADER, stamp, write_trace
from workloads.errors import WorkloadError
from workloads.lengths import LONGEST_TOKENS
from workloads.trace import read_trace

ROW = "2023-11-16 18:15:46.6805900,374,44"
LATER = "2023-11-16 18:15:50.9951690,396,109"
FORM = "TIMESTAMP must be a time such as 2023-11-16 18:15:46.6805900, got"
NAMES = "must name the columns TIMESTAMP,ContextTokens,GeneratedTokens, got"

rows_strategy = st.lists(
    st.tuples(st.integers(0, 10**12), st.integers(0, 9000), st.integers(0, 3000)), min_size=1, max_size=40
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=rows_strategy,
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    tail=st.sampled_from(["", "\n", "\r\n", "\r\n\r\n"]),
)
def test_what_is_written_is_read_to_the_last_digit(
    tmp_path: Path, rows: list[tuple[int, int, int]], end: str, mark: bytes, tail: str
) -> None:
    path = write_trace(tmp_path / f"{uuid.uuid4()}.csv", rows, end)
    path.write_bytes(mark + path.read_bytes() + tail.encode())
    trace = read_trace(path)
    kept = [row for row in rows if row[1] and row[2]]
    assert trace.arrival_ns.tolist() == [100 * (ticks - rows[0][0]) for ticks, _, _ in kept]
    assert trace.prompt_tokens.tolist() == [prompt for _, prompt, _ in kept]
    assert trace.output_tokens.tolist() == [output for _, _, output in kept]
    assert trace.empty_rows == len(rows) - len(kept)
    assert trace.same_times == sum(a[0] == b[0] for a, b in itertools.pairwise(kept))
    first_empty = next((line for line, row in enumerate(rows, start=2) if not row[1] * row[2]), None)
    assert trace.first_empty_line == first_empty


def read(folder: Path, content: str | bytes, name: str = "trace.csv") -> str:
    """Read a file of this content; what it is refused with, without its folder."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        trace = read_trace(path)
    except WorkloadError as error:
        return str(error).removeprefix(f"{folder}{os.sep}")
    return f"{trace.arrival_ns.tolist()} {trace.prompt_tokens.tolist()} {trace.output_tokens.tolist()}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", f"trace.csv:1: {NAMES} an empty file"),
        (f"\n{HEADER}\n{ROW}", f"trace.csv:1: {NAMES} an empty line"),
        (HEADER, "trace.csv: must hold at least 1 row after the header, got none"),
        (f"{HEADER}\r\n\r\n,,\r\n", "trace.csv: must hold at least 1 row after the header, got none"),
        ("arrival,prompt,output\n1,2,3", f"trace.csv:1: {NAMES} arrival,prompt,output"),
        (HEADER.replace(",", ";"), f"trace.csv:1: {NAMES} TIMESTAMP;ContextTokens;GeneratedTokens"),
        (ROW, f"trace.csv:1: {NAMES} {ROW}"),
        (f"{HEADER},ContextTokens\n{ROW},3", f"trace.csv:1: {NAMES} {HEADER},ContextTokens"),
        (f"{HEADER}\n{ROW}".encode("utf-16"), "trace.csv:1: must be UTF-8 text, got byte 0 that is not"),
        (f"{HEADER}\n{ROW}\né".encode("latin-1"), "trace.csv:3: must be UTF-8 text, got byte 75 that is not"),
        (f"{HEADER}\n{ROW}\n\n{stamp(99)},3\n{LATER}", f"trace.csv:4: must have 3 values, got 2: '{stamp(99)},3'"),
        (f'{HEADER}\n"{ROW}\n{LATER}', f"trace.csv:2: must have 3 values, got 1: '\"{ROW}\\n{LATER}'"),
        (f"{HEADER}\n{ROW}\n\r\n18:15:47,3,4", f"trace.csv:4: {FORM} '18:15:47'"),
        (f"{HEADER}\n{ROW}\n1700158547.25,3,4", f"trace.csv:3: {FORM} '1700158547.25'"),
        (f"{HEADER}\n{ROW}\n2023-13-16 18:15:47,3,4\nx,y,z", f"trace.csv:3: {FORM} '2023-13-16 18:15:47'"),
        (f"{HEADER}\n2023-11-16 18:15:46.1234567891,3,4", f"trace.csv:2: {FORM} '2023-11-16 18:15:46.1234567891'"),
        (f"{HEADER}\n{ROW}\n2023-11-17 18:15:46+00:00,3,4", f"trace.csv:3: {FORM} '2023-11-17 18:15:46+00:00'"),
        (f"{HEADER}\n{LATER}\n{ROW}", "trace.csv:3: TIMESTAMP must not be before the row above, 2023-11-16 18:15:50.9951690, got 2023-11-16 18:15:46.6805900"),
        (f"{HEADER}\n{ROW}\n{LATER[:-3]}-1", f"trace.csv:3: GeneratedTokens must be in 0..{LONGEST_TOKENS}, got -1"),
        (f"{HEADER}\n{ROW},\n{LATER}", f"trace.csv:2: must have 3 values, got 4: '{ROW},'"),
        (f"{HEADER}\n{ROW}\n{LATER[:-3]}", "trace.csv:3: GeneratedTokens must be a whole number of tokens, got ''"),
        (f"{HEADER}\n{ROW}\n{LATER}.5", "trace.csv:3: GeneratedTokens must be a whole number of tokens, got '109.5'"),
        (f"{HEADER}\n{ROW}\n{LATER}{'0' * 20}", f"trace.csv:3: GeneratedTokens must be a whole number of tokens, got '109{'0' * 20}'"),
        (f"{HEADER}\n{ROW}\n{LATER}00000", f"trace.csv:3: GeneratedTokens must be in 0..{LONGEST_TOKENS}, got 10900000"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused_with_its_line_and_what_must_hold(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    assert read(tmp_path, content) == said


def test_the_first_of_many_faults_is_named_by_its_line(tmp_path: Path) -> None:
    lines = [f"{stamp(place)},3,4" for place in range(5000)]
    lines[3210] = lines[3210].replace(",3,", ",three,")
    lines[4321] = lines[4321].replace(",3,", ",drei,")
    text = "\n".join([HEADER, *lines[:1000], "", *lines[1000:]])
    assert (
        read(tmp_path, text) == "trace.csv:3213: ContextTokens must be a whole number of tokens, got 'three'"
    )


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir], ids=["missing", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, make: object) -> None:
    path = tmp_path / "trace.csv"
    make(path)  # type: ignore[operator]
    with pytest.raises(WorkloadError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}: must be a trace file that can be read, got: ")


def test_columns_may_stand_in_any_order_among_others(tmp_path: Path) -> None:
    text = "GeneratedTokens,model,TIMESTAMP,ContextTokens\n44,a,2023-11-16 18:15:46,374\n5,b,2023-11-16T18:15:46.5,6"
    assert read(tmp_path, text) == "[0, 500000000] [374, 6] [44, 5]"


def test_times_with_an_offset_count_from_one_clock(tmp_path: Path) -> None:
    text = f"{HEADER}\n2024-05-10 01:00:00.000001+01:00,3,4\n2024-05-10 00:00:01+00:00,3,4"
    assert read(tmp_path, text) == "[0, 999999000] [3, 3] [4, 4]"


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.csv", [(0, 3, 4), (9, 5, 6)])
    first = read_trace(path)
    assert read_trace(path) is first
    write_trace(path, [(0, 3, 4), (9, 5, 6), (9, 7, 8)])
    assert read_trace(path).prompt_tokens.tolist() == [3, 5, 7]


def test_rows_are_chosen_before_empty_ones_are_left_out(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "trace.csv", [(i, i + 1, i % 3) for i in range(10)])
    trace = read_trace(path, skip_rows=2, rows=5)
    assert trace.prompt_tokens.tolist() == [3, 5, 6]
    assert (trace.empty_rows, trace.first_empty_line) == (2, 5)
    np.testing.assert_array_equal(trace.arrival_ns, [200, 400, 500])
    assert len(read_trace(path, skip_rows=10)) == 0
