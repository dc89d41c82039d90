"""What is said of a foreign error in one line."""

import pytest

from results.errors import one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no room\nat all", "no room"),
        ("\n  no room \n", "no room"),
        ("field 'vocab_size':\n    expected int\n    got str", "field 'vocab_size': expected int"),
        ("in a:\n\nin b:\n  no\nmore", "in a: in b: no"),
        ("in a:", "in a:"),
        ("", "ValueError"),
    ],
)
def test_the_first_line_that_says_something_is_said(text: str, line: str) -> None:
    assert one_line(ValueError(text)) == line
